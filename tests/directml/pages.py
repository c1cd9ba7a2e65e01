"""What directml.h and each operator's page print: its number, its fields, and its table of tensor support at each level."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmlgather.directml import FeatureLevel

EIGHT = "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"
MORE = "FLOAT64 INT64 UINT64"
EVERY_TYPE = f"{EIGHT} {MORE}".split()


@dataclass(frozen=True)
class Step:
    """What is taken from one level on. data: types of InputTensor and OutputTensor. indices: types of IndicesTensor. counts: of
    dimensions.
    """

    data: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """number: within DML_OPERATOR_TYPE. fields: of the structure, in order. steps: tables, by the level that brought them."""

    number: int
    fields: list[str]
    steps: dict[FeatureLevel, Step]

    @property
    def introduced(self) -> FeatureLevel:
        """The first level."""
        return min(self.steps)

    def at(self, level: FeatureLevel) -> Step:
        """What is taken at a level; nothing before the first."""
        return self.steps[max(step for step in self.steps if step <= level)] if level >= self.introduced else Step()


def _page(number: int, fields: str, tables: dict[str, tuple[str, str, int, int]]) -> Page:
    """tables: by level: data types, index types, fewest and most dimensions; "+" adds to the level before."""
    data, indices, steps = "", "", {}
    for level, (of_data, of_indices, fewest, most) in tables.items():
        data, indices = _grown(data, of_data), _grown(indices, of_indices)
        steps[FeatureLevel.parse(level)] = Step(data.split(), indices.split(), list(range(fewest, most + 1)))
    return Page(number, fields.split(", "), steps)


def _grown(before: str, entry: str) -> str:
    return f"{before} {entry[1:]}" if entry.startswith("+") else entry


_LATER_GATHER = {
    "2_1": (EIGHT, "UINT32", 4, 4),
    "3_0": ("+", "+ INT64 INT32 UINT64", 1, 8),
    "4_1": (f"+ {MORE}", "+", 1, 8),
}
_BLOCKS = {"2_1": (EIGHT, "", 4, 4), "5_0": (f"+ {MORE}", "", 4, 4)}

PAGES = {
    "GATHER": _page(
        67,
        "InputTensor, IndicesTensor, OutputTensor, Axis, IndexDimensions",
        {
            "1_0": ("FLOAT32 FLOAT16", "UINT32", 4, 4),
            "2_1": ("+ INT32 INT16 INT8 UINT32 UINT16 UINT8", "+", 4, 4),
            "3_0": ("+", "+ INT64 INT32 UINT64", 1, 8),
            "4_1": (f"+ {MORE}", "+", 1, 8),
        },
    ),
    "GATHER_ELEMENTS": _page(107, "InputTensor, IndicesTensor, OutputTensor, Axis", _LATER_GATHER),
    "GATHER_ND": _page(
        108, "InputTensor, IndicesTensor, OutputTensor, InputDimensionCount, IndicesDimensionCount", _LATER_GATHER
    ),
    "GATHER_ND1": _page(
        140,
        "InputTensor, IndicesTensor, OutputTensor, InputDimensionCount, IndicesDimensionCount, BatchDimensionCount",
        {
            "3_0": (EIGHT, "INT64 INT32 UINT64 UINT32", 1, 8),
            "4_1": (f"+ {MORE}", "+", 1, 8),
        },
    ),
    "SLICE": _page(
        60,
        "InputTensor, OutputTensor, DimensionCount, Offsets, Sizes, Strides",
        {
            "1_0": ("FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16", "", 4, 5),
            "2_1": ("+ INT8 UINT8", "", 4, 5),
            "3_0": ("+", "", 1, 8),
            "4_1": (f"+ {MORE}", "", 1, 8),
        },
    ),
    "SLICE1": _page(
        111,
        "InputTensor, OutputTensor, DimensionCount, InputWindowOffsets, InputWindowSizes, InputWindowStrides",
        {
            "2_1": (EIGHT, "", 4, 5),
            "3_0": ("+", "", 1, 8),
            "4_1": (f"+ {MORE}", "", 1, 8),
        },
    ),
    "DEPTH_TO_SPACE1": _page(113, "InputTensor, OutputTensor, BlockSize, Order", _BLOCKS),
    "SPACE_TO_DEPTH1": _page(114, "InputTensor, OutputTensor, BlockSize, Order", _BLOCKS),
}
"""By name within DML_OPERATOR_TYPE."""
