"""Which elements two devices wrote differently, how an element is a mismatch, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.prepared_call import Lowering
from dmlgather.chunks import chunks
from dmlgather.directml import OperatorDesc
from dmlgather.plan import Layout, unravel
from dmlgather.plan.interpreter import origin_of, step_at
from dmlgather.record import Record
from dmlgather.wording import counted

Number = int | float | Literal["nan", "inf", "-inf"]
"""A number that JSON can hold: of a floating type the shortest decimal that gives back the same bits."""


class Bits(Record):
    """One element of a tensor."""

    value: Number
    """As a number of the tensor's type."""

    bits: str
    """As hexadecimal digits, most significant byte first."""

    def __str__(self) -> str:
        return f"{str(self.value).removesuffix('.0')} (0x{self.bits})"


class IndexRead(Record):
    """An index that decides where an output element comes from."""

    position: tuple[int, ...]
    """Coordinates in IndicesTensor."""

    value: int
    """The index at that position."""

    axis: int
    """The dimension of InputTensor that it indexes."""

    taken_as: int | None
    """The position along that dimension: counted from the start, and clamped. None where the policy fills or raises instead."""

    def __str__(self) -> str:
        place = f"IndicesTensor{list(self.position)} = {self.value}"
        if self.taken_as is None:
            return f"{place}, out of range for dimension {self.axis}"
        return place if self.taken_as == self.value else f"{place}, which means {self.taken_as} along dimension {self.axis}"


class Mismatch(Record):
    """One output element whose bits differ between two devices, and the element that the plan puts there."""

    devices: tuple[str, str]
    """The two devices."""

    output: tuple[int, ...]
    """Coordinates in OutputTensor."""

    found: tuple[Bits, Bits]
    """What each device wrote there."""

    source: tuple[int, ...] | None
    """Coordinates in InputTensor of the element that belongs there; None where the policy writes a fill value."""

    expected: Bits | None
    """That element, or the fill value; None where an index has to raise an error."""

    indices: tuple[IndexRead, ...]
    """The indices that lead there."""

    difference: Number | None
    """The absolute difference of the two numbers; None where either is NaN."""

    differing_bits: int
    """Number of bits that differ."""

    @property
    def bits(self) -> tuple[str, str]:
        """What each device wrote, as hexadecimal digits."""
        return self.found[0].bits, self.found[1].bits

    def __str__(self) -> str:
        origin = "the fill value" if self.source is None else f"InputTensor{list(self.source)}"
        holds = "" if self.expected is None else f" = {self.expected}"
        via = f", by {' and '.join(map(str, self.indices))}" if self.indices else ""
        return (
            f"OutputTensor{list(self.output)}, which should come from {origin}{holds}{via}, is {self.found[0]} on "
            f"{self.devices[0]} and {self.found[1]} on {self.devices[1]}"
        )


class Difference(Record):
    """How one device's output differs from the first device's."""

    devices: tuple[str, str]
    """The first device, and the one that differs from it."""

    differing: int
    """Number of output elements whose bits differ."""

    elements: int
    """Number of output elements."""

    first: Mismatch
    """The first of them in row-major order."""

    worst: Mismatch
    """The one with the largest numeric difference, where a NaN against a number counts as infinite. Of several, the one with the
    most differing bits; of several of those, the first.
    """

    def __str__(self) -> str:
        head = f"{self.differing} of {counted(self.elements, 'element')} differ between {' and '.join(self.devices)}"
        return f"{head}\n  first: {self.first}\n  worst: {'the first' if self.worst == self.first else self.worst}{self._size}"

    @property
    def _size(self) -> str:
        """How large the worst mismatch is."""
        apart = self.worst.difference
        number = "NaN" if apart is None else f"{apart:.6g}" if isinstance(apart, float) else str(apart)
        return f"; difference {number}, {counted(self.worst.differing_bits, 'differing bit')}"


# Where two outputs differ, and which element the plan puts there.


Coordinates = tuple[int, ...]


class Expected(NamedTuple):
    """What belongs at an output element: coordinates in InputTensor (None: the fill value), the element, the indices read."""

    source: Coordinates | None
    element: NDArray[Any] | None
    indices: tuple[IndexRead, ...]


class Tracer:
    """Finds for any output element of one operator run what belongs there.

    It follows the plan over packed tensors, where an offset and coordinates determine each other, and executes nothing.
    """

    def __init__(self, desc: OperatorDesc, lower: Lowering, inputs: Sequence[NDArray[Any]]) -> None:
        """inputs: the logical tensors, of shape Sizes and any strides, in the descriptor's order."""
        self._desc, self._inputs = desc, inputs
        self._layouts = [Layout.packed(desc.tensor(name).sizes) for name in desc.operator.tensors]
        self._plan = lower(self._layouts)

    def expected(self, at: Coordinates) -> Expected:
        """What belongs at the output's coordinates `at`."""
        plan, (data, indices, output) = self._plan, (self._layouts[0], self._layouts[1], self._layouts[-1])

        def value_at(address: int) -> int:
            return int(self._inputs[1][unravel(address, indices.sizes)])

        origin = origin_of(plan, step_at(plan, output.address(at)), value_at)
        axes = self._desc.operator.lookup_axes(self._desc)
        read = tuple(
            IndexRead(position=unravel(index.address, indices.sizes), value=index.value, axis=axis, taken_as=index.position)
            for index, axis in zip(origin.indices, axes, strict=True)
        )
        if origin.source is not None:
            place = unravel(origin.source, data.sizes)
            return Expected(place, self._inputs[0][place].reshape(1), read)
        fill = np.frombuffer(plan.fill, self._inputs[0].dtype) if plan.fill else None
        return Expected(None, fill, read)


def differences(devices: Sequence[str], outputs: Sequence[NDArray[Any]], trace: Callable[[], Tracer]) -> tuple[Difference, ...]:
    """How each further device's output differs from the first one's, bit for bit.

    outputs: one per device, of shape Sizes and the tensor's type. trace: called for each device whose output differs.
    """
    first, *others = outputs
    found = (_difference((devices[0], device), first, other, trace) for device, other in zip(devices[1:], others, strict=True))
    return tuple(difference for difference in found if difference is not None)


class _Pairs(NamedTuple):
    """Elements that differ, at least one: their numbers in row-major order, and what each device wrote; all [pairs]."""

    numbers: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]

    def one(self, at: int) -> _Pairs:
        """The pair at a position."""
        return _Pairs(*(part[at : at + 1] for part in self))

    def worst(self) -> _Pairs:
        """The worst pair, as `Difference.worst` orders them."""
        order = (-np.arange(self.numbers.size), _flipped(self.left, self.right), _apart(self.left, self.right))
        return self.one(int(np.lexsort(order)[-1]))

    def rank(self) -> tuple[Any, int]:
        """How bad the first pair is: of two, the larger is worse."""
        return _apart(self.left, self.right)[0].item(), int(_flipped(self.left, self.right)[0])


def _difference(
    devices: tuple[str, str], left: NDArray[Any], right: NDArray[Any], trace: Callable[[], Tracer]
) -> Difference | None:
    """How `right` differs from `left`; None where it does not. Chunk by chunk, so that it takes little memory."""
    differing, start = 0, 0
    first: _Pairs | None = None
    worst: _Pairs | None = None
    for one, other in zip(chunks(left), chunks(right), strict=True):
        unequal = np.flatnonzero(_patterns(one) != _patterns(other))
        if unequal.size:
            pairs = _Pairs(start + unequal, one.reshape(-1)[unequal], other.reshape(-1)[unequal])
            first, found = first or pairs.one(0), pairs.worst()
            worst = found if worst is None or found.rank() > worst.rank() else worst
        differing, start = differing + unequal.size, start + one.size
    if first is None or worst is None:
        return None
    tracer = trace()

    def mismatch(pair: _Pairs) -> Mismatch:
        at = unravel(int(pair.numbers[0]), left.shape)
        return _mismatch(devices, at, pair.left, pair.right, tracer.expected(at))

    return Difference(devices=devices, differing=differing, elements=left.size, first=mismatch(first), worst=mismatch(worst))


def _mismatch(devices: tuple[str, str], at: Coordinates, left: NDArray[Any], right: NDArray[Any], expected: Expected) -> Mismatch:
    unlike = bool(np.isnan(left[0]) or np.isnan(right[0])) if left.dtype.kind == "f" else False
    return Mismatch(
        devices=devices,
        output=at,
        found=(_element(left), _element(right)),
        source=expected.source,
        expected=None if expected.element is None else _element(expected.element),
        indices=expected.indices,
        difference=None if unlike else _number(_apart(left, right)[0]),
        differing_bits=int(_flipped(left, right)[0]),
    )


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    """The elements as unsigned integers of the same bits, shape [elements]."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")


def _flipped(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.uint8]:
    """Number of differing bits of each pair."""
    flipped: NDArray[np.uint8] = np.bitwise_count(_patterns(left) ^ _patterns(right))
    return flipped


def _apart(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """The absolute difference of each pair: exact for integers (uint64), float64 for floats. It is 0 for two NaNs, and infinite
    for a NaN and a number.
    """
    if left.dtype.kind in "iu":
        wide = [array.astype(f"{array.dtype.kind}8") for array in (left, right)]
        larger, smaller = np.maximum(*wide).view(np.uint64), np.minimum(*wide).view(np.uint64)
        apart: NDArray[Any] = larger - smaller  # of two's complements, modulo 2^64
        return apart
    with np.errstate(all="ignore"):
        floats = [array.astype(np.float64) for array in (left, right)]
        apart = np.abs(floats[0] - floats[1])
    nans = [np.isnan(array) for array in floats]
    apart[np.isnan(apart)] = 0  # also of two equal infinities, which differ in no bit and are not asked for
    apart[nans[0] != nans[1]] = np.inf
    return apart


def _element(array: NDArray[Any]) -> Bits:
    return Bits(value=_number(array[0]), bits=array.tobytes()[::-1].hex())


def _number(value: Any) -> Number:
    if value.dtype.kind in "iub":
        return int(value)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(str(value))
