"""Where and how two devices differ, as data and as text."""

from __future__ import annotations

from typing import Literal

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
