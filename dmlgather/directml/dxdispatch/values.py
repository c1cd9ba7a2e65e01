"""The initial values of a resource. Number and type are read with the model; elements are computed only for a run."""

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
"""Elements of a sequence that are computed at a time. This limits the temporary memory."""

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
"""Format characters of `struct`. Checking a file should not import NumPy."""


class ValueFitError(ValueError):
    """A value does not fit the resource's data type. `index`: position in the list of values."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class Values(ABC):
    """Initial values: `count` values of one data type."""

    data_type: DataType
    count: int

    @property
    def bytes(self) -> int:
        """Size of all values, in bytes."""
        return self.count * self.data_type.bytes

    @property
    def scratch_bytes(self) -> int:
        """Temporary memory that `write` needs, in bytes, without small constant amounts."""
        return 0

    @abstractmethod
    def write(self, out: NDArray[Any]) -> None:
        """Write all values to `out`, which has shape [count] and type `dtype_of(data_type)`."""


@dataclass(frozen=True, eq=False)
class Listed(Values):
    """Values that the model lists: `[1, 2, "nan"]`. `packed`: their bytes, little-endian."""

    data_type: DataType
    count: int
    packed: bytes

    def write(self, out: NDArray[Any]) -> None:
        import numpy as np

        out[...] = np.frombuffer(self.packed, dtype_of(self.data_type))


@dataclass(frozen=True)
class Constant(Values):
    """A repeated value: `{"valueCount": 4, "value": 0}`."""

    data_type: DataType
    count: int
    value: Any

    def write(self, out: NDArray[Any]) -> None:
        for chunk in chunks(out):
            chunk[...] = self.value


@dataclass(frozen=True)
class Progression(Values):
    """An arithmetic sequence: `{"valueCount": 4, "valueStart": 1, "valueDelta": 2.5}` stands for 1, 3.5, 6, 8.5.

    Each value is rounded to the data type before `delta` is added to it.
    """

    data_type: DataType
    count: int
    start: Any
    delta: Any

    def write(self, out: NDArray[Any]) -> None:
        offset = 0
        for chunk in self.chunks():
            out[offset : offset + chunk.size] = chunk
            offset += chunk.size

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the values, at most `CHUNK` at a time."""
        import numpy as np

        dtype = dtype_of(self.data_type)
        current = dtype.type(self.start)
        for offset in range(0, self.count, CHUNK):
            steps = np.full(min(CHUNK, self.count - offset), self.delta, dtype)
            steps[0] = current
            with np.errstate(over="ignore", invalid="ignore"):  # `progression` has checked for overflow; start may be inf
                values = np.add.accumulate(steps, dtype=dtype)
                current = (values[-1:] + dtype.type(self.delta))[0]
            yield values


def listed(data_type: DataType, entries: Sequence[Any]) -> Listed:
    """Convert a JSON list of values. Raises ValueFitError for the first value that does not fit."""
    integral = data_type.index_type is not None
    if set(map(type, entries)) <= ({int} if integral else {int, float}):
        try:
            if integral or all(map(isfinite, entries)):
                return Listed(data_type, len(entries), _packed(data_type, entries))
        except (OverflowError, struct.error):  # the loop below finds the value that does not fit
            pass
    numbers = []
    for index, entry in enumerate(entries):
        try:
            numbers.append(scalar(data_type, entry))
        except ValueFitError as error:
            raise ValueFitError(str(error), index) from None
    return Listed(data_type, len(numbers), _packed(data_type, numbers))


def _packed(data_type: DataType, numbers: Sequence[float]) -> bytes:
    """Return numbers as little-endian bytes. Raises struct.error or OverflowError if one does not fit."""
    return struct.pack(f"<{len(numbers)}{_LETTERS[data_type]}", *numbers)


def scalar(data_type: DataType, entry: Any) -> Any:
    """Convert a JSON value to an int, or to a float rounded to the data type.

    Raises ValueFitError if the value is no number or does not fit the data type.
    """
    is_word = isinstance(entry, str) and entry.lower() in _NAMED
    if isinstance(entry, bool) or not (isinstance(entry, int | float) or is_word):
        hint = '; "nan", "inf" and "-inf" are the only words' if isinstance(entry, str) else ""
        raise ValueFitError(f"expected a number of type {data_type.name}, got {shown_value(entry)}{hint}")
    if data_type.index_type is not None:
        low, high = _limits(data_type)
        if not isinstance(entry, int):
            raise ValueFitError(f"{shown_value(entry)} is no integer, but the values are {data_type.name}")
        if not low <= entry <= high:
            raise ValueFitError(f"{shown_value(entry)} does not fit {data_type.name}, which holds {low} … {high}")
        return entry
    if is_word:
        return _NAMED[entry.lower()]
    try:
        value: float = struct.unpack(f"<{_LETTERS[data_type]}", _packed(data_type, [float(entry)]))[0]
    except OverflowError:
        value = float("inf")
    if not isfinite(value):
        import numpy as np

        largest = np.finfo(dtype_of(data_type)).max
        raise ValueFitError(
            f'{shown_value(entry)} does not fit {data_type.name}, which holds -{largest} … {largest}; infinity is written "inf"'
        )
    return value


def _limits(data_type: DataType) -> tuple[int, int]:
    bits, signed = 8 * data_type.bytes, data_type.name.startswith("INT")
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def progression(data_type: DataType, count: int, start: Any, delta: Any) -> Progression:
    """Return a sequence of `count` values. Raises ValueFitError if it leaves the range of the data type.

    Example: UINT8, start 250, delta 4. 250 and 254 fit. The value with index (255 - 250) div 4 + 1 = 2 would be 258, which does
    not.
    """
    sequence = Progression(data_type, count, start, delta)
    if data_type.index_type is not None:
        low, high = _limits(data_type)
        first, step = int(start), int(delta)
        last = first + (count - 1) * step
        if low <= last <= high:
            return sequence
        number = (high - first) // step + 1 if step > 0 else (first - low) // -step + 1
        shown = str(first + number * step)
    elif not (isfinite(start) and isfinite(delta)):
        return sequence
    else:
        import numpy as np

        if abs(float(start) + (count - 1) * float(delta)) <= float(np.finfo(dtype_of(data_type)).max):
            return sequence
        number = 0
        for chunk in sequence.chunks():
            finite = np.isfinite(chunk)
            if not finite.all():
                number += int(np.argmin(finite))
                break
            number += chunk.size
        else:
            return sequence  # rounding stops the growth: 65504 + 1 is 65504 in FLOAT16
        shown = "infinity"
    raise ValueFitError(f"value {number} of the sequence would be {shown}, which does not fit {data_type.name}")
