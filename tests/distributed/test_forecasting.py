"""Forecasts of gathers. Judges: NumPy, counting rows chunk by chunk; the tasks of a gather; `validate` for the whole."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.distributed.chunked_gather import gather
from dmlgather.distributed.forecast import GatherForecast, plan_gather
from tests import seeds


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_every_number_is_what_numpy_counts(seed: int) -> None:
    rng = random.Random(seed)
    sizes = tuple(rng.choice([0, 1, 1, 3, 10]) for _ in range(rng.randint(1, 6)))
    columns = rng.choice([(4,), (2, 3), (0,)])
    width, widest, extent = sum(columns), max(columns), sum(sizes)
    shape = [rng.randint(0, 6) for _ in range(rng.randint(0, 2))]
    indices = np.array([rng.randint(-extent - 1, extent) for _ in range(int(np.prod(shape, dtype=int)))], np.int64).reshape(shape)
    options: Any = {"block_bytes": rng.choice([1, 40, 10**6]), "in_flight_bytes": rng.choice([1, 100, 10**6])}
    forecast = plan_gather((sizes, columns), indices, dialect="openvino", dtype="f2", workers=2, threads=3, **options)
    starts = np.cumsum([0, *sizes])
    positions = np.where(indices < 0, indices + extent, indices).reshape(-1)
    inside = positions[(positions >= 0) & (positions < extent)]
    counts = [int(((inside >= low) & (inside < high)).sum()) for low, high in pairwise(starts.tolist())]
    different = [len(np.unique(inside[(inside >= low) & (inside < high)])) for low, high in pairwise(starts.tolist())]
    assert {chunk.chunk: chunk.requests for chunk in forecast.touched} == {at: count for at, count in enumerate(counts) if count}
    assert {chunk.chunk: chunk.rows for chunk in forecast.touched} == {at: count for at, count in enumerate(different) if count}
    untouched = [chunk for span in forecast.untouched for chunk in range(span.first, span.last + 1)]
    assert sorted([*untouched, *(chunk.chunk for chunk in forecast.touched)]) == list(range(len(sizes)))
    assert (forecast.requests, forecast.filled) == (inside.size, positions.size - inside.size)
    assert forecast.clamped == 0
    if extent:
        clamping = plan_gather((sizes, columns), indices, dtype="f2")
        assert (clamping.requests, clamping.filled, clamping.clamped) == (indices.size, 0, indices.size - inside.size)
    assert forecast.output_bytes == indices.size * width * 2
    assert [sum(each) for each in forecast.output_chunks] == list(forecast.output_shape) == [*shape, width]
    for chunk in forecast.touched:
        assert (chunk.start, chunk.size) == (starts[chunk.chunk], sizes[chunk.chunk])
        assert chunk.bytes_loaded == chunk.loads * chunk.size * width * 2
        assert chunk.bytes_taken == chunk.rows_taken * width * 2
        assert chunk.rows <= chunk.rows_taken <= min(chunk.requests, chunk.rows * chunk.loads)
        assert (chunk.take is None) is (widest == 0)
    assert forecast.duplicates_removed == inside.size - sum(chunk.rows_taken for chunk in forecast.touched)
    if forecast.groups == 1:
        assert [chunk.loads for chunk in forecast.touched] == [1] * len(forecast.touched)
        assert forecast.duplicates_removed == inside.size - sum(different)
        loads = [chunk.size + chunk.rows for chunk in forecast.touched]
        held = [sum(chunk.rows for chunk in forecast.touched[worker::2]) for worker in range(2)]
        assert forecast.peak.take_bytes == max(loads, default=0) * widest * 2
        assert forecast.peak.held_bytes == max(held) * widest * 2
        assert (
            forecast.peak_bytes_per_worker
            == 3 * max(forecast.peak.take_bytes, forecast.peak.place_bytes) + forecast.peak.held_bytes
        )
    if forecast.blocks == 1:
        assert forecast.peak.place_bytes == 3 * indices.size * widest * 2
    written = json.loads(forecast.model_dump_json())
    assert written["duplicates_removed"] == forecast.duplicates_removed
    assert GatherForecast.model_validate_json(forecast.model_dump_json(exclude_computed_fields=True)) == forecast


def test_a_forecast_is_what_runs() -> None:
    rng = seeds.numpy_rng()
    table = da.zeros((60, 6), chunks=(7, 4), dtype="f4")
    indices = rng.integers(0, 40, (9, 4))
    forecast = plan_gather(table.chunks, indices, block_bytes=200, in_flight_bytes=500)
    output = gather(table, indices, block_bytes=200, in_flight_bytes=500)
    assert (output.shape, output.chunks) == (forecast.output_shape, forecast.output_chunks)
    taken = Counter(key[2] for key in dict(output.dask) if isinstance(key, tuple) and key[0].startswith("gather-take"))
    assert taken == {chunk.chunk: chunk.loads * 2 for chunk in forecast.touched}
    assert forecast.groups > 1
    assert forecast.blocks > forecast.groups


def test_a_legal_whole_may_be_illegal_in_parts_and_the_reverse() -> None:
    few = np.arange(3)
    large = plan_gather(((2**20,) * 5000, (64,)), few * 2**31)
    assert [finding.code for finding in large.whole.findings] == ["EXP107"]
    assert large.whole.descriptor is None
    assert large.ok
    many = plan_gather(((4,), *((1,),) * 6), np.zeros((1, 2, 3), np.int64))
    assert many.ok
    assert many.whole.ok
    wide = plan_gather(((2**16,), (2**17,)), few, in_flight_bytes=2**60, block_bytes=2**60)
    assert not wide.ok
    assert not wide.whole.ok
    assert "rechunk the table into smaller chunks" in str(wide)
    long = plan_gather(((2**33, 2**33),), few * 2**32)
    assert [chunk.take.descriptor for chunk in long.touched if chunk.take] == [None, None]
    assert not long.ok
    rows = plan_gather(((4, 4), (1,) * 2, *((1,),) * 7), few)
    assert not rows.ok  # nine dimensions, which only a whole in which neighbours lie packed can merge
    assert rows.whole.ok
    for chunk in rows.touched:
        assert chunk.take is not None
        assert chunk.take.descriptor is not None
        assert {finding.code for finding in chunk.take.findings} >= {"DML102"}
        assert not dg.validate(chunk.take.descriptor).ok


@pytest.mark.parametrize(("dtype", "clamped"), [("int32", 4), ("int64", 4), ("uint32", 2), ("uint64", 2)])
def test_indices_beyond_either_end_are_counted(dtype: str, clamped: int) -> None:
    limits = np.iinfo(dtype)
    inside, outside = ([0, 4], [5, limits.max]) if limits.min == 0 else ([0, 4, -1, -5], [5, limits.max, -6, limits.min])
    assert plan_gather(((5,),), np.array([*inside, *outside], dtype)).clamped == clamped


def test_a_forecast_is_a_table() -> None:
    forecast = plan_gather(((10,) * 8, (16, 16)), [[0, 1, 79], [1, 1, 45]], workers=2, threads=1, memory_limit=10**6)
    assert str(forecast).splitlines() == [
        "gather of float32 [80, 32] along axis 0 by indices [2, 3]; directml, clamp",
        "  output       [2, 3, 32], 768 bytes, 1 block in 1 group",
        "  chunks       3 of 8 touched; never loaded: 1 … 3, 5 … 6",
        "  requests     6, 2 duplicates removed, 0 clamped",
        "  loaded       3.75 KiB in 3 loads",
        "  rows taken   512 bytes",
        "  peak memory  1.312 KiB of each of 2 workers, 976.6 KiB allowed:",
        "    1 thread x max(chunk and its rows 768 bytes, 3 blocks 1.125 KiB) + rows of a group 192 bytes",
        "  compute()    64.02 MiB of this process:",
        "    max(indices 384 bytes, graph of tasks 64.02 MiB + result 768 bytes + its copy 768 bytes)",
        "    Dask joins the result on one worker, which then needs up to 2.812 KiB, 976.6 KiB allowed",
        "",
        "  chunk     rows  requests  different  loads    loaded      taken  descriptor",
        "      0    0 … 9         4          2      1  1.25 KiB  256 bytes  legal",
        "      4  40 … 49         1          1      1  1.25 KiB  128 bytes  legal",
        "      7  70 … 79         1          1      1  1.25 KiB  128 bytes  legal",
        "  one descriptor for all chunks: legal",
    ]
    long = str(plan_gather(((1,) * 50,), np.arange(50)))
    assert "  and 30 chunks of which less is taken" in long.splitlines()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: plan_gather(((4,), (3, 3)), [0, 6], axis=-1, dialect="onnx"),
            IndexError,
            r"indices\[1\] = 6 is .* axis 1 of size 6",
        ),
        (lambda: plan_gather(((3, nan),), [0]), ValueError, r"chunks\[0\] is \(3, nan\), .* 0 or more: call compute_chunk_sizes"),
        (lambda: plan_gather(((3,),), [0], axis=2), ValueError, "axis is 2, but the table has rank 1"),
        (lambda: plan_gather(((3,),), [0], threads=0), ValueError, "threads is 0, expected at least 1"),
        (lambda: plan_gather(((3,),), [0.5]), TypeError, "IndicesTensor has type float64"),
        (lambda: plan_gather((3, 4), [0]), TypeError, r"chunks\[0\] is 3, expected the sizes of all chunks along axis 0"),
        (lambda: plan_gather(((3,), (2, "3")), [0]), TypeError, r"chunks\[1\] is \(2, '3'\), .* all chunks along axis 1"),
        (
            lambda: plan_gather(np.zeros(3, np.float32), [0], dtype="f8"),
            TypeError,
            "dtype is 'f8', but the table has type float32: leave dtype out",
        ),
        (lambda: plan_gather(((3,),), da.zeros(3, int)), ValueError, r"indices is a dask array, .* pass indices.compute\(\)"),
        (lambda: plan_gather("no.npy", [0]), FileNotFoundError, r"no\.npy does not exist"),
    ],
)
def test_mistakes_are_refused(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_forecasting_needs_no_dask() -> None:
    script = (
        "import sys; sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "from dmlgather.distributed.forecast import plan_gather\n"
        "print(plan_gather(((3, 3),), [5]).touched[0].chunk)\n"
        "try: plan_gather('x.npy', [5])\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("1\na table, unless the sizes of its chunks along each axis are given, needs the package dask")
    assert run.stdout.endswith("(dmlgather's extra dask)\n")
