"""Outcomes of runs under RAISE: which index was out of range first, and the IndexError for it."""

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
    """The first bad index of a run.

    `offset`: the position of the index in the index buffer, in elements. `value`: its value now. `lookup`: the number of the
    lookup that reads it. `overwritten`: True if the index was overwritten after the run, so that its value is valid now.
    """

    offset: int
    value: int
    lookup: int
    overwritten: bool = False


def out_of_range(
    where: str, value: int, axis: int, limit: int, wrap: int, *, window: int = 1, overwritten: bool = False
) -> IndexError:
    """Return the IndexError for a bad index.

    `where`: the index array and the position of the index. `window`: the number of elements that the index selects.
    """
    valid = f"{-wrap} … {limit - 1}" if limit else "none (the axis has size 0)"
    fault = f"was out of range (it is {value} by now)" if overwritten else f"= {value} is out of range"
    place = f"axis {axis} of size {limit + window - 1}"
    place = place if window == 1 else f"a window of {window} along {place}"
    return IndexError(f"{where} {fault} for {place}: valid indices are {valid}")


@dataclass(slots=True, eq=False)
class Outcome(ABC):
    """The outcome of a run under RAISE: was an index bad? It keeps the index array alive, to read a bad index."""

    plan: IndexPlan
    indices: Footprint

    @abstractmethod
    def offset(self) -> int | None:
        """Return the smallest offset of a bad index, or None. On a GPU, wait until the run has finished."""

    @abstractmethod
    def value(self, offset: int) -> int:
        """Return the current value of the index at `offset`. It may have changed after the run."""

    def bad_index(self) -> BadIndex | None:
        """Return the first bad index, or None. On a GPU, wait until the run has finished."""
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
        """Raise IndexError if an index was out of range.

        `name`: the name of the index array in the message. `axes`: for each lookup, the axis that it indexes.
        `windows`: for each lookup, the number of elements that an index selects; empty if it is always 1.
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
    """The outcome of a run on the CPU that found a bad index."""

    flat: NDArray[Any]
    bad_offset: int

    def offset(self) -> int:
        return self.bad_offset

    def value(self, offset: int) -> int:
        return int(self.flat[offset])


@dataclass(slots=True, eq=False)
class DeviceOutcome(Outcome):
    """The outcome of a run on a GPU, which may still be running.

    `pointer`: the address of the index buffer. `keep`: the object that owns the memory of the indices.
    `word`: the GPU memory that receives the offset of a bad index (`BadWord`).
    `bad_offset`: the offset of a bad index if it is known already, else None.
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
    if lookups == 1 or not layout.sizes:
        return layout.position(bad.offset)
    # With several lookups, as in GatherND, each reads one component of the last dimension.
    address = bad.offset - layout.offset - bad.lookup * layout.strides[-1]
    outer = coordinates(address, layout.sizes[:-1], layout.strides[:-1])
    return None if outer is None else (*outer, bad.lookup)
