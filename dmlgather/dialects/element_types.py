"""The data types that a dialect knows, by its own names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

STRING_KINDS = "OSTU"
"""The kinds of NumPy types that stand for strings; problems have them as objects."""

BELOW_A_BYTE = ("float6_", "float4_", "int4", "uint4", "int2", "uint2")
"""What the names of types of less than a byte begin with; NumPy's arrays have a byte for each element."""

OF_ML_DTYPES = ("bfloat16", "float8_", *BELOW_A_BYTE)
"""What the names of types begin with that NumPy lacks and ml_dtypes has."""


def numpy_type(given: Any) -> np.dtype[Any]:
    """The NumPy type that a type or its name means, those of ml_dtypes included; the object type for strings.

    TypeError, as NumPy's own, for anything else.
    """
    if isinstance(given, str) and given.startswith(OF_ML_DTYPES):
        try:
            import ml_dtypes
        except ModuleNotFoundError:
            raise TypeError(f"{given} is a type of the package ml_dtypes, which is missing: pip install ml-dtypes") from None
        given = getattr(ml_dtypes, given, given)
    if given is None:  # which NumPy takes for float64
        raise TypeError("no data type")
    dtype: np.dtype[Any] = np.dtype(given)
    return np.dtype(object) if dtype.kind in STRING_KINDS else dtype


class ElementTypes:
    """A dialect's names of NumPy's types."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """`names`: name in the dialect -> name in NumPy; bfloat16 and float8 types come from ml_dtypes."""
        self.names = names
        self._known = {numpy_name: name for name, numpy_name in names.items()}
        self._found: dict[np.dtype[Any], str] = {}

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """The NumPy type of one of the names."""
        return numpy_type(self.names[name])

    def name_of(self, dtype: np.dtype[Any]) -> str:
        """The dialect's name of a NumPy type, or NumPy's own where it has none."""
        if dtype not in self._found:
            self._found[dtype] = self._known.get(dtype.name, str(dtype))
        return self._found[dtype]

    def check(self, operation: object, name: str, dtype: np.dtype[Any], allowed: Sequence[str]) -> None:
        """TypeError unless the tensor `name` of an operation may have that type: one of the `allowed` names."""
        found = self.name_of(dtype)
        if found not in allowed:
            raise TypeError(f"{name} has type {found}, but {operation} takes {', '.join(allowed)}")
        if name != "data" and not dtype.isnative:
            raise TypeError(f"{name} has type {dtype.str!r} with the other byte order; convert with .astype({dtype.name!r})")
