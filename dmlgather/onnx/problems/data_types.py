"""ONNX's data types: numbers, names and NumPy types."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgather.dialects.element_types import ElementTypes

TYPES = ElementTypes(
    {
        "float": "float32",
        "uint8": "uint8",
        "int8": "int8",
        "uint16": "uint16",
        "int16": "int16",
        "int32": "int32",
        "int64": "int64",
        "string": "object",
        "bool": "bool",
        "float16": "float16",
        "double": "float64",
        "uint32": "uint32",
        "uint64": "uint64",
        "complex64": "complex64",
        "complex128": "complex128",
        "bfloat16": "bfloat16",
        "float8e4m3fn": "float8_e4m3fn",
        "float8e4m3fnuz": "float8_e4m3fnuz",
        "float8e5m2": "float8_e5m2",
        "float8e5m2fnuz": "float8_e5m2fnuz",
        "uint4": "uint4",
        "int4": "int4",
        "float4e2m1": "float4_e2m1fn",
        "float8e8m0": "float8_e8m0fnu",
        "uint2": "uint2",
        "int2": "int2",
        "float6e2m3": "float6_e2m3fn",
        "float6e3m2": "float6_e3m2fn",
    }
)
"""ONNX's data types with their names in NumPy or ml_dtypes, in the order of TensorProto.DataType from "float" = 1 on."""

type_name, check_type = TYPES.name_of, TYPES.check

_NAMES = ("undefined", *TYPES.names)


def data_type(which: int | str) -> np.dtype[Any] | None:
    """Return the NumPy type of a number or name in TensorProto.DataType. Return None for UNDEFINED and unknown types."""
    if isinstance(which, str):
        name = which.lower() if which.isupper() else ""
    else:
        name = _NAMES[which] if 0 <= which < len(_NAMES) else ""
    return TYPES.dtype_of(name) if name in TYPES.names else None


def type_number(dtype: np.dtype[Any]) -> int:
    """Return the number of a NumPy type in TensorProto.DataType, such as 1 for float32."""
    return _NAMES.index(type_name(dtype))
