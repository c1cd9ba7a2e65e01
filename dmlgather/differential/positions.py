"""Elements that say where they stand in the inputs, and what elements found in an output say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.chunks import CHUNK
from dmlgather.dialects.problem import TensorType
from dmlgather.plan import unravel

WHOLE_STRING = 2**62
"""A string holds any position."""


def radix(dtype: np.dtype[Any]) -> int:
    """Return how many numbers from 0 on one element can hold exactly.

    Types of 8 bits hold a number as their bits, all others as their value.
    """
    if dtype.hasobject:
        return WHOLE_STRING
    if dtype.kind == "b":
        return 2
    if dtype.itemsize == 1:
        return 256
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max) + 1
    return int(2 ** (_mantissa_bits(dtype) + 1))


def _mantissa_bits(dtype: np.dtype[Any]) -> int:
    if dtype.isbuiltin == 1:  # 2: of ml_dtypes
        return int(np.finfo(dtype).nmant)
    import ml_dtypes

    return int(ml_dtypes.finfo(dtype).nmant)  # type: ignore[no-untyped-call] # it states no types


def encoded(numbers: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return elements that hold these numbers, each below `radix(dtype)`."""
    if dtype.hasobject:
        return numbers.astype(str).astype(object)
    if dtype.itemsize == 1 and dtype.kind != "b":
        return numbers.astype(np.uint8).view(dtype)
    return numbers.astype(dtype)


def decoded(elements: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers that elements hold, -1 for an element that holds none."""
    dtype = elements.dtype
    if dtype.hasobject:
        numbers = [int(each) if str(each).isdecimal() else -1 for each in elements.flat]
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
    """Numbers the elements of all data inputs, from 1 on, so that zeros that are filled in have no number.

    types: of the data inputs, by name. Where an element is too narrow for its number, several runs hold a digit each: `digits`.
    """

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self.types = types
        self._starts: dict[str, int] = {}
        end = 1
        for name, tensor in types.items():
            self._starts[name] = end
            end += prod(tensor.shape)
        self.end = end
        self.radix = min((radix(tensor.dtype) for tensor in types.values()), default=WHOLE_STRING)
        self.digits = 1
        while self.radix**self.digits <= end:  # no element has the greatest digit alone, as what is filled in may have
            self.digits += 1

    def elements(self, digit: int) -> dict[str, NDArray[Any]]:
        """Return the data inputs, by name, with one digit of each element's number."""
        found = {}
        for name, tensor in self.types.items():
            first, flat = self._starts[name], np.empty(prod(tensor.shape), tensor.dtype)
            for start in range(0, flat.size, CHUNK):
                part = flat[start : start + CHUNK]
                numbers = np.arange(first + start, first + start + part.size, dtype=np.int64)
                part[...] = encoded(numbers // self.radix**digit % self.radix if self.digits > 1 else numbers, tensor.dtype)
            found[name] = flat.reshape(tensor.shape)
        return found

    def origin(self, digits: Sequence[int]) -> str | None:
        """Return the input element whose digits were found, such as "data[3, 4]"; None where no element has them."""
        if min(digits) < 0:
            return None
        number = sum(digit * self.radix**place for place, digit in enumerate(digits))
        for name, tensor in self.types.items():
            start = self._starts[name]
            if start <= number < start + prod(tensor.shape):
                return element(name, unravel(number - start, tensor.shape))
        return None


def element(name: str, place: Sequence[int]) -> str:
    """Return how messages name one element: "data[3, 4]"."""
    return f"{name}[{', '.join(map(str, place))}]" if place else name


EXPONENT = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF << 52}
"""The bits of the exponent, by type."""


def random_elements(chance: np.random.Generator, tensor: TensorType) -> NDArray[Any]:
    """Return elements of random bits; of floats, a third are NaNs, quiet and signalling ones with payloads, and a sixth are zeros
    of both signs. Strings are random numbers.
    """
    shape, dtype = tensor.shape, tensor.dtype
    if dtype.hasobject:
        found = np.empty(prod(shape), object)
        found[:] = [f"s{number}" for number in chance.integers(0, 2**40, prod(shape))]
        return found.reshape(shape)
    if dtype.kind == "b":
        return chance.integers(0, 2, shape).astype(bool)
    found = chance.integers(0, 256, prod(shape) * dtype.itemsize, np.uint8)
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    if part.name in EXPONENT:
        kind = np.dtype(f"u{part.itemsize}").type
        bits, exponent, sign = found.view(kind), kind(EXPONENT[part.name]), kind(1 << 8 * part.itemsize - 1)
        which = chance.integers(0, 6, bits.size)
        bits[which < 2] |= exponent
        bits[which == 2] &= sign
    return found.view(dtype).reshape(shape)
