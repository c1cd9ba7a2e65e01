"""How elements that two devices wrote differently are told: records, which are also the JSON of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
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

    found_sources: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    """For each device that is wrong, the coordinates of the only element of InputTensor that has these bits; None where none
    has, or several have.
    """

    @property
    def bits(self) -> tuple[str, str]:
        """What each device wrote, as hexadecimal digits."""
        return self.found[0].bits, self.found[1].bits

    def __str__(self) -> str:
        origin = "the fill value" if self.source is None else f"InputTensor{list(self.source)}"
        holds = "" if self.expected is None else f" = {self.expected}"
        via = f", by {' and '.join(map(str, self.indices))}" if self.indices else ""
        one, other = (
            f"{found}{'' if source is None else f', which is InputTensor{list(source)},'} on {device}"
            for found, source, device in zip(self.found, self.found_sources, self.devices, strict=True)
        )
        return f"OutputTensor{list(self.output)}, which should come from {origin}{holds}{via}, is {one} and {other}"


class Stretch(Record):
    """Output elements that follow each other in row-major order and all differ."""

    first: tuple[int, ...]
    """Coordinates in OutputTensor of the first one."""

    elements: int
    """Their number."""


class SuspectedFault(Record):
    """What may be wrong with a device. The values are as they would be then; that they are so for this reason is not proven."""

    device: str
    """The device that is wrong."""

    hypothesis: str
    """The sort of fault."""

    as_if: str
    """The fault in words: "the index along dimension 0 were 1 higher"."""

    explains: int
    """Number of differing elements that are as the fault would make them."""

    looked_at: int
    """Number of differing elements that were looked at: all, or some that chance chose."""

    differing: int
    """Number of all differing elements."""

    contradicted: int
    """Number of equal elements that the fault would make wrong, and are right."""

    equal_looked_at: int
    """Number of equal elements that were looked at."""

    def __str__(self) -> str:
        looked = "" if self.looked_at == self.differing else " that were looked at"
        share = f"{self.explains} of {self.looked_at} ({self.explains / self.looked_at:.0%})"
        part = f"all {self.explains}" if self.explains == self.looked_at else share
        right = f"; not everywhere: {self.contradicted} of {counted(self.equal_looked_at, 'equal element')} contradict it"
        return f"{part}{looked} are on {self.device} as if {self.as_if}{right if self.contradicted else ''}"


class Difference(Record):
    """How one device's output differs from the first device's."""

    devices: tuple[str, str]
    """The first device, and the one that differs from it."""

    differing: int
    """Number of output elements whose bits differ."""

    elements: int
    """Number of output elements."""

    nan_payloads: int = 0
    """Of those that differ, how many are NaNs on both devices."""

    zero_signs: int = 0
    """Of those that differ, how many are zeros on both devices, of another sign."""

    first: Mismatch
    """The first of them in row-major order."""

    worst: Mismatch
    """The one with the largest numeric difference, where a NaN against a number counts as infinite. Of several, the one with the
    most differing bits; of several of those, the first.
    """

    faults: tuple[SuspectedFault, ...] = ()
    """What may be wrong. Of several, each explains the same."""

    stretches: tuple[Stretch, ...] = ()
    """All elements that differ, in row-major order."""

    stretches_left_out: int = 0
    """Number of further stretches. At most 100,000 are listed."""

    def __str__(self) -> str:
        alone = ((self.nan_payloads, "a NaN's payload"), (self.zero_signs, "a zero's sign"))
        kinds = "".join(f", {count} only in {what}" for count, what in alone if count)
        head = f"{self.differing} of {counted(self.elements, 'element')} differ between {' and '.join(self.devices)}{kinds}"
        worst = "the first" if self.worst == self.first else str(self.worst)
        return "\n".join([head, f"  first: {self.first}", f"  worst: {worst}{self._size}", *self._faults])

    @property
    def _faults(self) -> Iterator[str]:
        """The faults as lines."""
        for number, fault in enumerate(self.faults):
            yield f"  {'or' if number else 'cause'}: {fault}"
        if not self.faults and self.differing > self.nan_payloads + self.zero_signs:
            yield "  cause: none of the known faults (outputs that were made from other inputs look like this, too)"

    @property
    def _size(self) -> str:
        """How large the worst mismatch is."""
        apart = self.worst.difference
        number = "NaN" if apart is None else f"{apart:.6g}" if isinstance(apart, float) else str(apart)
        return f"; difference {number}, {counted(self.worst.differing_bits, 'differing bit')}"
