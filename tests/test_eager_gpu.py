"""Eager functions of every dialect on a GPU (ci/gpu): the kind of array that came goes back, bits and errors are the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends.cuda import DeviceError, require
from tests import seeds

pytestmark = pytest.mark.gpu

NUMBERS = dg.lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))


@pytest.fixture(scope="module")
def cupy() -> Any:
    try:
        return require(0)
    except DeviceError as error:
        pytest.skip(str(error))


def calls() -> dict[str, tuple[Any, list[Any], dict[str, Any]]]:
    """Function, arrays, other arguments; fresh arrays each time."""
    rng = seeds.numpy_rng()
    data = rng.random((40, 30), np.float32)
    rows, pairs = rng.integers(-40, 40, 17), rng.integers(-30, 30, (9, 2))
    wild = rng.integers(-100, 100, (9, 2))
    return {
        "onnx gather": (dg.onnx.gather, [data, rows], {"axis": 0}),
        "onnx elements": (dg.onnx.gather_elements, [data, rng.integers(-30, 30, (40, 8))], {"axis": 1}),
        "onnx tuples": (dg.onnx.gather_nd, [data, pairs], {}),
        "onnx slice": (dg.onnx.slice, [data], {"starts": [-1], "ends": [-50], "axes": [0], "steps": [-3]}),
        "openvino": (dg.openvino.gather, [data, wild], {"axis": 1}),
        "lax clip": (dg.lax.gather, [data, wild], {"dimension_numbers": NUMBERS, "slice_sizes": (2, 5), "mode": "clip"}),
        "lax fill": (dg.lax.gather, [data, wild], {"dimension_numbers": NUMBERS, "slice_sizes": (2, 5), "mode": "fill"}),
    }


@pytest.mark.parametrize(
    "name", ["onnx gather", "onnx elements", "onnx tuples", "onnx slice", "openvino", "lax clip", "lax fill"]
)
def test_the_bits_of_the_cpu(cupy: Any, name: str) -> None:
    function, arrays, more = calls()[name]
    expected = function(*arrays, **more)
    result = function(*map(cupy.asarray, arrays), **more)
    assert isinstance(result, cupy.ndarray)
    assert result.get().tobytes() == expected.tobytes()
    moved = function(*arrays, **more, device="cuda")
    assert isinstance(moved, np.ndarray)
    assert moved.tobytes() == expected.tobytes()


def test_a_bad_index_is_an_error_at_once(cupy: Any) -> None:
    data, indices = np.zeros((5, 2), np.float32), np.array([0, 3, -6, 9])
    with pytest.raises(IndexError) as host:
        dg.onnx.gather(data, indices)
    with pytest.raises(IndexError) as device:
        dg.onnx.gather(cupy.asarray(data), cupy.asarray(indices))
    assert str(device.value) == str(host.value)
    assert "indices[2] = -6" in str(host.value)


def test_arrays_in_different_places_are_refused(cupy: Any) -> None:
    with pytest.raises(TypeError, match=r"data on cuda:0, indices on cpu"):
        dg.onnx.gather(cupy.zeros((5, 2)), np.array([1]))
