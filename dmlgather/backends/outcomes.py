"""Outcomes of runs under RAISE: the first bad index, and its error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dmlgather.backends.footprints import Footprint
from dmlgather.plan import IndexPlan, Layout, coordinates


@dataclass(frozen=True, slots=True)
class BadIndex:
    """The first bad index of a RAISE plan: its offset in the index buffer (elements), its value, and the lookup's number.

    `overwritten`: True if the index was overwritten after the run, and its new `value` is valid.
    """

    offset: int
    value: int
    lookup: int
    overwritten: bool = False


def out_of_range(
    where: str, value: int, axis: int, limit: int, wrap: int, *, window: int = 1, overwritten: bool = False
) -> IndexError:
    """Return the error for a bad index.

    `where`: the index tensor and the position in it, "indices[3]". `axis`: the indexed axis of the data. `limit`, `wrap`: see
    `Lookup`. `window`: number of consecutive elements that are read, the first at the index. `overwritten`: see `BadIndex`.
    """
    valid = f"{-wrap} … {limit - 1}" if limit else "none (the axis has size 0)"
    fault = f"was out of range (it is {value} by now)" if overwritten else f"= {value} is out of range"
    place = f"axis {axis} of size {limit + window - 1}"
    place = place if window == 1 else f"a window of {window} along {place}"
    return IndexError(f"{where} {fault} for {place}: valid indices are {valid}")


@dataclass(slots=True, eq=False)
class Outcome(ABC):
    """The outcome of a run of a RAISE plan with lookups. It keeps the index array alive, so that a bad index can be read."""

    plan: IndexPlan
    indices: Footprint

    @abstractmethod
    def offset(self) -> int | None:
        """Return the smallest offset (elements of the index buffer) of a bad index, or None. On a GPU, wait for the stream."""

    @abstractmethod
    def value(self, offset: int) -> int:
        """Return the current value of the index at `offset`."""

    def bad_index(self) -> BadIndex | None:
        """Return the first bad index in memory order; None if there is none. On a GPU, wait for the stream."""
        offset, plan = self.offset(), self.plan
        if offset is None:
            return None
        value = self.value(offset)
        reading = [
            number
            for number, lookup in enumerate(plan.lookups)
            if coordinates(offset - lookup.index_offset, plan.index_shape, lookup.index_strides) is not None
        ]
        for number in reading:  # several lookups may read the index, and only some of them refuse the value
            lookup = plan.lookups[number]
            if not 0 <= (value + lookup.wrap if value < 0 else value) < lookup.limit:
                return BadIndex(offset, value, number)
        return BadIndex(offset, value, reading[0], overwritten=True)

    def raise_for_bad_index(self, name: str, axes: Sequence[int], windows: Sequence[int] = ()) -> None:
        """Raise IndexError if there is a bad index.

        `name`: name of the index tensor, for the message. `axes`: for each lookup, the axis of the data that it indexes.
        `windows`: for each lookup, the number of consecutive elements that it reads, the first at its index. If `windows` is
        empty, each lookup reads one element.
        """
        bad = self.bad_index()
        if bad is None:
            return
        lookup, axis, window = self.plan.lookups[bad.lookup], axes[bad.lookup], windows[bad.lookup] if windows else 1
        position = _position(self.indices.layout, bad, len(self.plan.lookups))
        where = f"[{', '.join(map(str, position))}]" if position is not None else f" at offset {bad.offset}"
        raise out_of_range(
            f"{name}{where}", bad.value, axis, lookup.limit, lookup.wrap, window=window, overwritten=bad.overwritten
        )


@dataclass(slots=True, eq=False)
class HostOutcome(Outcome):
    """The outcome of a run on the host that met a bad index. `flat`: the index array in one dimension."""

    flat: NDArray[Any]
    bad_offset: int

    def offset(self) -> int:
        return self.bad_offset

    def value(self, offset: int) -> int:
        return int(self.flat[offset])


@dataclass(slots=True, eq=False)
class DeviceOutcome(Outcome):
    """The outcome of a run on a GPU. Its methods read the offset of a bad index from the device.

    `pointer`: address of the lowest index. `keep`: the owner of the indices' memory; None if the caller keeps it alive.
    `stream`, `word`: those of the last launch. `bad_offset`: offset of the bad index if the run has waited for it, else None.
    """

    pointer: int
    program: Any
    stream: int
    word: Any
    keep: Any
    bad_offset: int | None = None

    def offset(self) -> int | None:
        return self.program.bad_at(self.word, self.stream) if self.bad_offset is None else self.bad_offset

    def value(self, offset: int) -> int:
        from dmlgather.backends.cuda import read_element

        dtype = self.indices.dtype
        return int(read_element(self.pointer + offset * dtype.itemsize, dtype, self.program.device))


def _position(layout: Layout, bad: BadIndex, lookups: int) -> tuple[int, ...] | None:
    """Return the coordinates of a bad index in the index tensor.

    With several lookups, each must read one component of the last dimension. If they do not, return None.
    """
    if lookups == 1 or not layout.sizes:
        return layout.position(bad.offset)
    address = bad.offset - layout.offset - bad.lookup * layout.strides[-1]
    outer = coordinates(address, layout.sizes[:-1], layout.strides[:-1])
    return None if outer is None else (*outer, bad.lookup)
