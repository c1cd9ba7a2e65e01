"""The cost of the block in the middle of a launch, counted element by element. It judges `form_cost.py`.

The count does not use steps of a walk, carries or orders. The coordinates of an element in the work give its address, and the
launch form (`launch_form.py`) gives the elements of a thread in each of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.form_cost import SCRAMBLE
from dmlgather.backends.cuda.launch_form import LaunchForm
from dmlgather.backends.cuda.work import Work

THREADS, LANES = 256, 32
"""Threads of a block and of a warp."""
SECTOR, LINE = 32, 128
"""Bytes."""
NOTHING = -1
"""Stands for the element of a thread without one."""

Places = NDArray[np.int64]
"""Places of the elements of a block's threads."""


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """Counts of a block: its elements, resolved indices, and sectors and lines for each of stored, looked_up and loaded."""

    elements: int
    resolved: int
    stored: tuple[int, int]
    looked_up: tuple[int, int]
    loaded: tuple[int, int]

    @property
    def cycles(self) -> float:
        """Cycles per element, by the numbers of docs/kernels.md ("Choosing a kernel")."""
        instructions = 62 * THREADS + 6.3 * self.elements + 13 * self.resolved
        sectors, lines = (sum(each) for each in zip(self.stored, self.looked_up, self.loaded, strict=True))
        return (1.7 * sectors + lines + instructions / LANES / 4) / self.elements


def block_counts(work: Work, form: LaunchForm) -> BlockCounts:
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
    """Return the index at each place: some value below `limit`."""
    return places * SCRAMBLE % max(1, limit)


def steps_of(form: LaunchForm, first: int) -> NDArray[np.int64]:
    """Return the coordinates of the elements that the block's threads move, as [step][thread][dimension of the work], or NOTHING.
    The block begins with thread `first`.
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
    """Return the number of memory units that the warps touch, added over their requests."""
    return sum(
        len(set((places[at : at + LANES] // unit)[taken[at : at + LANES]].tolist()))
        for places, taken in requests
        for at in range(0, THREADS, LANES)
    )


def _in_block(requests: list[tuple[Places, NDArray[np.bool]]], unit: int) -> int:
    """Return the number of memory units that the block touches."""
    return len({unit_number for places, taken in requests for unit_number in (places // unit)[taken].tolist()})
