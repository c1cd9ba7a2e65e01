"""Corner cases of the operators, one row each, with the result written down by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import dmlgather as dg
from tests.dialects.outcomes import content, outcome
from tests.onnx.calling import run
from tests.onnx.specification import Call, expected

INT_MAX, INT64_MAX, INT64_MIN = 2**31 - 1, 2**63 - 1, -(2**63)
LINE = np.array([10, 11, 12, 13, 14], np.int32)
GRID = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
CUBE = np.array([[[0, 1], [2, 3]], [[4, 5], [6, 7]]], np.int32)
PIXELS = np.arange(1, 9, dtype=np.int32)
LONG = np.arange(70, dtype=np.int32) + 100


def ints(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def empty(*shape: int) -> np.ndarray[Any, Any]:
    return np.empty(shape, np.int32)


def walk(start: int, end: int, step: int | None = None, axis: int | None = None) -> dict[str, Any]:
    """The bounds of one axis."""
    given = {"starts": start, "ends": end, "axes": axis, "steps": step}
    return {name: [value] for name, value in given.items() if value is not None}


class Corner(NamedTuple):
    """One row: what is asked, and the result's elements and shape, or the exception."""

    name: str
    operator: str
    opsets: tuple[int, ...]
    arrays: tuple[Any, ...]
    named: dict[str, Any]
    result: Any


WALKING = (10, 11, 13)
ALL_SLICES = (1, 10, 11, 13)
CORNERS = (
    Corner("step -1, start below the axis", "Slice", WALKING, (LINE,), walk(-10, -20, -1), [10]),
    Corner("step -2, start and end below the axis", "Slice", WALKING, (LINE,), walk(-6, -100, -2), [10]),
    Corner("step -1 to end -1, which is the last element", "Slice", WALKING, (LINE,), walk(4, -1, -1), []),
    Corner("reversed, from -1 to INT64_MIN", "Slice", WALKING, (LINE,), walk(-1, INT64_MIN, -1), [14, 13, 12, 11, 10]),
    Corner("reversed, from INT_MAX to -2^31", "Slice", WALKING, (LINE,), walk(INT_MAX, -(2**31), -1), [14, 13, 12, 11, 10]),
    Corner("reversed, from INT64_MAX to -6", "Slice", WALKING, (LINE,), walk(INT64_MAX, -6, -1), [14, 13, 12, 11, 10]),
    Corner("backwards to INT64_MAX", "Slice", WALKING, (LINE,), walk(-1, INT64_MAX, -1), []),
    Corner("backwards to INT_MAX", "Slice", WALKING, (LINE,), walk(-1, INT_MAX, -1), []),
    Corner("step INT64_MAX", "Slice", WALKING, (LINE,), walk(1, INT64_MAX, INT64_MAX), [11]),
    Corner("step INT64_MIN", "Slice", WALKING, (LINE,), walk(3, INT64_MIN, INT64_MIN), [13]),
    Corner("step INT64_MIN + 1", "Slice", WALKING, (LINE,), walk(3, INT64_MIN, INT64_MIN + 1), [13]),
    Corner("step -100", "Slice", WALKING, (LINE,), walk(-1, -100, -100), [14]),
    Corner("step 2 from 1", "Slice", WALKING, (LINE,), walk(1, INT_MAX, 2), [11, 13]),
    Corner("step 0", "Slice", WALKING, (LINE,), walk(0, 5, 0), ValueError),
    Corner("start after end", "Slice", ALL_SLICES, (LINE,), walk(3, 2), []),
    Corner("start at the size", "Slice", ALL_SLICES, (LINE,), walk(5, INT_MAX), []),
    Corner("end beyond the size", "Slice", ALL_SLICES, (LINE,), walk(3, 1000), [13, 14]),
    Corner("start below the axis, forwards", "Slice", ALL_SLICES, (LINE,), walk(-100, 2), [10, 11]),
    Corner("end INT64_MIN, forwards", "Slice", ALL_SLICES, (LINE,), walk(0, INT64_MIN), []),
    Corner("axis named twice", "Slice", ALL_SLICES, (GRID,), {"starts": [0, 0], "ends": [1, 2], "axes": [1, 1]}, ValueError),
    Corner("axis and its alias", "Slice", ALL_SLICES, (GRID,), {"starts": [0, 0], "ends": [1, 2], "axes": [1, -1]}, ValueError),
    Corner("axis at the rank", "Slice", ALL_SLICES, (GRID,), walk(0, 1, axis=2), ValueError),
    Corner("axis below -rank", "Slice", ALL_SLICES, (GRID,), walk(0, 1, axis=-3), ValueError),
    Corner("negative axis", "Slice", ALL_SLICES, (GRID,), walk(0, 1, axis=-1), [[1], [4]]),
    Corner("unsorted axes", "Slice", ALL_SLICES, (GRID,), {"starts": [1, 1], "ends": [3, 2], "axes": [1, 0]}, [[5, 6]]),
    Corner("fewer starts than axes of data", "Slice", ALL_SLICES, (GRID,), walk(1, 2), [[4, 5, 6]]),
    Corner("steps without axes", "Slice", WALKING, (GRID,), walk(1, -3, -1), [[4, 5, 6], [1, 2, 3]]),
    Corner("steps in version 1", "Slice", (1, 9), (LINE,), walk(0, 1, 1), ValueError),
    Corner("starts longer than ends", "Slice", ALL_SLICES, (GRID,), {"starts": [0, 0], "ends": [1]}, ValueError),
    Corner("axes shorter", "Slice", ALL_SLICES, (GRID,), {"starts": [0, 0], "ends": [1, 1], "axes": [0]}, ValueError),
    Corner("steps longer", "Slice", WALKING, (GRID,), {"starts": [0], "ends": [1], "steps": [1, 1]}, ValueError),
    Corner("more bounds than axes", "Slice", ALL_SLICES, (LINE,), {"starts": [0, 0], "ends": [1, 1]}, ValueError),
    Corner("starts as a scalar", "Slice", WALKING, (LINE,), {"starts": np.array(0), "ends": ints(1)}, ValueError),
    Corner("int32 and int64 bounds", "Slice", WALKING, (LINE,), {"starts": ints(0).astype(np.int32), "ends": ints(1)}, TypeError),
    Corner("int16 bounds", "Slice", WALKING, (LINE,), {"starts": np.array([0], np.int16), "ends": ints(1)}, TypeError),
    Corner("scalar data, nothing to slice", "Slice", ALL_SLICES, (np.array(7, np.int32),), {"starts": [], "ends": []}, 7),
    Corner("scalar data, a bound", "Slice", ALL_SLICES, (np.array(7, np.int32),), walk(0, 1), ValueError),
    Corner("empty bounds", "Slice", ALL_SLICES, (GRID,), {"starts": [], "ends": []}, GRID.tolist()),
    Corner("axis of size 0, backwards", "Slice", WALKING, (empty(0, 2),), walk(-1, INT64_MIN, -3), empty(0, 2)),
    Corner("axis of size 0, forwards", "Slice", ALL_SLICES, (empty(0, 2),), walk(0, 5), empty(0, 2)),
    Corner("scalar data", "Gather", (1, 11, 13), (np.array(7, np.int32), ints(0)), {}, ValueError),
    Corner("scalar index", "Gather", (1, 11, 13), (GRID, np.array(1)), {}, [4, 5, 6]),
    Corner("scalar index on axis 1", "Gather", (1, 11, 13), (GRID, np.array(2)), {"axis": 1}, [3, 6]),
    Corner("empty indices", "Gather", (1, 11, 13), (GRID, ints()), {"axis": 1}, empty(2, 0)),
    Corner("empty indices of an axis of size 0", "Gather", (1, 11, 13), (empty(2, 0), ints()), {"axis": 1}, empty(2, 0)),
    Corner("index 0 of an axis of size 0", "Gather", (1, 11, 13), (empty(2, 0), ints(0)), {"axis": 1}, IndexError),
    Corner("bad index, nothing to copy", "Gather", (1, 11, 13), (empty(2, 0), ints(5)), {}, IndexError),
    Corner("axis at the rank", "Gather", (1, 11, 13), (GRID, ints(0)), {"axis": 2}, ValueError),
    Corner("axis -rank", "Gather", (1, 11, 13), (GRID, ints(1)), {"axis": -2}, [[4, 5, 6]]),
    Corner("axis below -rank", "Gather", (1, 11, 13), (GRID, ints(0)), {"axis": -3}, ValueError),
    Corner("int16 indices", "Gather", (1, 11, 13), (GRID, np.array([0], np.int16)), {}, TypeError),
    Corner("uint32 indices", "Gather", (1, 11, 13), (GRID, np.array([0], np.uint32)), {}, TypeError),
    Corner("bool indices", "Gather", (1, 11, 13), (GRID, np.array([False])), {}, TypeError),
    Corner("float indices", "Gather", (1, 11, 13), (GRID, np.array([0.0])), {}, TypeError),
    Corner("negative index from version 11 on", "Gather", (11, 12, 13, 21), (LINE, ints(-1, -5)), {}, [14, 10]),
    Corner("negative index in version 1", "Gather", (1, 2, 10), (LINE, ints(-1)), {}, IndexError),
    Corner("index at the size", "Gather", (1, 11, 13), (LINE, ints(5)), {}, IndexError),
    Corner("index below -size", "Gather", (11, 13), (LINE, ints(-6)), {}, IndexError),
    Corner("index 2^32 + 1, which is not 1", "Gather", (1, 11, 13), (LINE, ints(2**32 + 1)), {}, IndexError),
    Corner("index INT64_MIN", "Gather", (1, 11, 13), (LINE, ints(INT64_MIN)), {}, IndexError),
    Corner("index -1 off the axis", "GatherElements", (11, 13), (GRID, ints([-1, 0, -2])), {}, [[4, 2, 3]]),
    Corner("smaller off the axis", "GatherElements", (11, 13), (GRID, ints([2, 0, 2, 1])), {"axis": 1}, [[3, 1, 3, 2]]),
    Corner("larger off the axis", "GatherElements", (11, 13), (GRID, ints([0], [0], [0])), {"axis": 1}, ValueError),
    Corner("rank mismatch", "GatherElements", (11, 13), (GRID, ints(0)), {}, ValueError),
    Corner("scalars", "GatherElements", (11, 13), (np.array(7, np.int32), np.array(0)), {}, ValueError),
    Corner("axis longer than 64", "GatherElements", (11, 13), (LONG, ints(69, 64, -70)), {}, [169, 164, 100]),
    Corner("bad index", "GatherElements", (11, 13), (GRID, ints([0, 2, 0])), {}, IndexError),
    Corner("bad index that modulo would hide", "GatherElements", (11, 13), (GRID, ints([3, 3, 3])), {"axis": 1}, IndexError),
    Corner("empty, of an axis of size 0", "GatherElements", (11, 13), (empty(0, 3), np.empty((0, 3), np.int64)), {}, empty(0, 3)),
    Corner("at opset 10", "GatherElements", (1, 10), (GRID, ints([0, 0, 0])), {}, ValueError),
    Corner("int32 indices", "GatherND", (11, 12, 13), (GRID, np.array([[0]], np.int32)), {}, TypeError),
    Corner("empty tuple", "GatherND", (11, 12, 13), (GRID, np.empty((2, 0), np.int64)), {}, [GRID.tolist()] * 2),
    Corner("empty tuple, no tuples", "GatherND", (11, 12, 13), (GRID, np.empty((0, 0), np.int64)), {}, empty(0, 2, 3)),
    Corner("one empty tuple", "GatherND", (11, 12, 13), (GRID, np.empty(0, np.int64)), {}, GRID.tolist()),
    Corner("empty tuple in a batch", "GatherND", (12, 13), (GRID, np.empty((2, 2, 0), np.int64)), {"batch_dims": 1},
           [[[1, 2, 3], [1, 2, 3]], [[4, 5, 6], [4, 5, 6]]]),
    Corner("bad index, nothing to copy", "GatherND", (11, 12, 13), (empty(2, 0), ints([9])), {}, IndexError),
    Corner("negative components", "GatherND", (11, 12, 13), (GRID, ints([-1, -1], [0, -3])), {}, [6, 1]),
    Corner("bad second component", "GatherND", (11, 12, 13), (GRID, ints([0, 3])), {}, IndexError),
    Corner("one batch dimension", "GatherND", (12, 13), (CUBE, ints([1], [0])), {"batch_dims": 1}, [[2, 3], [4, 5]]),
    Corner("batch of a multiple", "GatherND", (12, 13), (GRID, ints([0], [1], [0], [1])), {"batch_dims": 1}, ValueError),
    Corner("batches of equal counts", "GatherND", (12, 13), (empty(2, 1, 3), np.zeros((1, 2, 1), np.int64)), {"batch_dims": 2},
           ValueError),
    Corner("batch not divisible", "GatherND", (12, 13), (GRID, ints([0], [1], [0])), {"batch_dims": 1}, ValueError),
    Corner("batch of size 0", "GatherND", (12, 13), (empty(0, 3), np.empty((0, 1), np.int64)), {"batch_dims": 1}, empty(0)),
    Corner("batch_dims below 0", "GatherND", (12, 13), (GRID, ints([0], [1])), {"batch_dims": -1}, ValueError),
    Corner("batch_dims at the rank", "GatherND", (12, 13), (GRID, ints([[0]], [[1]])), {"batch_dims": 2}, ValueError),
    Corner("batch_dims in version 11", "GatherND", (11,), (GRID, ints([0], [1])), {"batch_dims": 1}, ValueError),
    Corner("batch_dims 0 in version 11", "GatherND", (11,), (GRID, ints([1])), {"batch_dims": 0}, [[4, 5, 6]]),
    Corner("tuple longer than the rank", "GatherND", (11, 12, 13), (GRID, ints([0, 0, 0])), {}, ValueError),
    Corner("tuple longer than the rank left", "GatherND", (12, 13), (GRID, ints([0, 0], [0, 0])), {"batch_dims": 1}, ValueError),
    Corner("scalar indices", "GatherND", (11, 12, 13), (GRID, np.array(0)), {}, ValueError),
    Corner("scalar data", "GatherND", (11, 12, 13), (np.array(7, np.int32), ints([0])), {}, ValueError),
    Corner("at opset 10", "GatherND", (1, 10), (GRID, ints([0])), {}, ValueError),
    Corner("blocks by row and column", "DepthToSpace", (1, 10, 11, 13, 28), (PIXELS.reshape(1, 8, 1, 1),), {"blocksize": 2},
           [[[[1, 3], [5, 7]], [[2, 4], [6, 8]]]]),
    Corner("blocks by channel", "DepthToSpace", (11, 12, 13, 28), (PIXELS.reshape(1, 8, 1, 1),), {"blocksize": 2, "mode": "CRD"},
           [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]),
    Corner("mode in version 1", "DepthToSpace", (1, 10), (PIXELS.reshape(1, 8, 1, 1),), {"blocksize": 2, "mode": "CRD"},
           ValueError),
    Corner("blocks of 1", "DepthToSpace", (1, 11, 13, 28), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 1},
           PIXELS.reshape(1, 2, 2, 2)),
    Corner("channels of half a block", "DepthToSpace", (1, 11, 13, 28), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 2},
           ValueError),
    Corner("no channels", "DepthToSpace", (1, 11, 13, 28), (empty(1, 0, 2, 3),), {"blocksize": 2}, empty(1, 0, 4, 6)),
    Corner("rows and columns by row and column", "SpaceToDepth", (1, 12, 13, 28), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 2},
           [[[[1]], [[5]], [[2]], [[6]], [[3]], [[7]], [[4]], [[8]]]]),
    Corner("rows and columns by channel", "SpaceToDepth", (28,), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 2, "mode": "CRD"},
           PIXELS.reshape(1, 8, 1, 1)),
    Corner("mode before version 28", "SpaceToDepth", (1, 13, 27), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 2, "mode": "CRD"},
           ValueError),
    Corner("columns of half a block", "SpaceToDepth", (1, 13, 28), (PIXELS.reshape(1, 2, 4, 1),), {"blocksize": 2}, ValueError),
    Corner("no rows", "SpaceToDepth", (1, 13, 28), (empty(1, 2, 0, 4),), {"blocksize": 2}, empty(1, 8, 0, 2)),
)  # fmt: skip


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: f"{corner.operator}-{corner.name}")
def test_corners_are_as_written_down_on_every_device_and_in_the_specification(corner: Corner) -> None:
    right = corner.result if isinstance(corner.result, type) else np.asarray(corner.result, np.int32)
    for opset in corner.opsets:
        call = Call(corner.operator, opset, corner.arrays, corner.named)
        for found in (outcome(expected, call), *(outcome(run, call, device=device) for device in ("cpu", "reference"))):
            assert content(found) == content(right)


def test_a_repeated_axis_is_refused_even_where_the_axes_have_size_1() -> None:
    with pytest.raises(ValueError, match="axes"):
        dg.onnx.slice(np.zeros((1, 1)), [0, 0], [1, 1], axes=[0, -2])


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_bounds_have_64_bits(value: int) -> None:
    with pytest.raises(ValueError, match=rf"starts\[0\] is {value}"):
        dg.onnx.slice(LINE, [value], [1])
