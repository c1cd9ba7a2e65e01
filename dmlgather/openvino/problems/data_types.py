"""OpenVINO's data types: their names, and the NumPy types that hold them."""

from __future__ import annotations

from dmlgather.dialects.element_types import ElementTypes

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
"""OpenVINO's element types of whole bytes, and its strings: name in OpenVINO -> name in NumPy."""

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
"""What indices, axes and bounds may be."""
