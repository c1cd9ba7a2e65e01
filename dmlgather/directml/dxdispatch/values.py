"""Initial values of a resource: their number and type, and their elements, which are computed when a run needs them."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from dmlgather.chunks import chunks
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.types import DataType
from dmlgather.wording import shown_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 2**20
"""Elements that a generated sequence computes at a time."""

_NAMED = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


_LETTERS = {
    DataType.FLOAT64: "d",
    DataType.FLOAT32: "f",
    DataType.FLOAT16: "e",
    DataType.INT64: "q",
    DataType.INT32: "i",
    DataType.INT16: "h",
    DataType.INT8: "b",
    DataType.UINT64: "Q",
    DataType.UINT32: "I",
    DataType.UINT16: "H",
    DataType.UINT8: "B",
}
"""What `struct` calls the types: reading a file does without NumPy."""


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
    """`[1, 2, "nan"]`. packed: the bytes of the values, little-endian."""

    data_type: DataType
    count: int
    packed: bytes

    def write(self, out: NDArray[Any]) -> None:
        import numpy as np

        out[...] = np.frombuffer(self.packed, dtype_of(self.data_type))


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
        import numpy as np

        dtype = dtype_of(self.data_type)
        current = dtype.type(self.start)
        for at in range(0, self.count, CHUNK):
            steps = np.full(min(CHUNK, self.count - at), self.delta, dtype)
            steps[0] = current
            with np.errstate(over="ignore", invalid="ignore"):  # `progression` checks for overflow; inf is a value
                values = np.add.accumulate(steps, dtype=dtype)
                current = (values[-1:] + dtype.type(self.delta))[0]
            yield values


def listed(data_type: DataType, given: Sequence[Any]) -> Listed:
    """The listed values in their type. ValueFitError for the first that does not fit."""
    whole = data_type.index_type is not None
    if set(map(type, given)) <= ({int} if whole else {int, float}):
        try:
            if whole or all(map(isfinite, given)):
                return Listed(data_type, len(given), _packed(data_type, given))
        except (OverflowError, struct.error):  # the loop below says which value does not fit
            pass
    found = []
    for index, value in enumerate(given):
        try:
            found.append(scalar(data_type, value))
        except ValueFitError as error:
            raise ValueFitError(str(error), index) from None
    return Listed(data_type, len(found), _packed(data_type, found))


def _packed(data_type: DataType, numbers: Sequence[float]) -> bytes:
    """The bytes of numbers, little-endian. struct.error or OverflowError where one does not fit."""
    return struct.pack(f"<{len(numbers)}{_LETTERS[data_type]}", *numbers)


def scalar(data_type: DataType, given: Any) -> Any:
    """One JSON value as an int, or as a float that the type has. ValueFitError names the value and what the type holds."""
    named = isinstance(given, str) and given.lower() in _NAMED
    if isinstance(given, bool) or not (isinstance(given, int | float) or named):
        hint = '; "nan", "inf" and "-inf" are the only words' if isinstance(given, str) else ""
        raise ValueFitError(f"expected a number of type {data_type.name}, got {shown_value(given)}{hint}")
    if data_type.index_type is not None:
        low, high = _limits(data_type)
        if not isinstance(given, int):
            raise ValueFitError(f"{shown_value(given)} is no integer, but the values are {data_type.name}")
        if not low <= given <= high:
            raise ValueFitError(f"{shown_value(given)} does not fit {data_type.name}, which holds {low} … {high}")
        return given
    if named:
        return _NAMED[given.lower()]
    try:
        value: float = struct.unpack(f"<{_LETTERS[data_type]}", _packed(data_type, [float(given)]))[0]
    except OverflowError:
        value = float("inf")
    if not isfinite(value):
        import numpy as np

        largest = np.finfo(dtype_of(data_type)).max
        raise ValueFitError(
            f'{shown_value(given)} does not fit {data_type.name}, which holds -{largest} … {largest}; infinity is written "inf"'
        )
    return value


def _limits(data_type: DataType) -> tuple[int, int]:
    """The smallest and the largest value of a type of integers."""
    bits, signed = 8 * data_type.bytes, data_type.name.startswith("INT")
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def progression(data_type: DataType, count: int, start: Any, delta: Any) -> Progression:
    """The sequence from `start` by steps of `delta`, both of the type. ValueFitError when it leaves the type's range."""
    found = Progression(data_type, count, start, delta)
    if data_type.index_type is not None:
        low, high = _limits(data_type)
        first, step = int(start), int(delta)
        last = first + (count - 1) * step
        if low <= last <= high:
            return found
        number = (high - first) // step + 1 if step > 0 else (first - low) // -step + 1
        shown = str(first + number * step)
    elif not (isfinite(start) and isfinite(delta)):
        return found
    else:
        import numpy as np

        if abs(float(start) + (count - 1) * float(delta)) <= float(np.finfo(dtype_of(data_type)).max):
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
