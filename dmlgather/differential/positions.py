"""Data inputs in which each element contains its own position, so that an output element shows where it was copied from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.chunks import CHUNK
from dmlgather.dialects.problem import TensorType
from dmlgather.plan import unravel

_STRING_RADIX = 2**62
"""Strings can hold any number. This replaces their radix."""


def radix(dtype: np.dtype[Any]) -> int:
    """Return how many of the numbers 0, 1, 2, … a data type can hold without loss, such as 2048 for float16.

    An element of 8 bits stores a number as its bits, any other element as its value.
    """
    if dtype.hasobject:
        return _STRING_RADIX
    if dtype.kind == "b":
        return 2
    if dtype.itemsize == 1:
        return 256
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max) + 1
    return int(2 ** (_mantissa_bits(dtype) + 1))


def _mantissa_bits(dtype: np.dtype[Any]) -> int:
    if dtype.isbuiltin == 1:  # the types of ml_dtypes have 2
        return int(np.finfo(dtype).nmant)
    import ml_dtypes

    return int(ml_dtypes.finfo(dtype).nmant)  # type: ignore[no-untyped-call] # ml_dtypes is not typed


def encoded(numbers: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Store these numbers in an array of type `dtype`. Each must be less than `radix(dtype)`."""
    if dtype.hasobject:
        return numbers.astype(str).astype(object)
    if dtype.itemsize == 1 and dtype.kind != "b":
        return numbers.astype(np.uint8).view(dtype)
    return numbers.astype(dtype)


def decoded(elements: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers that `encoded` has stored. The result is -1 for an element that holds no such number."""
    dtype = elements.dtype
    if dtype.hasobject:
        numbers = [int(text) if str(text).isdecimal() else -1 for text in elements.flat]
        return np.array(numbers, np.int64).reshape(elements.shape)
    if dtype.itemsize == 1 and dtype.kind != "b":
        return np.ascontiguousarray(elements).view(np.uint8).astype(np.int64)
    if dtype.kind in "biu":
        return np.where(elements >= 0, elements, 0).astype(np.int64) - (elements < 0)
    with np.errstate(all="ignore"):
        values = elements.astype(np.complex128)
        whole = np.nan_to_num(values.real, nan=-1.0, posinf=-1.0, neginf=-1.0)
        exact = (values == whole) & (whole >= 0) & (whole == np.floor(whole)) & (whole < radix(dtype))
    return np.where(exact, whole, -1).astype(np.int64)


class Positions:
    """Numbers for the elements of all data inputs, and arrays that contain these numbers.

    If a data type is too narrow for the numbers, they are written in base `radix`, and the program runs once for each digit.
    Numbers start at 1, so no element has the number 0, which may be the fill value.
    """

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self.types = types
        self._starts: dict[str, int] = {}
        end = 1
        for name, tensor in types.items():
            self._starts[name] = end
            end += prod(tensor.shape)
        self.end = end
        self.radix = min((radix(tensor.dtype) for tensor in types.values()), default=_STRING_RADIX)
        self.digits = 1
        # Example: 2 digits suffice for radix 256 and end 65,536. But 255, 255 may be a fill value, so use 3 digits.
        while self.radix**self.digits <= end:
            self.digits += 1

    def elements(self, digit: int) -> dict[str, NDArray[Any]]:
        """Return an array for each input, by name. Each element of an array contains one digit of its own number.

        `digit`: the position of the digit; 0 is the least significant one.
        """
        arrays = {}
        for name, tensor in self.types.items():
            first, flat = self._starts[name], np.empty(prod(tensor.shape), tensor.dtype)
            for start in range(0, flat.size, CHUNK):
                part = flat[start : start + CHUNK]
                numbers = np.arange(first + start, first + start + part.size, dtype=np.int64)
                part[...] = encoded(numbers // self.radix**digit % self.radix if self.digits > 1 else numbers, tensor.dtype)
            arrays[name] = flat.reshape(tensor.shape)
        return arrays

    def origin(self, digits: Sequence[int]) -> str | None:
        """Return the input element whose number has these digits, such as "data[3, 4]", or None if there is none.

        `digits`: least significant digit first.
        """
        if min(digits) < 0:
            return None
        number = sum(digit * self.radix**place for place, digit in enumerate(digits))
        for name, tensor in self.types.items():
            start = self._starts[name]
            if start <= number < start + prod(tensor.shape):
                return element(name, unravel(number - start, tensor.shape))
        return None


def element(name: str, index: Sequence[int]) -> str:
    """Return the name of one element in messages, such as "data[3, 4]"."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


_EXPONENT_MASKS = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF << 52}


def random_elements(rng: np.random.Generator, tensor: TensorType) -> NDArray[Any]:
    """Return an array with random bits, to test whether copies preserve all bits.

    A third of all floats are NaNs or infinities, with random signs and payloads. A sixth are 0.0 or -0.0.
    """
    shape, dtype = tensor.shape, tensor.dtype
    if dtype.hasobject:
        strings = np.empty(prod(shape), object)
        strings[:] = [f"s{number}" for number in rng.integers(0, 2**40, prod(shape))]
        return strings.reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    data = rng.integers(0, 256, prod(shape) * dtype.itemsize, np.uint8)
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype  # a complex number is two floats
    if part.name in _EXPONENT_MASKS:
        unsigned = np.dtype(f"u{part.itemsize}").type
        bits, exponent, sign = data.view(unsigned), unsigned(_EXPONENT_MASKS[part.name]), unsigned(1 << 8 * part.itemsize - 1)
        draw = rng.integers(0, 6, bits.size)
        bits[draw < 2] |= exponent
        bits[draw == 2] &= sign
    return data.view(dtype).reshape(shape)
