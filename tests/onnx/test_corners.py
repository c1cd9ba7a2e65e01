"""Corner cases of the operators, one row each, with the result written down by hand. faults.py has what every call refuses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

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
    Corner("start after end", "Slice", ALL_SLICES, (LINE,), walk(3, 2), []),
    Corner("start at the size", "Slice", ALL_SLICES, (LINE,), walk(5, INT_MAX), []),
    Corner("end beyond the size", "Slice", ALL_SLICES, (LINE,), walk(3, 1000), [13, 14]),
    Corner("start below the axis, forwards", "Slice", ALL_SLICES, (LINE,), walk(-100, 2), [10, 11]),
    Corner("end INT64_MIN, forwards", "Slice", ALL_SLICES, (LINE,), walk(0, INT64_MIN), []),
    Corner("negative axis", "Slice", ALL_SLICES, (GRID,), walk(0, 1, axis=-1), [[1], [4]]),
    Corner("unsorted axes", "Slice", ALL_SLICES, (GRID,), {"starts": [1, 1], "ends": [3, 2], "axes": [1, 0]}, [[5, 6]]),
    Corner("fewer starts than axes of data", "Slice", ALL_SLICES, (GRID,), walk(1, 2), [[4, 5, 6]]),
    Corner("steps without axes", "Slice", WALKING, (GRID,), walk(1, -3, -1), [[4, 5, 6], [1, 2, 3]]),
    Corner("scalar data, nothing to slice", "Slice", ALL_SLICES, (np.array(7, np.int32),), {"starts": [], "ends": []}, 7),
    Corner("empty bounds", "Slice", ALL_SLICES, (GRID,), {"starts": [], "ends": []}, GRID.tolist()),
    Corner("axis of size 0, backwards", "Slice", WALKING, (empty(0, 2),), walk(-1, INT64_MIN, -3), empty(0, 2)),
    Corner("axis of size 0, forwards", "Slice", ALL_SLICES, (empty(0, 2),), walk(0, 5), empty(0, 2)),
    Corner("scalar index", "Gather", (1, 11, 13), (GRID, np.array(1)), {}, [4, 5, 6]),
    Corner("scalar index on axis 1", "Gather", (1, 11, 13), (GRID, np.array(2)), {"axis": 1}, [3, 6]),
    Corner("empty indices", "Gather", (1, 11, 13), (GRID, ints()), {"axis": 1}, empty(2, 0)),
    Corner("empty indices of an axis of size 0", "Gather", (1, 11, 13), (empty(2, 0), ints()), {"axis": 1}, empty(2, 0)),
    Corner("bad index, nothing to copy", "Gather", (1, 11, 13), (empty(2, 0), ints(5)), {}, IndexError),
    Corner("axis -rank", "Gather", (1, 11, 13), (GRID, ints(1)), {"axis": -2}, [[4, 5, 6]]),
    Corner("negative index from version 11 on", "Gather", (11, 12, 13, 21), (LINE, ints(-1, -5)), {}, [14, 10]),
    Corner("index -1 off the axis", "GatherElements", (11, 13), (GRID, ints([-1, 0, -2])), {}, [[4, 2, 3]]),
    Corner("smaller off the axis", "GatherElements", (11, 13), (GRID, ints([2, 0, 2, 1])), {"axis": 1}, [[3, 1, 3, 2]]),
    Corner("axis longer than 64", "GatherElements", (11, 13), (LONG, ints(69, 64, -70)), {}, [169, 164, 100]),
    Corner("empty, of an axis of size 0", "GatherElements", (11, 13), (empty(0, 3), np.empty((0, 3), np.int64)), {}, empty(0, 3)),
    Corner("empty tuple", "GatherND", (11, 12, 13), (GRID, np.empty((2, 0), np.int64)), {}, [GRID.tolist()] * 2),
    Corner("empty tuple, no tuples", "GatherND", (11, 12, 13), (GRID, np.empty((0, 0), np.int64)), {}, empty(0, 2, 3)),
    Corner("one empty tuple", "GatherND", (11, 12, 13), (GRID, np.empty(0, np.int64)), {}, GRID.tolist()),
    Corner("empty tuple in a batch", "GatherND", (12, 13), (GRID, np.empty((2, 2, 0), np.int64)), {"batch_dims": 1},
           [[[1, 2, 3], [1, 2, 3]], [[4, 5, 6], [4, 5, 6]]]),
    Corner("bad index, nothing to copy", "GatherND", (11, 12, 13), (empty(2, 0), ints([9])), {}, IndexError),
    Corner("negative components", "GatherND", (11, 12, 13), (GRID, ints([-1, -1], [0, -3])), {}, [6, 1]),
    Corner("one batch dimension", "GatherND", (12, 13), (CUBE, ints([1], [0])), {"batch_dims": 1}, [[2, 3], [4, 5]]),
    Corner("batches of equal counts", "GatherND", (12, 13), (empty(2, 1, 3), np.zeros((1, 2, 1), np.int64)), {"batch_dims": 2},
           ValueError),
    Corner("batch of size 0", "GatherND", (12, 13), (empty(0, 3), np.empty((0, 1), np.int64)), {"batch_dims": 1}, empty(0)),
    Corner("batch_dims 0 in version 11", "GatherND", (11,), (GRID, ints([1])), {"batch_dims": 0}, [[4, 5, 6]]),
    Corner("blocks by row and column", "DepthToSpace", (1, 10, 11, 13, 28), (PIXELS.reshape(1, 8, 1, 1),), {"blocksize": 2},
           [[[[1, 3], [5, 7]], [[2, 4], [6, 8]]]]),
    Corner("blocks by channel", "DepthToSpace", (11, 12, 13, 28), (PIXELS.reshape(1, 8, 1, 1),), {"blocksize": 2, "mode": "CRD"},
           [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]),
    Corner("blocks of 1", "DepthToSpace", (1, 11, 13, 28), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 1},
           PIXELS.reshape(1, 2, 2, 2)),
    Corner("no channels", "DepthToSpace", (1, 11, 13, 28), (empty(1, 0, 2, 3),), {"blocksize": 2}, empty(1, 0, 4, 6)),
    Corner("rows and columns by row and column", "SpaceToDepth", (1, 12, 13, 28), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 2},
           [[[[1]], [[5]], [[2]], [[6]], [[3]], [[7]], [[4]], [[8]]]]),
    Corner("rows and columns by channel", "SpaceToDepth", (28,), (PIXELS.reshape(1, 2, 2, 2),), {"blocksize": 2, "mode": "CRD"},
           PIXELS.reshape(1, 8, 1, 1)),
    Corner("no rows", "SpaceToDepth", (1, 13, 28), (empty(1, 2, 0, 4),), {"blocksize": 2}, empty(1, 8, 0, 2)),
)  # fmt: skip


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: f"{corner.operator}-{corner.name}")
def test_corners_are_as_written_down(corner: Corner) -> None:
    right = corner.result if isinstance(corner.result, type) else np.asarray(corner.result, np.int32)
    for opset in corner.opsets:
        call = Call(corner.operator, opset, corner.arrays, corner.named)
        for found in (outcome(expected, call), *(outcome(run, call, device=device) for device in ("cpu", "reference"))):
            assert content(found) == content(right)
