"""Which versions the operators have and which types each one takes. Literal data; code only looks up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dmlgather.dialects.element_types import ElementTypes
from dmlgather.dialects.problem import whole

STRING = np.dtype(object)
"""NumPy's type for tensors of strings."""

DTYPES = {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "complex128": "complex128",
    "complex64": "complex64",
    "double": "float64",
    "float": "float32",
    "float16": "float16",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "int8": "int8",
    "string": "object",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "uint8": "uint8",
}
"""The types of ONNX that this family knows: name in ONNX -> name in NumPy."""

TYPES = ElementTypes(DTYPES)
type_name, check_type = TYPES.name_of, TYPES.check

UNTIL_12 = tuple(name for name in DTYPES if name != "bfloat16")
SINCE_13 = tuple(DTYPES)
INT32_OR_INT64 = ("int32", "int64")
INT64_ALONE = ("int64",)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an operator.

    since: the opset that brought it. types: of data and output. indices: of indices, or of starts, ends, axes and steps.
    """

    operator: str
    since: int
    types: tuple[str, ...]
    indices: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.operator}-{self.since}"


VERSIONS = (
    Version("Gather", 1, UNTIL_12, INT32_OR_INT64),
    Version("Gather", 11, UNTIL_12, INT32_OR_INT64),
    Version("Gather", 13, SINCE_13, INT32_OR_INT64),
    Version("GatherElements", 11, UNTIL_12, INT32_OR_INT64),
    Version("GatherElements", 13, SINCE_13, INT32_OR_INT64),
    Version("GatherND", 11, UNTIL_12, INT64_ALONE),
    Version("GatherND", 12, UNTIL_12, INT64_ALONE),
    Version("GatherND", 13, SINCE_13, INT64_ALONE),
    Version("Slice", 1, UNTIL_12, INT64_ALONE),  # attributes, which are INTS
    Version("Slice", 10, UNTIL_12, INT32_OR_INT64),
    Version("Slice", 11, UNTIL_12, INT32_OR_INT64),
    Version("Slice", 13, SINCE_13, INT32_OR_INT64),
)
"""Source: onnx/docs/Changelog.md, by operator and version; oldest first."""

FAMILY = tuple(dict.fromkeys(version.operator for version in VERSIONS))
"""The operators' names."""

DOMAINS = ("", "ai.onnx")
"""The two names of ONNX's own operator set."""


@lru_cache(typed=True)
def version_of(operator: str, opset: int) -> Version:
    """The version of an operator ("Gather") in force at an opset: the newest at or below it. ValueError before the first."""
    number = whole("opset", opset)
    versions = [version for version in VERSIONS if version.operator == operator]
    in_force = [version for version in versions if version.since <= number]
    if not in_force:
        raise ValueError(f"opset is {opset}, but {operator} exists from opset {versions[0].since} on")
    return in_force[-1]
