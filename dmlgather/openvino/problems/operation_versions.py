"""Table of the versions of OpenVINO's operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dmlgather.dialects.element_types import ElementTypes
from dmlgather.dialects.problem import Problem, check_data_rank
from dmlgather.wording import alternatives

TYPES = ElementTypes(
    {
        "boolean": "bool",
        "bf16": "bfloat16",
        "f16": "float16",
        "f32": "float32",
        "f64": "float64",
        "f8e4m3": "float8_e4m3fn",
        "f8e5m2": "float8_e5m2",
        "f8e8m0": "float8_e8m0fnu",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "u8": "uint8",
        "u16": "uint16",
        "u32": "uint32",
        "u64": "uint64",
        "string": "object",
    }
)
"""OpenVINO's element types of whole bytes, and strings, with NumPy's names."""

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
"""Types for indices and for the bounds of slices."""


NEWEST_OPSET = 16
"""Newest operation set that the table covers."""


class AttributeForm(NamedTuple):
    """The form of an attribute. `many`: True for a list of integers, False for one integer."""

    many: bool
    required: bool


@dataclass(frozen=True, slots=True)
class OperationVersion:
    """One version of an operation, such as Gather-8.

    `since`: the operation set that introduced the version. `inputs`: the names of the inputs in the order of a layer's ports.
    `required`: the number of inputs that a layer must have. `bounds`: the inputs that must be constants in DirectML.
    `index_types`: the types that all inputs except data may have. `scalars`: True if data may be a scalar.
    """

    operation: str
    since: int
    inputs: tuple[str, ...]
    required: int
    bounds: tuple[str, ...]
    index_types: tuple[str, ...]
    attributes: Mapping[str, AttributeForm] = field(hash=False)
    scalars: bool = False

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the inputs whose values a problem does not have: data, and indices if there are any."""
        return tuple(name for name in self.inputs if name not in self.bounds)

    def __str__(self) -> str:
        return f"{self.operation}-{self.since}"


INT, REQUIRED_INT = AttributeForm(many=False, required=False), AttributeForm(many=False, required=True)
INTS, REQUIRED_INTS = AttributeForm(many=True, required=False), AttributeForm(many=True, required=True)

_GATHER = ("data", "indices", "axis")
_INDICES = ("data", "indices")
_SLICE = ("data", "start", "stop", "step", "axes")
_STRIDED = ("data", "begin", "end", "strides")
MASKS = {
    "begin_mask": REQUIRED_INTS,
    "end_mask": REQUIRED_INTS,
    "new_axis_mask": INTS,
    "shrink_axis_mask": INTS,
    "ellipsis_mask": INTS,
}

_ROWS = (
    OperationVersion("Gather", 1, _GATHER, 3, ("axis",), INTEGERS, {}),
    OperationVersion("Gather", 7, _GATHER, 3, ("axis",), INTEGERS, {"batch_dims": INT}),
    OperationVersion("Gather", 8, _GATHER, 3, ("axis",), INTEGERS, {"batch_dims": INT}),
    OperationVersion("GatherElements", 6, _INDICES, 2, (), ("i32", "i64"), {"axis": REQUIRED_INT}),
    OperationVersion("GatherND", 5, _INDICES, 2, (), INTEGERS, {"batch_dims": INT}),
    OperationVersion("GatherND", 8, _INDICES, 2, (), INTEGERS, {"batch_dims": INT}),
    OperationVersion("Slice", 8, _SLICE, 4, _SLICE[1:], INTEGERS, {}),
    OperationVersion("StridedSlice", 1, _STRIDED, 3, _STRIDED[1:], INTEGERS, MASKS, scalars=True),
)

VERSIONS = {
    name: {row.since: row for row in _ROWS if row.operation == name} for name in dict.fromkeys(row.operation for row in _ROWS)
}
"""Versions by operation and by the operation set that introduced them, oldest first."""


def version_in(operation: str, opset: int) -> OperationVersion:
    """Return the version of an operation in an operation set.

    Raises ValueError if the operation was introduced later.
    """
    versions = VERSIONS[operation]
    available = [number for number in versions if number <= opset]
    if not available:
        raise ValueError(f"opset{opset} has no {operation}, which came with opset{min(versions)}")
    return versions[max(available)]


class OpenVINOProblem(Problem):
    """A call of an OpenVINO operation in one of its versions."""

    version: int

    def _check_tensors(self) -> None:
        """Check the version, the types of the inputs, and the rank of data.

        Raises TypeError for an unsupported type, and ValueError for an unknown version or a scalar that is not allowed.
        """
        versions = VERSIONS[self.name]
        if self.version not in versions or isinstance(self.version, bool | float):
            raise ValueError(f"version is {self.version!r}, expected {alternatives(versions)}")
        version = versions[self.version]
        for name in self.inputs:
            allowed = tuple(TYPES.names) if name == "data" else version.index_types
            TYPES.check(self, name, getattr(self, name).dtype, allowed)
        if not version.scalars:
            check_data_rank(self, self.data)

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"
