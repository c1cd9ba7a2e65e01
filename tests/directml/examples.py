"""The examples that DirectML's pages print, as data: descriptor, input values, documented result.

Values of the pages are FLOAT32 where these do not name another type; indices are UINT32. `GATHER_3_AS_PRINTED` is the one
example whose descriptor contradicts its result.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import OperatorDesc, parse_descriptor


@dataclass(frozen=True)
class Example:
    """One documented example. inputs: values in binding order, row-major; expected: OutputTensor's values, row-major.
    data_type: of both.
    """

    name: str
    operator: str
    tensors: dict[str, list[int]]
    fields: dict[str, Any]
    inputs: tuple[list[int], ...]
    expected: list[int]
    data_type: str = "FLOAT32"

    @property
    def document(self) -> dict[str, Any]:
        """The descriptor as a file holds it; the caller's own, to change at will."""
        tensors = {
            name: {"DataType": "UINT32" if name == "IndicesTensor" else self.data_type, "Sizes": sizes}
            for name, sizes in self.tensors.items()
        }
        return deepcopy({"type": f"DML_OPERATOR_{self.operator}", "desc": {**tensors, **self.fields}})

    @property
    def desc(self) -> OperatorDesc:
        """The descriptor."""
        return parse_descriptor(self.document)

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """The input arrays, shaped as described: data, then UINT32 indices where there are some."""
        sizes = [sizes for name, sizes in self.tensors.items() if name != "OutputTensor"]
        dtypes = (self.data_type.lower(), "uint32")
        return [np.array(values, dtype).reshape(of) for values, of, dtype in zip(self.inputs, sizes, dtypes, strict=False)]

    @property
    def result(self) -> NDArray[Any]:
        """The documented result, shaped as described."""
        return np.array(self.expected, self.data_type.lower()).reshape(self.tensors["OutputTensor"])


def _count(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def _gather(name: str, axis: int, index_dimensions: int, sizes: tuple[list[int], ...], *values: list[int]) -> Example:
    tensors = dict(zip(("InputTensor", "IndicesTensor", "OutputTensor"), sizes, strict=True))
    *inputs, expected = values
    return Example(name, "GATHER", tensors, {"Axis": axis, "IndexDimensions": index_dimensions}, tuple(inputs), expected)


GATHER_3_AS_PRINTED = _gather("gather-3", 1, 2, ([3, 2], [1, 2], [3, 2]), _count(1, 6), [1, 0], [2, 1, 4, 3, 6, 5])
"""IndexDimensions 2 is a misprint: {3,1,2} would not fit into two dimensions. With 1 the printed result comes out."""

_ND_1 = {"InputTensor": [2, 2], "IndicesTensor": [2, 1], "OutputTensor": [2, 2]}
_ND_1_COUNTS = {"InputDimensionCount": 2, "IndicesDimensionCount": 2}
_GRID = [1, 1, 4, 4]


def _moved(name: str, operator: str, order: str, *values: list[int]) -> Example:
    """Blocks of 2 · 2 between 8 channels of 2 · 3 and 2 channels of 4 · 6."""
    sizes = [[1, 8, 2, 3], [1, 2, 4, 6]][:: 1 if operator == "DEPTH_TO_SPACE1" else -1]
    tensors = dict(zip(("InputTensor", "OutputTensor"), sizes, strict=True))
    return Example(name, operator, tensors, {"BlockSize": 2, "Order": order}, (values[0],), values[1], "UINT32")


_DEPTH = [value for channel in range(8) for value in _count(9 * channel, 6)]
_DEPTH_COLUMN_ROW = [
    *(0, 18, 1, 19, 2, 20),
    *(36, 54, 37, 55, 38, 56),
    *(3, 21, 4, 22, 5, 23),
    *(39, 57, 40, 58, 41, 59),
    *(9, 27, 10, 28, 11, 29),
    *(45, 63, 46, 64, 47, 65),
    *(12, 30, 13, 31, 14, 32),
    *(48, 66, 49, 67, 50, 68),
]
_COLUMN_ROW_DEPTH = [
    *(0, 9, 1, 10, 2, 11),
    *(18, 27, 19, 28, 20, 29),
    *(3, 12, 4, 13, 5, 14),
    *(21, 30, 22, 31, 23, 32),
    *(36, 45, 37, 46, 38, 47),
    *(54, 63, 55, 64, 56, 65),
    *(39, 48, 40, 49, 41, 50),
    *(57, 66, 58, 67, 59, 68),
]

EXAMPLES = (
    _gather("gather-1", 0, 1, ([4], [5], [5]), [11, 12, 13, 14], [3, 1, 3, 0, 2], [14, 12, 14, 11, 13]),
    _gather("gather-2", 0, 1, ([3, 2], [1, 4], [4, 2]), _count(1, 6), [0, 1, 1, 2], [1, 2, 3, 4, 3, 4, 5, 6]),
    replace(GATHER_3_AS_PRINTED, name="gather-3-mended", fields={"Axis": 1, "IndexDimensions": 1}),
    _gather("gather-4", 2, 2, ([1, 3, 3], [1, 1, 2], [3, 1, 2]), _count(1, 9), [0, 2], [1, 3, 4, 6, 7, 9]),
    _gather("gather-5", 1, 2, ([1, 3, 2], [1, 2, 2], [2, 2, 2]), _count(1, 6), [0, 1, 1, 2], [1, 2, 3, 4, 3, 4, 5, 6]),
    Example(
        "gather-elements-1",
        "GATHER_ELEMENTS",
        {"InputTensor": [3, 3], "IndicesTensor": [2, 3], "OutputTensor": [2, 3]},
        {"Axis": 0},
        (_count(1, 9), [1, 2, 0, 2, 0, 0]),
        [4, 8, 3, 7, 2, 3],
    ),
    Example("gather-nd-1", "GATHER_ND", _ND_1, _ND_1_COUNTS, (_count(0, 4), [1, 0]), [2, 3, 0, 1]),
    Example(
        "gather-nd-2",
        "GATHER_ND",
        {"InputTensor": [1, 2, 2, 2], "IndicesTensor": [1, 1, 2, 2], "OutputTensor": [1, 1, 2, 2]},
        {"InputDimensionCount": 3, "IndicesDimensionCount": 2},
        (_count(0, 8), [0, 1, 1, 0]),
        [2, 3, 4, 5],
    ),
    Example(
        "gather-nd1-1", "GATHER_ND1", _ND_1, {**_ND_1_COUNTS, "BatchDimensionCount": 0}, (_count(0, 4), [1, 0]), [2, 3, 0, 1]
    ),
    Example(
        "gather-nd1-2",
        "GATHER_ND1",
        {"InputTensor": [1, 3, 2, 2], "IndicesTensor": [1, 3, 2, 2], "OutputTensor": [1, 1, 3, 2]},
        {"InputDimensionCount": 3, "IndicesDimensionCount": 3, "BatchDimensionCount": 1},
        (_count(0, 12), [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0]),
        [0, 3, 7, 4, 9, 10],
    ),
    Example(
        "slice-1",
        "SLICE",
        {"InputTensor": _GRID, "OutputTensor": [1, 1, 3, 2]},
        {"DimensionCount": 4, "Offsets": [0, 0, 1, 2], "Sizes": [1, 1, 3, 2], "Strides": [1, 1, 1, 1]},
        (_count(1, 16),),
        [7, 8, 11, 12, 15, 16],
    ),
    Example(
        "slice-2",
        "SLICE",
        {"InputTensor": _GRID, "OutputTensor": [1, 1, 2, 2]},
        {"DimensionCount": 4, "Offsets": [0, 0, 1, 0], "Sizes": [1, 1, 2, 2], "Strides": [1, 1, 2, 3]},
        (_count(1, 16),),
        [5, 8, 13, 16],
    ),
    Example(
        "slice-sample",
        "SLICE",
        {"InputTensor": [1, 1, 5, 5], "OutputTensor": [1, 1, 3, 2]},
        {"DimensionCount": 4, "Offsets": [0, 0, 1, 1], "Sizes": [1, 1, 3, 2], "Strides": [1, 1, 1, 2]},
        (_count(1, 25),),
        [7, 9, 12, 14, 17, 19],
    ),
    Example(
        "slice1-1",
        "SLICE1",
        {"InputTensor": _GRID, "OutputTensor": [1, 1, 2, 2]},
        {
            "DimensionCount": 4,
            "InputWindowOffsets": [0, 0, 0, 1],
            "InputWindowSizes": [1, 1, 4, 3],
            "InputWindowStrides": [1, 1, 2, 2],
        },
        (_count(1, 16),),
        [2, 4, 10, 12],
    ),
    Example(
        "slice1-2",
        "SLICE1",
        {"InputTensor": _GRID, "OutputTensor": [1, 1, 2, 2]},
        {
            "DimensionCount": 4,
            "InputWindowOffsets": [0, 0, 0, 1],
            "InputWindowSizes": [1, 1, 4, 3],
            "InputWindowStrides": [1, 1, -2, 2],
        },
        (_count(1, 16),),
        [14, 16, 6, 8],
    ),
    _moved("depth-to-space1-1", "DEPTH_TO_SPACE1", "DML_DEPTH_SPACE_ORDER_DEPTH_COLUMN_ROW", _DEPTH, _DEPTH_COLUMN_ROW),
    _moved("depth-to-space1-2", "DEPTH_TO_SPACE1", "DML_DEPTH_SPACE_ORDER_COLUMN_ROW_DEPTH", _DEPTH, _COLUMN_ROW_DEPTH),
    _moved("space-to-depth1-1", "SPACE_TO_DEPTH1", "DML_DEPTH_SPACE_ORDER_DEPTH_COLUMN_ROW", _DEPTH_COLUMN_ROW, _DEPTH),
    _moved("space-to-depth1-2", "SPACE_TO_DEPTH1", "DML_DEPTH_SPACE_ORDER_COLUMN_ROW_DEPTH", _COLUMN_ROW_DEPTH, _DEPTH),
)
