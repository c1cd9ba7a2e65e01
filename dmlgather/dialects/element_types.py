"""Names of data types in the dialects, and the NumPy types that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

STRING_KINDS = "OSTU"
"""`dtype.kind` of types that can hold strings. Problems use the object type for them."""

BELOW_A_BYTE = ("float6_", "float4_", "int4", "uint4", "int2", "uint2")
"""Prefixes of types smaller than a byte. In a NumPy array, such an element takes one byte."""

OF_ML_DTYPES = ("bfloat16", "float8_", *BELOW_A_BYTE)
"""Prefixes of the types in the package ml_dtypes."""


def numpy_type(data_type: Any) -> np.dtype[Any]:
    """Return the NumPy type for a type of an array library, or its name. Raises TypeError for other values."""
    if type(data_type).__module__ == "torch":  # torch.bfloat16
        data_type = str(data_type).removeprefix("torch.")
    if isinstance(data_type, str) and data_type.startswith(OF_ML_DTYPES):
        try:
            import ml_dtypes
        except ModuleNotFoundError:
            raise TypeError(f"{data_type} is a type of the package ml_dtypes, which is missing: pip install ml-dtypes") from None
        data_type = getattr(ml_dtypes, data_type, data_type)
    if data_type is None:  # NumPy would return float64
        raise TypeError("no data type")
    if isinstance(data_type, str) and data_type == "float":
        raise TypeError("float is float32 in ONNX and PyTorch, and float64 in NumPy: write 'float32' or 'float64'")
    if isinstance(data_type, str) and data_type == "string":  # ONNX's and OpenVINO's name
        data_type = object
    dtype: np.dtype[Any] = np.dtype(data_type)
    return np.dtype(object) if dtype.kind in STRING_KINDS else dtype


def is_type(value: Any) -> bool:
    """Return True if `value` may be a data type: a name, a class, or a type of NumPy or PyTorch."""
    return isinstance(value, str | type | np.dtype) or (type(value).__module__, type(value).__name__) == ("torch", "dtype")


class ElementTypes:
    """A dialect's names of data types. `names`: NumPy's or ml_dtypes' name for each name of the dialect."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self._by_numpy_name = {numpy_name: name for name, numpy_name in names.items()}
        self._by_type: dict[np.dtype[Any], str] = {}

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """Return the NumPy type for a name in the dialect."""
        return numpy_type(self.names[name])

    def name_of(self, dtype: np.dtype[Any]) -> str:
        """Return the dialect's name for a NumPy type, or NumPy's name if there is none."""
        if dtype not in self._by_type:
            self._by_type[dtype] = self._by_numpy_name.get(dtype.name, str(dtype))
        return self._by_type[dtype]

    def check(self, operation: object, name: str, dtype: np.dtype[Any], allowed: Sequence[str]) -> None:
        """Raise TypeError unless `dtype` is one of the `allowed` types, which are names in the dialect."""
        if self.name_of(dtype) not in allowed:
            raise TypeError(f"{name} has type {self.name_of(dtype)}, but {operation} takes {', '.join(allowed)}")
        if name != "data" and not dtype.isnative:
            raise TypeError(f"{name} has type {dtype.str!r} with the other byte order; convert with .astype({dtype.name!r})")


def conversion(actual: np.dtype[Any], expected: np.dtype[Any], *, indices: bool = False) -> str:
    """Return advice on converting an input of a wrong type. Indices must keep their values; data only their bits."""
    if not actual.isnative and actual.newbyteorder("=") == expected:
        return 'it has the other byte order; convert with x.astype(x.dtype.newbyteorder("="))'
    if indices and actual.kind == "i" and expected.kind == "u":
        return (
            f"convert with numpy.where(ids < 0, ids + n, ids).astype('{expected}'), where n is the size of the indexed axis: an "
            "unsigned index does not count from the end"
        )
    bits = "" if indices or actual.itemsize != expected.itemsize else f", or keep the bits with .view('{expected}')"
    return f"convert with .astype('{expected}'){bits}"
