"""The worked examples of the pages of GatherElements, GatherND, Slice and StridedSlice, and bad indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests.gpus import placed

ov = dg.openvino
DEVICES = ("cpu", "reference")
TEN, SQUARE = np.arange(10), np.array([[1, 2], [3, 4]])
CUBES = np.arange(1, 25).reshape(2, 3, 4)
PAIRS = np.arange(1, 17).reshape(1, 2, 2, 4)
HYPERCUBE = np.arange(4**4).reshape(4, 4, 4, 4)
TUPLES = np.array([[[[1]], [[0]], [[2]]], [[[0]], [[2]], [[2]]]])
PICKED = [2, 5, 11, 13, 19, 23]

STRIDED: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("with reverse", (HYPERCUBE, [0, 1, 3, 3], [4, 4, 0, 0], [2, 1, -1, -2]), {}, HYPERCUBE[0:4:2, 1:4, 3:0:-1, 3:0:-2]),
    ("from the end", (CUBES, [0, 0, 0], [2, 2, -1], [1, 1, 1]), {}, CUBES[0:2, 0:2, 0:-1]),
    # the page says so in words; its sizes leave the first element out
    ("with masks", (CUBES, [1, 1, 123], [0, 0, 2], [1, 1, -1], [0, 1, 1], [1, 1, 1]), {}, CUBES[1:, :, ::-1]),
    ("with new axes", (SQUARE, [9, 0, 9, 0], [9, 2, 9, 4], [9, 1, 9, 1]), {"new_axis_mask": [1, 0, 1, 0]}, SQUARE[None, :, None]),
    ("shrunk", (CUBES, [0, 1, 2], [0, 1, 2]), {"shrink_axis_mask": [1, 0, 1], "end_mask": [0, 1]}, CUBES[0, 1:, 2]),
    ("with an ellipsis", (CUBES, [1, 10, 0], [2, 10, 2], [1, -12, 1]), {"ellipsis_mask": [0, 1, 0]}, CUBES[1:2, ..., 0:2]),
]
EXAMPLES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = {
    **{
        f"GatherElements {number}": (ov.gather_elements, (np.array(data), np.array(indices), axis), {}, right)
        for number, data, indices, axis, right in (
            (1, SQUARE, [[0, 1], [0, 0]], 0, [[1, 4], [1, 2]]),
            (2, [[1, 7], [4, 3]], [[1, 1, 0], [1, 0, 1]], 1, [[7, 7, 1], [3, 4, 3]]),
            (3, np.arange(1, 10).reshape(3, 3), [[1, 0, 1], [1, 2, 0]], 0, [[4, 2, 6], [4, 8, 3]]),
        )
    },
    **{
        f"GatherND-{version} {number}": (ov.gather_nd, arguments, {"version": version}, right)
        for version in (5, 8)
        for number, arguments, right in (
            (1, (SQUARE, np.array([[0, 0], [1, 0]])), [1, 3]),
            (2, (SQUARE, np.array([[1], [0]])), [[3, 4], [1, 2]]),
            (3, (SQUARE, np.array([[[1]], [[0]]])), [[[3, 4]], [[1, 2]]]),
            (4, (SQUARE, np.array([[1], [0]]), 1), [2, 3]),
            (5, (CUBES, np.array([[1], [0]]), 1), [[5, 6, 7, 8], [13, 14, 15, 16]]),
            (6, (CUBES, TUPLES, 2), np.reshape(PICKED, (6, 1) if version == 5 else (2, 3, 1)).tolist()),
        )
    },
    "GatherND-8 7": (ov.gather_nd, (PAIRS, np.array([[[[1], [0]], [[3], [2]]]]), 3), {}, [[[2, 5], [12, 15]]]),
    **{
        f"Slice {number}": (ov.slice, (data, *bounds), {}, right)
        for number, data, bounds, right in (
            (1, TEN, ([1], [8], [1], [0]), TEN[1:8].tolist()),
            (2, TEN, ([1], [8], [1]), TEN[1:8].tolist()),
            (3, TEN, ([1], [8], [2], [0]), [1, 3, 5, 7]),
            (4, TEN, ([-100], [100], [1], [0]), TEN.tolist()),
            (5, TEN, ([9], [-11], [-1], [0]), TEN[::-1].tolist()),
            (6, TEN, ([9], [0], [-1], [0]), TEN[:0:-1].tolist()),
            (7, TEN, ([9], [-10], [-1], [0]), TEN[:0:-1].tolist()),
            (8, TEN, ([9], [-11], [-2], [0]), [9, 7, 5, 3, 1]),
            (9, TEN, ([100], [-100], [-1], [0]), TEN[::-1].tolist()),
            (10, TEN.reshape(2, 5), ([0, 1], [2, 4], [1, 2], [0, 1]), [[1, 3], [6, 8]]),
        )
    },
    **{f"StridedSlice {name}": (ov.strided_slice, arguments, masks, right.tolist()) for name, arguments, masks, right in STRIDED},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name: str, device: str) -> None:
    function, arguments, named, right = EXAMPLES[name]
    assert function(*arguments, **named, device=device).tolist() == right


X, INDICES = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int64)


def test_indices_out_of_range_are_errors_with_their_place() -> None:
    with pytest.raises(IndexError, match=r"^indices\[0, 1\] = 3 is out of range for axis 0 of size 3: valid indices are -3 … 2$"):
        ov.gather_elements(X, np.array([[0, 3, 0, 0]]), 0)
    with pytest.raises(
        IndexError, match=r"^indices\[1, 1\] = -5 is out of range for axis 1 of size 4: valid indices are -4 … 3$"
    ):
        ov.gather_nd(X, np.array([[0, 0], [0, -5]], np.int8))
    data = np.arange(12).reshape(3, 4)
    assert ov.gather_nd(data, np.array([[9, 9]]), out_of_bounds="clamp").tolist() == [11]
    assert ov.gather_elements(data, np.array([[9, 0, 0, 0]]), 0, out_of_bounds=dg.Fill(-1)).tolist() == [[-1, 1, 2, 3]]


@pytest.mark.gpu(devices=2)
def test_bounds_on_a_gpu_are_not_fetched() -> None:
    x, bounds = placed(X), placed(np.array([0]), 1)
    with pytest.raises(TypeError, match="stop lies on cuda:1, but its values decide the result's shape"):
        ov.slice(x, [0], bounds, [1])
    with pytest.raises(TypeError, match="strides lies on cuda:1, but its values decide the result's shape"):
        ov.strided_slice(x, [0], [1], bounds)


def test_a_call_is_kept_by_the_values_of_its_bounds() -> None:
    for first in (0, 2, 0, 1):
        assert ov.slice(TEN, np.array([first]), [10], [3]).tolist() == TEN[first::3].tolist()
        assert ov.strided_slice(SQUARE, [first % 2], [2], shrink_axis_mask=[1]).tolist() == SQUARE[first % 2].tolist()
        assert ov.strided_slice(SQUARE, [first % 2], [2]).tolist() == SQUARE[first % 2 :].tolist()
    for version, shape in ((8, (2, 3, 1)), (5, (6, 1)), (8, (2, 3, 1))):
        assert ov.gather_nd(CUBES, TUPLES, 2, version=version).shape == shape
