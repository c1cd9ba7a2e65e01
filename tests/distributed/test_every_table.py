"""Every public function of `dmlgather.distributed` takes every kind of table. Judge: NumPy's indexing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

import dmlgather as dg
from dmlgather.distributed.forecast import GatherForecast
from dmlgather.distributed.table_sources import as_table
from tests.distributed.counted import bits

X = np.arange(240, dtype=np.float32).reshape(60, 4)
IDS = np.array([[59, 0], [-1, 7]])
ELEMENTS = np.arange(120).reshape(60, 2) * 3 % 8 - 4


def _npy(folder: Path) -> Path:
    np.save(folder / "table.npy", X)
    return folder / "table.npy"


def _zarr(folder: Path) -> Path:
    zarr.create_array(folder / "table.zarr", shape=X.shape, chunks=(7, 4), dtype=X.dtype)[:] = X
    return folder / "table.zarr"


TABLES: dict[str, Callable[[Path], Any]] = {
    "dask": lambda _: da.from_array(X, chunks=(20, 4)),
    "NumPy": lambda _: X,
    "NumPy, other strides": lambda _: np.asfortranarray(X),
    "mapped .npy": lambda folder: np.load(_npy(folder), mmap_mode="r"),
    "path of .npy": _npy,
    "name of .npy": lambda folder: str(_npy(folder)),
    "zarr array": lambda folder: zarr.open_array(_zarr(folder), mode="r"),
    "path of zarr": _zarr,
    "URL of zarr": lambda folder: f"file://{_zarr(folder)}",
}


CALLS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "gather": (lambda table: dg.distributed.gather(table, IDS), X[IDS]),
    "gather_elements": (
        lambda table: dg.distributed.gather_elements(table, ELEMENTS, axis=1),
        np.take_along_axis(X, ELEMENTS, 1),
    ),
    "slice": (lambda table: dg.distributed.slice(table, [-2], [2], steps=[-7]), X[-2:2:-7]),
    "run": (lambda table: dg.distributed.run(dg.SliceOperatorDesc.of(X, (3, 1), strides=(5, 2)), table), X[3::5, 1::2]),
    "plan_gather": (lambda table: dg.distributed.plan_gather(table, IDS), X[IDS]),
}
"""By the name of each function: a call of it, and what NumPy makes of the same table."""


def test_no_function_is_forgotten() -> None:
    public = {name: getattr(dg.distributed, name) for name in dg.distributed.__all__}
    assert CALLS.keys() == {name for name, value in public.items() if not inspect.isclass(value)}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", CALLS)
def test_every_function_takes_a_table_of_any_kind(name: str, kind: str, tmp_path: Path) -> None:
    call, expected = CALLS[name]
    with dask.config.set({"scheduler": "synchronous", "array.chunk-size": "320B"}):
        table = TABLES[kind](tmp_path)
        found = call(table)
        if isinstance(found, GatherForecast):
            assert (found.output_shape, found.dtype, found.chunks > 1) == (expected.shape, "float32", True)
            assert found == dg.distributed.plan_gather(as_table(table).chunks, IDS)
        else:
            assert bits(found.compute()) == bits(expected)
