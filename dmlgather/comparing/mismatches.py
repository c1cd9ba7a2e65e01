"""Records of mismatches between two devices, which are also the JSON of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dmlgather.record import Record
from dmlgather.wording import counted

SHOWN = 2

Number = int | float | Literal["nan", "inf", "-inf"]
"""A float is the shortest decimal number that converts back to the same bits."""


class Bits(Record):
    """An element of a tensor as a number and as bits."""

    value: Number
    """The element as a number of the tensor's type."""

    bits: str
    """The element as hexadecimal digits, most significant byte first."""

    def __str__(self) -> str:
        return f"{str(self.value).removesuffix('.0')} (0x{self.bits})"


class IndexRead(Record):
    """An index in IndicesTensor that helps to select the input element for an output element."""

    position: tuple[int, ...]
    """Coordinates of the index in IndicesTensor."""

    value: int
    """The value of the index."""

    axis: int
    """The dimension of InputTensor in which the index selects a position."""

    taken_as: int | None
    """The selected position along `axis`, after clamping. None if the index is out of range and the policy fills or raises."""

    def __str__(self) -> str:
        place = f"IndicesTensor{list(self.position)} = {self.value}"
        if self.taken_as is None:
            return f"{place}, out of range for dimension {self.axis}"
        return place if self.taken_as == self.value else f"{place}, which means {self.taken_as} along dimension {self.axis}"


class Mismatch(Record):
    """An output element with different bits on two devices, and the correct element."""

    devices: tuple[str, str]
    """The two devices."""

    output: tuple[int, ...]
    """Coordinates in OutputTensor."""

    found: tuple[Bits, Bits]
    """The element that each device wrote."""

    source: tuple[int, ...] | None
    """Coordinates in InputTensor of the element that should have been copied. None if the fill value is correct."""

    expected: Bits | None
    """The correct element or the fill value; None if an index must raise an error."""

    indices: tuple[IndexRead, ...]
    """The indices that select the element to copy."""

    difference: Number | None
    """The absolute difference of the two numbers; None if either is NaN."""

    differing_bits: int
    """Number of bits that differ."""

    found_sources: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    """For each device, the coordinates in InputTensor from which it may have copied its wrong element. The element there is the
    only one with these bits. None if the device is right, or if no element or several elements have these bits.
    """

    @property
    def bits(self) -> tuple[str, str]:
        """The element that each device wrote, as hexadecimal digits."""
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
    """Consecutive output elements, in row-major order, that all differ."""

    first: tuple[int, ...]
    """Coordinates of the first element in OutputTensor."""

    elements: int
    """Number of elements."""


class SuspectedFault(Record):
    """A fault that would explain the wrong values of a device. It is likely, but not proven."""

    device: str
    """The device that is wrong."""

    hypothesis: str
    """The kind of fault."""

    as_if: str
    """The fault in words. They complete the sentence "as if …": "the index along dimension 0 were 1 higher"."""

    explains: int
    """Number of sampled differing elements that have the value that the fault predicts."""

    looked_at: int
    """Number of differing elements in the sample. The sample is random, or has all differing elements."""

    differing: int
    """Number of differing elements in the whole output."""

    contradicted: int
    """Number of sampled equal elements that would have another value if the device had this fault."""

    equal_looked_at: int
    """Number of equal elements in a random sample of the output."""

    def __str__(self) -> str:
        sampled = "" if self.looked_at == self.differing else " that were looked at"
        share = f"{self.explains} of {self.looked_at} ({self.explains / self.looked_at:.0%})"
        part = f"all {self.explains}" if self.explains == self.looked_at else share
        against = f"; not everywhere: {self.contradicted} of {counted(self.equal_looked_at, 'equal element')} contradict it"
        return f"{part}{sampled} are on {self.device} as if {self.as_if}{against if self.contradicted else ''}"


class Difference(Record):
    """The difference between the outputs of the first device and another device."""

    devices: tuple[str, str]
    """The first device, and the other device."""

    differing: int
    """Number of output elements that have different bits on the two devices."""

    elements: int
    """Number of output elements."""

    nan_payloads: int = 0
    """Number of differing elements that are NaN on both devices. They differ in sign or payload."""

    zero_signs: int = 0
    """Number of differing elements that are zeros on both devices, with different signs."""

    first: Mismatch
    """The first differing element in row-major order."""

    worst: Mismatch
    """The element with the largest numeric difference. If several have it: the one with the most differing bits, and of these
    the first. The difference of a NaN and a number counts as infinite.
    """

    faults: tuple[SuspectedFault, ...] = ()
    """Likely faults. If there are several, they explain equally many elements."""

    stretches: tuple[Stretch, ...] = ()
    """The differing elements as stretches of consecutive elements, in row-major order. At most 100,000 stretches are listed."""

    stretches_left_out: int = 0
    """Number of stretches that are not in `stretches`."""

    def __str__(self) -> str:
        only = ((self.nan_payloads, "a NaN's sign or payload"), (self.zero_signs, "a zero's sign"))
        kinds = "".join(f", {count} only in {part}" for count, part in only if count)
        head = f"{self.differing} of {counted(self.elements, 'element')} differ between {' and '.join(self.devices)}{kinds}"
        worst = "the first" if self.worst == self.first else str(self.worst)
        more = ["  more places: `stretches` in --json or --output FILE"] if self.differing > SHOWN else []
        return "\n".join([head, f"  first: {self.first}", f"  worst: {worst}{self._size}", *more, *self._faults])

    @property
    def _faults(self) -> Iterator[str]:
        for number, fault in enumerate(self.faults):
            yield f"  {'or' if number else 'cause'}: {fault}"
        if self.faults:
            return
        if self.differing > self.nan_payloads + self.zero_signs:
            yield "  cause: none of the known faults (outputs that were made from other inputs look like this, too)"
        else:
            yield "  cause: none of the known faults; only NaNs and signs of zeros differ, as after arithmetic"

    @property
    def _size(self) -> str:
        distance = self.worst.difference
        if distance is None:
            number = "" if all(found.value == "nan" for found in self.worst.found) else "difference infinite, "
        else:
            number = f"difference {f'{distance:.6g}' if isinstance(distance, float) else distance}, "
        return f"; {number}{counted(self.worst.differing_bits, 'differing bit')}"
