"""Memory traffic of kernels, counted by interpreting their PTX.

A large launch is planned at full size, and a sample of its blocks, evenly spread, is interpreted. The contents of input and
output do not matter, so these buffers are sparse. Only indices have values.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, POINTERS
from dmlgather.backends.cuda.driver import kernel_source
from dmlgather.backends.cuda.launch import SHARED_BYTES, Launch
from dmlgather.backends.cuda.variants import BLOCK, VECTOR
from dmlgather.plan import IndexPlan
from tests.kernels.must_move import SECTOR, MustMove
from tests.kernels.occupancy import WARP
from tests.kernels.plain_kernels import PlainLaunch
from tests.kernels.ptx.compile import ptx_of
from tests.kernels.ptx.machine import Buffer, Counts, Module, Traffic

SAMPLE = 64
"""Number of interpreted blocks of a launch with at least twice as many. Smaller launches are interpreted completely."""

INPUT, INDICES, OUTPUT, TABLE = (number << 44 for number in (1, 2, 3, 4))
"""The addresses of the buffers."""


@dataclass(frozen=True, slots=True)
class KernelRun:
    """A launch with its addresses. table: the bytes at `TABLE`."""

    source: str
    name: str
    grid: int
    arguments: bytes
    shared_bytes: int = 0
    table: bytes = b""
    block: int = BLOCK

    @classmethod
    def of(cls, launch: Launch) -> KernelRun:
        arguments = bytearray(launch.arguments)
        data = INPUT if launch.input_in_table is None else TABLE + launch.input_in_table
        POINTERS.pack_into(arguments, 0, data, INDICES, OUTPUT, 0)
        CONSTANTS.pack_into(arguments, CONSTANTS_OFFSET, TABLE)
        name, source = launch.variant.name, kernel_source(launch.variant)
        return cls(source, name, launch.grid, bytes(arguments), launch.shared_bytes, launch.table, launch.block)

    @classmethod
    def of_plain(cls, launch: PlainLaunch) -> KernelRun:
        return cls(launch.source, launch.name, launch.grid, launch.arguments(INPUT, INDICES, OUTPUT))


@dataclass(frozen=True, slots=True)
class Figures:
    """The traffic of a kernel.

    fetched: sectors that blocks load (each once per block), per sector that must be loaded.
    stored: sectors that store requests touch, per sector that must be stored.
    used: the share of the bytes in these sectors that is stored.
    index_lines, load_lines, store_lines: lines of 128 bytes that a warp's request touches, for indices, input and output.
    instructions: of PTX, executed by warps, times 32, per 16 bytes of output.
    passes: passes of requests through the banks of shared memory, per pass without conflicts; 0 without requests.
    """

    fetched: float
    stored: float
    used: float
    index_lines: float
    load_lines: float
    store_lines: float
    instructions: float
    passes: float


def figures_of(runs: Sequence[KernelRun], plan: IndexPlan, indices: NDArray[Any] | None, must: MustMove) -> Figures:
    """Interpret a sample of the blocks of `runs`, which together execute `plan`, and count. must: of the whole plan."""
    found = list(_counts(runs, plan, indices))
    stores = _sum(counts.stores[1] for counts in found)
    loads = [_sum(counts.loads[place] for counts in found) for place in range(len(found[0].loads))]
    part = stores.bytes / must.output_bytes
    passes, least = (sum(getattr(counts, name) for counts in found) for name in ("shared_passes", "shared_least"))
    return Figures(
        fetched=rounded(sum(each.fetched for each in loads) / (must.loaded * part)),
        stored=rounded(stores.sectors / (must.stored * part)),
        used=rounded(stores.bytes / (stores.sectors * SECTOR)),
        index_lines=_lines(loads[3]),
        load_lines=_lines(loads[0]),
        store_lines=_lines(stores),
        instructions=rounded(sum(counts.instructions for counts in found) * WARP * VECTOR / stores.bytes),
        passes=rounded(passes / max(1, least)),
    )


def sample(grid: int, wanted: int = SAMPLE) -> Sequence[int]:
    """Return a sample of a grid: every block of a small grid, otherwise `wanted` blocks. Each lies a golden section of the grid
    behind the previous one, so they are evenly spread and follow no pattern, such as every seventh block.
    """
    if grid < 2 * wanted:
        return range(grid)
    step = round(grid * (5**0.5 - 1) / 2)
    while gcd(step, grid) > 1:
        step += 1
    return sorted(number * step % grid for number in range(wanted))


def rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _counts(runs: Sequence[KernelRun], plan: IndexPlan, indices: NDArray[Any] | None) -> Iterator[Counts]:
    """Yield the counts of each block of the sample. The buffers are the input, the output, the table and the indices."""
    data = Buffer(INPUT, None, size=plan.in_extent * plan.element_bytes, readable=True)
    out = Buffer(OUTPUT, None, size=plan.out_extent * plan.element_bytes, writable=True, discarded=True)
    looked_up = np.zeros(0, np.uint8) if indices is None else indices.reshape(-1).view(np.uint8)
    for run in runs:
        table = Buffer(TABLE, np.frombuffer(run.table, np.uint8), readable=True)
        buffers = (data, out, table, Buffer(INDICES, looked_up, readable=True))
        for block in sample(run.grid, max(1, SAMPLE // len(runs))):
            counts = _module(run.source).launch(
                run.name,
                run.grid,
                run.arguments,
                buffers,
                block=run.block,
                shared_bytes=run.shared_bytes,
                shared_limit=SHARED_BYTES,
                blocks=range(block, block + 1),
                counts=True,
            )
            assert counts is not None
            yield counts


def shared_bytes(run: KernelRun) -> int:
    return _module(run.source).routine(run.name).static_shared + run.shared_bytes


@functools.lru_cache(maxsize=16)
def _module(source: str) -> Module:
    return Module(ptx_of(source), source)


def _sum(parts: Iterable[Traffic]) -> Traffic:
    total = Traffic()
    for part in parts:
        total.requests += part.requests
        total.sectors += part.sectors
        total.lines += part.lines
        total.bytes += part.bytes
        total.fetched += part.fetched
    return total


def _lines(traffic: Traffic) -> float:
    return rounded(traffic.lines / max(1, traffic.requests))
