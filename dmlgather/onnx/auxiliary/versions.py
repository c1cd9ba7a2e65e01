"""Which versions the auxiliary operators have: types, inputs and attributes. Literal data; code only looks up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

from dmlgather.dialects.element_types import ElementTypes
from dmlgather.onnx.problems.operators import DTYPES


class Kind(IntEnum):
    """What an attribute holds. Source: AttributeProto.AttributeType in onnx.proto."""

    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    FLOATS = 6
    INTS = 7
    STRINGS = 8
    SPARSE_TENSOR = 11


NARROW = {
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "int2": "int2",
    "int4": "int4",
    "uint2": "uint2",
    "uint4": "uint4",
}
"""The types that auxiliary operators take beyond the family's: name in ONNX -> name in ml_dtypes."""

TYPES = ElementTypes(DTYPES | NARROW)

REALS = ("bool", "double", "float", "float16", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8")
COMPLEX = ("complex128", "complex64")
FLOATS_ALONE = ("double", "float", "float16")
UNTIL_12 = (*REALS, *COMPLEX, "string")
SINCE_13 = (*UNTIL_12, "bfloat16")
FLOAT8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
SINCE_19 = (*SINCE_13, *FLOAT8)
SINCE_21 = (*SINCE_19, "int4", "uint4")
SINCE_23 = (*SINCE_21, "float4e2m1")
SINCE_24 = (*SINCE_23, "float8e8m0")
SINCE_25 = (*SINCE_24, "int2", "uint2")
FLOAT6 = ("float6e2m3", "float6e3m2")


@dataclass(frozen=True, slots=True)
class AuxiliaryVersion:
    """One version of an auxiliary operator.

    since: the opset that brought it. types: of the data (Constant: of its value). inputs: the data, then inputs whose values
    decide the result's shape, all int64; the first `required` of them must be there. attributes: name and kind of each one.
    """

    operator: str
    since: int
    types: tuple[str, ...]
    inputs: tuple[str, ...] = ("data",)
    required: int = 1
    attributes: Mapping[str, Kind] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    def __str__(self) -> str:
        return f"{self.operator}-{self.since}"


_AXES = MappingProxyType({"axes": Kind.INTS})
_WINDOW = MappingProxyType({"start": Kind.INT, "end": Kind.INT})
_ALLOW_ZERO = MappingProxyType({"allowzero": Kind.INT})
_PERM = MappingProxyType({"perm": Kind.INTS})
_TO = MappingProxyType({"to": Kind.INT})
_TO_SATURATED = MappingProxyType({**_TO, "saturate": Kind.INT})
_TO_ROUNDED = MappingProxyType({**_TO_SATURATED, "round_mode": Kind.STRING})
_VALUE = MappingProxyType({"value": Kind.TENSOR})
_SPARSE = MappingProxyType({**_VALUE, "sparse_value": Kind.SPARSE_TENSOR})
_VALUES = MappingProxyType(
    {
        **_SPARSE,
        "value_float": Kind.FLOAT,
        "value_floats": Kind.FLOATS,
        "value_int": Kind.INT,
        "value_ints": Kind.INTS,
        "value_string": Kind.STRING,
        "value_strings": Kind.STRINGS,
    }
)


def _since_21(operator: str, inputs: tuple[str, ...], required: int, attributes: Mapping[str, Kind]) -> list[AuxiliaryVersion]:
    """From opset 21 on, the auxiliary operators only gain types, at the same opsets."""
    rows = ((21, SINCE_21), (23, SINCE_23), (24, SINCE_24), (25, SINCE_25))
    return [AuxiliaryVersion(operator, since, types, inputs, required, attributes) for since, types in rows]


_BOTH_AXES = ("data", "axes")
_BOTH_SHAPE = ("data", "shape")
_NO_ATTRIBUTES: Mapping[str, Kind] = MappingProxyType({})

VERSIONS = (
    AuxiliaryVersion("Identity", 1, UNTIL_12),
    AuxiliaryVersion("Identity", 13, SINCE_13),
    AuxiliaryVersion("Identity", 14, SINCE_13),  # 14 and 16 bring sequences and optionals, which no gather reads
    AuxiliaryVersion("Identity", 16, SINCE_13),
    AuxiliaryVersion("Identity", 19, SINCE_19),
    *_since_21("Identity", ("data",), 1, _NO_ATTRIBUTES),
    AuxiliaryVersion("Constant", 1, FLOATS_ALONE, (), 0, _VALUE),
    AuxiliaryVersion("Constant", 9, UNTIL_12, (), 0, _VALUE),
    AuxiliaryVersion("Constant", 11, UNTIL_12, (), 0, _SPARSE),
    AuxiliaryVersion("Constant", 12, UNTIL_12, (), 0, _VALUES),
    AuxiliaryVersion("Constant", 13, SINCE_13, (), 0, _VALUES),
    AuxiliaryVersion("Constant", 19, SINCE_19, (), 0, _VALUES),
    *_since_21("Constant", (), 0, _VALUES),
    AuxiliaryVersion("Shape", 1, UNTIL_12),
    AuxiliaryVersion("Shape", 13, SINCE_13),
    AuxiliaryVersion("Shape", 15, SINCE_13, attributes=_WINDOW),
    AuxiliaryVersion("Shape", 19, SINCE_19, attributes=_WINDOW),
    *_since_21("Shape", ("data",), 1, _WINDOW),
    AuxiliaryVersion("Squeeze", 1, UNTIL_12, attributes=_AXES),
    AuxiliaryVersion("Squeeze", 11, UNTIL_12, attributes=_AXES),
    AuxiliaryVersion("Squeeze", 13, SINCE_13, _BOTH_AXES),
    *_since_21("Squeeze", _BOTH_AXES, 1, _NO_ATTRIBUTES),
    AuxiliaryVersion("Unsqueeze", 1, UNTIL_12, attributes=_AXES),
    AuxiliaryVersion("Unsqueeze", 11, UNTIL_12, attributes=_AXES),
    AuxiliaryVersion("Unsqueeze", 13, SINCE_13, _BOTH_AXES, 2),
    *_since_21("Unsqueeze", _BOTH_AXES, 2, _NO_ATTRIBUTES),
    AuxiliaryVersion("Reshape", 1, FLOATS_ALONE, attributes=MappingProxyType({"shape": Kind.INTS, "consumed_inputs": Kind.INTS})),
    AuxiliaryVersion("Reshape", 5, UNTIL_12, _BOTH_SHAPE, 2),
    AuxiliaryVersion("Reshape", 13, SINCE_13, _BOTH_SHAPE, 2),
    AuxiliaryVersion("Reshape", 14, SINCE_13, _BOTH_SHAPE, 2, _ALLOW_ZERO),
    AuxiliaryVersion("Reshape", 19, SINCE_19, _BOTH_SHAPE, 2, _ALLOW_ZERO),
    *_since_21("Reshape", _BOTH_SHAPE, 2, _ALLOW_ZERO),
    AuxiliaryVersion("Transpose", 1, UNTIL_12, attributes=_PERM),
    AuxiliaryVersion("Transpose", 13, SINCE_13, attributes=_PERM),
    *_since_21("Transpose", ("data",), 1, _PERM),
    AuxiliaryVersion("Cast", 1, REALS, attributes=MappingProxyType({"to": Kind.STRING})),
    AuxiliaryVersion("Cast", 6, REALS, attributes=_TO),
    AuxiliaryVersion("Cast", 9, (*REALS, "string"), attributes=_TO),
    AuxiliaryVersion("Cast", 13, (*REALS, "string", "bfloat16"), attributes=_TO),
    AuxiliaryVersion("Cast", 19, tuple(name for name in SINCE_19 if name not in COMPLEX), attributes=_TO_SATURATED),
    AuxiliaryVersion("Cast", 21, tuple(name for name in SINCE_21 if name not in COMPLEX), attributes=_TO_SATURATED),
    AuxiliaryVersion("Cast", 23, tuple(name for name in SINCE_23 if name not in COMPLEX), attributes=_TO_SATURATED),
    AuxiliaryVersion("Cast", 24, tuple(name for name in SINCE_24 if name not in COMPLEX), attributes=_TO_ROUNDED),
    AuxiliaryVersion("Cast", 25, tuple(name for name in SINCE_25 if name not in COMPLEX), attributes=_TO_ROUNDED),
    AuxiliaryVersion("Cast", 28, (*(name for name in SINCE_25 if name not in COMPLEX), *FLOAT6), attributes=_TO_ROUNDED),
)
"""Source: onnx/docs/Changelog.md, by operator and version; oldest first."""

NEWEST_OPSET = 28
"""The newest opset that the table was written against."""


def version_of(operator: str, opset: int) -> AuxiliaryVersion:
    """The version of an auxiliary operator in force at an opset: the newest at or below it. ValueError before the first."""
    versions = [version for version in VERSIONS if version.operator == operator and version.since <= opset]
    if not versions:
        raise ValueError(f"opset is {opset}, but {operator} exists from opset 1 on")
    return versions[-1]
