"""Table of the versions of ONNX's operators, with their data types, inputs and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dmlgather.dialects.problem import Problem, whole
from dmlgather.plan import OutOfBounds

DOMAINS = ("", "ai.onnx")
"""The two names of the domain of ONNX's own operators."""

NEWEST_OPSET = 28

NEWEST_IR_VERSION = 14
"""The newest version of ONNX's file format that dmlgather knows."""


FLOAT, INT, TEXT, TENSOR, FLOAT_LIST, INTS, TEXTS, SPARSE = 1, 2, 3, 4, 6, 7, 8, 11
"""Numbers of AttributeProto.AttributeType."""


@dataclass(frozen=True, slots=True)
class OperatorVersion:
    """One version of an operator, such as Gather-13.

    `since`: the opset that introduced the version. `types`: the data types of the first input and the output. `required`: the
    inputs and attributes that a node must have. `index_types`: the data types of all inputs except the first. `attributes`: the
    AttributeProto.AttributeType of each attribute.
    """

    operator: str
    since: int
    types: tuple[str, ...]
    inputs: tuple[str, ...]
    required: tuple[str, ...]
    index_types: tuple[str, ...]
    attributes: Mapping[str, int] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.operator}-{self.since}"


Types = Mapping[int, tuple[str, ...]]
"""Data types that an operator allows, by the opset that added them."""

FLOATS = ("double", "float", "float16")
REALS = ("bool", *FLOATS, "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8")
EVERY_TYPE: Types = {
    1: (*REALS, "complex128", "complex64", "string"),
    13: ("bfloat16",),
    19: ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"),
    21: ("int4", "uint4"),
    23: ("float4e2m1",),
    24: ("float8e8m0",),
    25: ("int2", "uint2"),
}
UNTIL_13: Types = {opset: names for opset, names in EVERY_TYPE.items() if opset <= 13}
CAST_TYPES: Types = {**EVERY_TYPE, 1: REALS, 9: ("string",), 28: ("float6e2m3", "float6e3m2")}
INT32_OR_INT64 = ("int32", "int64")


def _versions(
    operator: str,
    opsets: tuple[int, ...],
    inputs: tuple[str, ...] = ("data",),
    required: tuple[str, ...] | None = None,
    *,
    types: Types = EVERY_TYPE,
    index_types: tuple[str, ...] = ("int64",),
    **attributes: int,
) -> Iterator[OperatorVersion]:
    """Yield the versions of an operator. `required`: names of required inputs and attributes; default: all inputs."""
    for since in opsets:
        allowed = tuple(name for opset, names in sorted(types.items()) if opset <= since for name in names)
        yield OperatorVersion(operator, since, allowed, inputs, inputs if required is None else required, index_types, attributes)


VALUES: dict[str, Any] = {
    "value": TENSOR,
    "sparse_value": SPARSE,
    "value_float": FLOAT,
    "value_floats": FLOAT_LIST,
    "value_int": INT,
    "value_ints": INTS,
    "value_string": TEXT,
    "value_strings": TEXTS,
}
INDICES, AXES, SHAPE, TO = ("data", "indices"), ("data", "axes"), ("data", "shape"), ("data", "to")
BLOCKS = ("data", "blocksize")
BOUNDS = ("starts", "ends", "axes", "steps")
SINCE_21 = (21, 23, 24, 25)

_ROWS = (
    *_versions("Gather", (1, 11, 13), INDICES, index_types=INT32_OR_INT64, axis=INT),
    *_versions("GatherElements", (11, 13), INDICES, index_types=INT32_OR_INT64, axis=INT),
    *_versions("GatherND", (11,), INDICES),
    *_versions("GatherND", (12, 13), INDICES, batch_dims=INT),
    *_versions("Slice", (1,), required=("data", "starts", "ends"), starts=INTS, ends=INTS, axes=INTS),
    *_versions("Slice", (10, 11, 13), ("data", *BOUNDS), ("data", "starts", "ends"), index_types=INT32_OR_INT64),
    *_versions("DepthToSpace", (1,), required=BLOCKS, types=UNTIL_13, index_types=(), blocksize=INT),
    *_versions("DepthToSpace", (11, 13, 28), required=BLOCKS, types=UNTIL_13, index_types=(), blocksize=INT, mode=TEXT),
    *_versions("SpaceToDepth", (1, 13), required=BLOCKS, types=UNTIL_13, index_types=(), blocksize=INT),
    *_versions("SpaceToDepth", (28,), required=BLOCKS, types=UNTIL_13, index_types=(), blocksize=INT, mode=TEXT),
    *_versions("Identity", (1, 13, 14, 16, 19, *SINCE_21)),  # versions 14 and 16 add types that no gather reads
    *_versions("Constant", (1,), (), ("value",), types={1: FLOATS}, value=TENSOR),
    *_versions("Constant", (9,), (), ("value",), value=TENSOR),
    *_versions("Constant", (11,), (), value=TENSOR, sparse_value=SPARSE),
    *_versions("Constant", (12, 13, 19, *SINCE_21), (), **VALUES),
    *_versions("Shape", (1, 13)),
    *_versions("Shape", (15, 19, *SINCE_21), start=INT, end=INT),
    *_versions("Squeeze", (1, 11), axes=INTS),
    *_versions("Squeeze", (13, *SINCE_21), AXES, ("data",)),
    *_versions("Unsqueeze", (1, 11), required=AXES, axes=INTS),
    *_versions("Unsqueeze", (13, *SINCE_21), AXES),
    *_versions("Reshape", (1,), required=SHAPE, types={1: FLOATS}, shape=INTS, consumed_inputs=INTS),
    *_versions("Reshape", (5, 13), SHAPE),
    *_versions("Reshape", (14, 19, *SINCE_21), SHAPE, allowzero=INT),
    *_versions("Transpose", (1, 13, *SINCE_21), perm=INTS),
    *_versions("Cast", (1,), required=TO, types=CAST_TYPES, to=TEXT),
    *_versions("Cast", (6, 9, 13), required=TO, types=CAST_TYPES, to=INT),
    *_versions("Cast", (19, 21, 23), required=TO, types=CAST_TYPES, to=INT, saturate=INT),
    *_versions("Cast", (24, 25, 28), required=TO, types=CAST_TYPES, to=INT, saturate=INT, round_mode=TEXT),
)

VERSIONS = {name: tuple(row for row in _ROWS if row.operator == name) for name in dict.fromkeys(row.operator for row in _ROWS)}
"""The versions of each operator, oldest first. Source: onnx/docs/Changelog.md."""


@lru_cache(typed=True)
def version_of(operator: str, opset: int) -> OperatorVersion:
    """Return the version of an operator at an opset. Raise ValueError if the operator came later."""
    number = whole("opset", opset)
    versions = VERSIONS[operator]
    if number < versions[0].since:
        raise ValueError(f"opset is {opset}, but {operator} exists from opset {versions[0].since} on")
    return [version for version in versions if version.since <= number][-1]


def since_of(operator: str, opset: int) -> int | None:
    """Return the version's number, such as 13 for Gather at opset 20. Return None if the operator came later."""
    return version_of(operator, opset).since if opset >= VERSIONS[operator][0].since else None


def own_opset(imports: Iterable[Any]) -> int:
    """Return the version of ONNX's own operators in a list of OperatorSetIdProtos, or 1 if it has none."""
    return next((int(entry.version) for entry in imports if entry.domain in DOMAINS), 1)


class OnnxProblem(Problem):
    """A call of an ONNX operator at an opset."""

    opset: int

    out_of_bounds = OutOfBounds.RAISE

    @property
    def version(self) -> OperatorVersion:
        """The version of the operator at this opset."""
        return version_of(self.name, self.opset)
