"""The data types that a dialect knows, by its own names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

STRING_KINDS = "OSTU"
"""The kinds of NumPy types that stand for strings; problems have them as objects."""

BELOW_A_BYTE = ("float6_", "float4_", "int4", "uint4", "int2", "uint2")
"""The names of types of less than a byte start with these; NumPy's arrays have a byte for each element."""

OF_ML_DTYPES = ("bfloat16", "float8_", *BELOW_A_BYTE)
"""The names of the types that ml_dtypes adds to NumPy's start with these."""


def numpy_type(data_type: Any) -> np.dtype[Any]:
    """The NumPy type for a type or a name, those of ml_dtypes and PyTorch's included; the object type for strings.

    TypeError, as NumPy's own, for anything else.
    """
    if type(data_type).__module__ == "torch":  # torch.bfloat16
        data_type = str(data_type).removeprefix("torch.")
    if isinstance(data_type, str) and data_type.startswith(OF_ML_DTYPES):
        try:
            import ml_dtypes
        except ModuleNotFoundError:
            raise TypeError(f"{data_type} is a type of the package ml_dtypes, which is missing: pip install ml-dtypes") from None
        data_type = getattr(ml_dtypes, data_type, data_type)
    if data_type is None:  # which NumPy takes for float64
        raise TypeError("no data type")
    if isinstance(data_type, str) and data_type == "float":
        raise TypeError("float is float32 in ONNX and PyTorch, and float64 in NumPy: write 'float32' or 'float64'")
    if isinstance(data_type, str) and data_type == "string":  # ONNX's and OpenVINO's name
        data_type = object
    dtype: np.dtype[Any] = np.dtype(data_type)
    return np.dtype(object) if dtype.kind in STRING_KINDS else dtype


def is_type(value: Any) -> bool:
    """Whether this can be the second entry of a pair (shape, type): a name or a class, or a type of NumPy or PyTorch."""
    return isinstance(value, str | type | np.dtype) or (type(value).__module__, type(value).__name__) == ("torch", "dtype")


class ElementTypes:
    """A dialect's names of NumPy's types."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """`names`: name in the dialect -> name in NumPy; bfloat16 and float8 types come from ml_dtypes."""
        self.names = names
        self._by_numpy_name = {numpy_name: name for name, numpy_name in names.items()}
        self._by_type: dict[np.dtype[Any], str] = {}

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """The NumPy type of one of the names."""
        return numpy_type(self.names[name])

    def name_of(self, dtype: np.dtype[Any]) -> str:
        """The dialect's name of a NumPy type, or NumPy's own where it has none."""
        if dtype not in self._by_type:
            self._by_type[dtype] = self._by_numpy_name.get(dtype.name, str(dtype))
        return self._by_type[dtype]

    def check(self, operation: object, name: str, dtype: np.dtype[Any], allowed: Sequence[str]) -> None:
        """TypeError unless the tensor `name` of an operation may have that type: one of the `allowed` names."""
        if self.name_of(dtype) not in allowed:
            raise TypeError(f"{name} has type {self.name_of(dtype)}, but {operation} takes {', '.join(allowed)}")
        if name != "data" and not dtype.isnative:
            raise TypeError(f"{name} has type {dtype.str!r} with the other byte order; convert with .astype({dtype.name!r})")


def conversion(given: np.dtype[Any], wanted: np.dtype[Any]) -> str:
    """Return how to make elements of type `wanted` of an array that has `given`."""
    if not given.isnative and given.newbyteorder("=") == wanted:
        return 'it has the other byte order; convert with x.astype(x.dtype.newbyteorder("="))'
    return f"convert with .astype or reinterpret with .view('{wanted}')"
