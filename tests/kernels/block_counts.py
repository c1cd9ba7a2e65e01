"""What the block in the middle of a launch costs, counted element by element: the judge of `form_cost.py`.

Nothing here knows steps of a walk, carries or orders. Where an element lies follows from its coordinates in the work alone; which
elements a thread moves, and in which of its steps, follows from what a launch form says (`launch_form.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.form_cost import SCRAMBLE
from dmlgather.backends.cuda.launch_form import LaunchForm
from dmlgather.backends.cuda.work import Work

THREADS, LANES = 256, 32
"""Of a block, and of a warp."""
SECTOR, LINE = 32, 128
"""Bytes."""
NOTHING = -1
"""What a thread that does not take part moves."""

Places = NDArray[np.int64]
"""Of the threads of a block."""


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """elements: that the block moves. resolved: indices. stored, looked_up, loaded: sectors and lines, each."""

    elements: int
    resolved: int
    stored: tuple[int, int]
    looked_up: tuple[int, int]
    loaded: tuple[int, int]

    @property
    def cycles(self) -> float:
        """For an element, by the numbers of docs/kernels.md ("Choosing a kernel")."""
        instructions = 62 * THREADS + 6.3 * self.elements + 13 * self.resolved
        sectors, lines = (sum(each) for each in zip(self.stored, self.looked_up, self.loaded, strict=True))
        return (1.7 * sectors + lines + instructions / LANES / 4) / self.elements


def block_counts(work: Work, form: LaunchForm) -> BlockCounts:
    """Of the block in the middle of the launch."""
    first = form.threads // 2 // THREADS * THREADS
    steps = steps_of(form, first)
    moved = [step >= 0 for step in steps[..., 0]]
    out = [work.out_offset + positions @ [dim.out_step for dim in work.dims] for positions in steps]
    data = [work.in_offset + positions @ [dim.in_step for dim in work.dims] for positions in steps]
    looked_up: list[list[tuple[Places, NDArray[np.bool]]]] = []
    for number, lookup in enumerate(work.lookups):
        index = [lookup.offset + positions @ [dim.index_steps[number] for dim in work.dims] for positions in steps]
        looked_up.append(list(zip(index, moved, strict=True))[: 1 if form.invariant else None])
        data = [at + value_at(places, lookup.limit) * lookup.in_step for at, places in zip(data, index, strict=True)]
    elements = int(sum(each.sum() for each in moved))
    stores, loads = list(zip(out, moved, strict=True)), list(zip(data, moved, strict=True))
    return BlockCounts(
        elements=elements,
        resolved=sum(int(taken.sum()) for index in looked_up for _, taken in index),
        stored=(_in_requests(stores, SECTOR), _in_requests(stores, LINE)),
        looked_up=(sum(_in_block(index, SECTOR) for index in looked_up), sum(_in_requests(index, LINE) for index in looked_up)),
        loaded=(_in_block(loads, SECTOR), _in_requests(loads, LINE)),
    )


def value_at(places: Places, limit: int) -> Places:
    """The index that stands at each place: some value below `limit`."""
    return places * SCRAMBLE % max(1, limit)


def steps_of(form: LaunchForm, first: int) -> NDArray[np.int64]:
    """Which element each thread of the block that begins with thread `first` moves in each of its steps
    [step][thread][dimension of the work]: its coordinates, or NOTHING.
    """
    threads = np.arange(first, first + THREADS)
    there = threads < form.threads
    sizes = [dim.size for dim in reversed(form.dimensions)]
    coordinates = np.stack(np.unravel_index(np.minimum(threads, form.threads - 1), sizes)[::-1], axis=-1)
    chunk = coordinates[:, form.chunk]
    walks = chunk < form.full
    steps = []
    for step in range(form.moved):
        positions = coordinates.copy()
        positions[:, form.chunk] = np.where(walks, chunk + step * form.full, chunk + (form.moved - 1) * form.full)
        positions[~(there & (walks | (step == 0)))] = NOTHING
        steps.append(positions)
    return np.array(steps)


def _in_requests(requests: list[tuple[Places, NDArray[np.bool]]], unit: int) -> int:
    """Units of memory that the warps touch, added up over their requests."""
    return sum(
        len(set((places[at : at + LANES] // unit)[taken[at : at + LANES]].tolist()))
        for places, taken in requests
        for at in range(0, THREADS, LANES)
    )


def _in_block(requests: list[tuple[Places, NDArray[np.bool]]], unit: int) -> int:
    """Units of memory that the block touches."""
    return len({unit_number for places, taken in requests for unit_number in (places // unit)[taken].tolist()})
