"""Initial values of a resource: their number and type, and their elements, which are computed when a run needs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.chunks import chunks
from dmlgather.directml.types import DataType
from dmlgather.wording import shown_value

CHUNK = 2**20
"""Elements that a generated sequence computes at a time."""

_NAMED = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class ValueFitError(ValueError):
    """A value does not fit the resource's type. index: of the value in a list; None for a single value."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class Values(ABC):
    """Initial values of one data type, in order."""

    data_type: DataType
    count: int

    @property
    def bytes(self) -> int:
        """Bytes of all values, packed."""
        return self.count * self.data_type.bytes

    @property
    def scratch_bytes(self) -> int:
        """Bytes that `write` needs in addition to `out`, if they grow with the values."""
        return 0

    @abstractmethod
    def write(self, out: NDArray[Any]) -> None:
        """Write all values; out: [count] of `dtype_of(data_type)`, every element is written."""


@dataclass(frozen=True, eq=False)
class Listed(Values):
    """`[1, 2, "nan"]`. values: [count] of the data type."""

    data_type: DataType
    count: int
    values: NDArray[Any]

    def write(self, out: NDArray[Any]) -> None:
        out[...] = self.values


@dataclass(frozen=True)
class Constant(Values):
    """`{"valueCount": 4, "value": 0}`."""

    data_type: DataType
    count: int
    value: Any

    def write(self, out: NDArray[Any]) -> None:
        for chunk in chunks(out):
            chunk[...] = self.value


@dataclass(frozen=True)
class Progression(Values):
    """`{"valueCount": 4, "valueStart": 1, "valueDelta": 2.5}`: each value is the one before it plus the delta, in the type."""

    data_type: DataType
    count: int
    start: Any
    delta: Any

    def write(self, out: NDArray[Any]) -> None:
        at = 0
        for chunk in self.chunks():
            out[at : at + chunk.size] = chunk
            at += chunk.size

    def chunks(self) -> Iterator[NDArray[Any]]:
        """The values, at most `CHUNK` at a time."""
        dtype = dtype_of(self.data_type)
        current = dtype.type(self.start)
        for at in range(0, self.count, CHUNK):
            steps = np.full(min(CHUNK, self.count - at), self.delta, dtype)
            steps[0] = current
            with np.errstate(over="ignore", invalid="ignore"):  # `progression` checks for overflow; inf is a value
                values = np.add.accumulate(steps, dtype=dtype)
                current = (values[-1:] + dtype.type(self.delta))[0]
            yield values


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """The NumPy type with the same bits, little-endian as in every file and buffer."""
    return np.dtype(data_type.name.lower()).newbyteorder("<")


def listed(data_type: DataType, given: Sequence[Any]) -> Listed:
    """The listed values in their type. ValueFitError for the first that does not fit."""
    dtype = dtype_of(data_type)
    if dtype.kind in "iu" and set(map(type, given)) <= {int}:
        limits = np.iinfo(dtype)
        if limits.min <= min(given, default=0) and max(given, default=0) <= limits.max:
            return Listed(data_type, len(given), np.array(given, dtype))
    elif dtype.kind == "f" and set(map(type, given)) <= {int, float}:
        try:
            wide = np.array(given, np.float64)
        except OverflowError:  # an integer larger than any float; the loop below reports it
            pass
        else:
            with np.errstate(over="ignore"):
                values = wide.astype(dtype)
            if np.isfinite(values).all():
                return Listed(data_type, len(given), values)
    values = np.empty(len(given), dtype)
    for index, value in enumerate(given):
        try:
            values[index] = scalar(data_type, value)
        except ValueFitError as error:
            raise ValueFitError(str(error), index) from None
    return Listed(data_type, len(given), values)


def scalar(data_type: DataType, given: Any) -> Any:
    """One JSON value as an element of the type. ValueFitError names the value and what the type holds."""
    dtype = dtype_of(data_type)
    named = isinstance(given, str) and given.lower() in _NAMED
    if isinstance(given, bool) or not (isinstance(given, int | float) or named):
        hint = '; "nan", "inf" and "-inf" are the only words' if isinstance(given, str) else ""
        raise ValueFitError(f"expected a number of type {data_type.name}, got {shown_value(given)}{hint}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not isinstance(given, int):
            raise ValueFitError(f"{shown_value(given)} is no integer, but the values are {data_type.name}")
        if not limits.min <= given <= limits.max:
            raise ValueFitError(f"{shown_value(given)} does not fit {data_type.name}, which holds {limits.min} … {limits.max}")
        return dtype.type(given)
    if named:
        return dtype.type(_NAMED[given.lower()])
    try:
        with np.errstate(over="ignore"):
            value = dtype.type(float(given))
    except OverflowError:
        value = dtype.type("inf")
    if not np.isfinite(value):
        largest = np.finfo(dtype).max
        raise ValueFitError(
            f'{shown_value(given)} does not fit {data_type.name}, which holds -{largest} … {largest}; infinity is written "inf"'
        )
    return value


def progression(data_type: DataType, count: int, start: Any, delta: Any) -> Progression:
    """The sequence from `start` by steps of `delta`, both of the type. ValueFitError when it leaves the type's range."""
    found = Progression(data_type, count, start, delta)
    dtype = dtype_of(data_type)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        first, step = int(start), int(delta)
        last = first + (count - 1) * step
        if low <= last <= high:
            return found
        number = (high - first) // step + 1 if step > 0 else (first - low) // -step + 1
        shown = str(first + number * step)
    elif not (np.isfinite(start) and np.isfinite(delta)):
        return found
    else:
        if abs(float(start) + (count - 1) * float(delta)) <= float(np.finfo(dtype).max):
            return found
        number = 0
        for chunk in found.chunks():
            finite = np.isfinite(chunk)
            if not finite.all():
                number += int(np.argmin(finite))
                break
            number += chunk.size
        else:
            return found  # rounding keeps the sum from growing that far
        shown = "infinity"
    raise ValueFitError(f"value {number} of the sequence would be {shown}, which does not fit {data_type.name}")
