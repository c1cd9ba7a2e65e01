"""bool arrays of other libraries with bytes other than 0 and 1. Every function moves their bytes on every device.

Judge: the same call on the same bytes as uint8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest

import dmlgather as dg
from tests import seeds
from tests.gpus import SECOND, host, placed
from tests.test_eager_streams import CALLS as EVERY_CALL

Array = np.ndarray[Any, Any]

DEVICES = ("cpu", "reference", SECOND)
TABLE = (6, 5)
ROWS = np.array([3, -1, 0, 3])
WIDE = np.array([[2, 0, -1, 5, 5], [1, 1, 1, 0, 4]])
PAIRS = np.array([[5, 0], [-1, -5], [2, 3]])
NUMBERS = dg.lax.GatherDimensionNumbers((1, 2), (), (0,))
WINDOWS = {"dimension_numbers": NUMBERS, "start_indices": np.array([[1], [4], [9]]), "slice_sizes": (2, 5)}

CALLS: dict[str, tuple[Callable[..., Any], list[Any], dict[str, Any]]] = {
    **{repr(function): (function, given, more) for function, (given, more, _) in EVERY_CALL.items()},
    "openvino.gather, out of range": (dg.openvino.gather, [np.zeros(TABLE), ROWS * 3], {"axis": 0}),
    "lax.gather, clip": (dg.lax.gather, [np.zeros(TABLE)], {"mode": "clip", **WINDOWS}),
    "lax.gather, fill": (dg.lax.gather, [np.zeros(TABLE)], {"mode": "fill", "fill_value": 0, **WINDOWS}),
    **{
        f"onnx.gather, {policy}": (dg.onnx.gather, [np.zeros(TABLE), ROWS], {"out_of_bounds": policy})
        for policy in ("clamp", "promise", dg.Fill(0))
    },
}
"""Functions, their arguments, the first array of which is the data, and their other arguments."""

DESCRIPTORS: dict[str, Callable[[Array], tuple[dg.OperatorDesc, tuple[Array, ...]]]] = {
    "GATHER": lambda data: (dg.GatherOperatorDesc.of(data, ROWS, 0), (ROWS.reshape(1, -1),)),
    "GATHER_ELEMENTS": lambda data: (dg.GatherElementsOperatorDesc.of(data, WIDE), (WIDE,)),
    "GATHER_ND": lambda data: (dg.GatherNDOperatorDesc.of(data, PAIRS), (PAIRS,)),
    "GATHER_ND1": lambda data: (dg.GatherND1OperatorDesc.of(data, PAIRS), (PAIRS,)),
    "SLICE": lambda data: (dg.SliceOperatorDesc.of(data, strides=(2, 1)), ()),
    "SLICE1": lambda data: (dg.Slice1OperatorDesc.of(data, input_window_strides=(-1, 2)), ()),
    "DEPTH_TO_SPACE1": lambda data: (dg.DepthToSpace1OperatorDesc.of(data[:4].reshape(1, 4, 5, 1), 2), ()),
    "SPACE_TO_DEPTH1": lambda data: (dg.SpaceToDepth1OperatorDesc.of(data[:, :4].reshape(1, 1, 6, 4), 2), ()),
}


def raw(shape: tuple[int, ...]) -> Array:
    return seeds.numpy_rng().integers(2, 256, shape, np.uint8)


def bits(found: Any) -> bytes:
    """Return the bytes of an array, because a comparison of bools hides differences."""
    return bytes(host(found.view(np.uint8)).tobytes())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CALLS)
def test_functions_copy_the_bytes_of_bools(name: str, device: str) -> None:
    function, arguments, more = CALLS[name]
    at = next(number for number, given in enumerate(arguments) if isinstance(given, np.ndarray))
    data = raw(arguments[at].shape)
    for given in (data, data[..., ::-1]):
        found, right = (
            function(*arguments[:at], array, *arguments[at + 1 :], **more, device=where)
            for array, where in ((given.view(bool), device), (given, "cpu"))
        )
        assert found.dtype == bool
        assert bits(found) == bits(right)


@pytest.mark.parametrize("policy", [None, "raise", dg.Fill(0)], ids=str)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", DESCRIPTORS)
def test_operators_copy_the_bytes_of_bools(name: str, device: str, policy: Any) -> None:
    desc, indices = DESCRIPTORS[name](raw(TABLE))
    data = raw(desc.tensor("input_tensor").sizes)
    right = dg.compile(desc, "cpu")(data, *indices)
    assert set(np.unique(right)) <= set(np.unique(data))
    place: Callable[[Array], Any] = (lambda array: placed(array, 1)) if device == "cuda:1" else np.asarray
    inputs = [*map(place, (data.view(bool), *indices))]
    operator = dg.compile(desc, device, out_of_bounds=policy)
    assert bits(operator(*inputs)) == bits(right)
    for kind in (bool, np.uint8):
        out = place(np.empty(right.shape, kind))
        operator(*inputs, out=out)
        assert bits(out) == bits(right)
    assert dg.compare(desc, data.view(bool), *indices, devices=("cpu", "reference")).equal


def test_chunked_tables_copy_the_bytes_of_bools() -> None:
    data = raw((40, 5))
    rows, columns = (da.from_array(data.view(bool), chunks=chunks) for chunks in ((7, 5), (40, 2)))
    for found, right in (
        (dg.distributed.gather(rows, ROWS, dialect="onnx"), data[ROWS]),
        (dg.distributed.gather(rows, ROWS, dialect="openvino"), data[ROWS]),
        (dg.distributed.gather_elements(columns, WIDE, dialect="onnx"), np.take_along_axis(data, WIDE, 0)),
        (dg.distributed.slice(rows, [30], [2], [0], [-3]), data[30:2:-3]),
    ):
        assert bits(found.compute()) == bits(right)
