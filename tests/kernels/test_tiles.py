"""Tiles: the kernel for a slice, the instructions of a thread for a tile of a matrix, and the layout of squares in shared memory.
The interpreter counts, and docs/kernels.md states the counts.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

import numpy as np
import pytest

from dmlgather.backends.cuda import tiles
from dmlgather.backends.cuda.cost import ISSUED, WARP, RunCost, tile_cost
from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.cuda.variants import BLOCK, VARIANTS, VECTOR, KernelKind, Variant
from dmlgather.plan import IndexPlan, packed_strides
from tests.kernels import nvrtc
from tests.kernels.ptx.machine import Buffer, Counts
from tests.kernels.ptx.runs import AS_WRITTEN
from tests.kernels.traffic import INPUT, OUTPUT, TABLE, KernelRun
from tests.kernels.traffic_record import REGISTERS

SQUARES = [variant for variant in VARIANTS if variant.kind is KernelKind.SQUARES]
PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
ROW = re.compile(r"\| `(\w+)` \| (\d+) for (\d+) elements \| (\d+) \| (\d+) \| (\d+) \|")


def turned(shape: Sequence[int], order: Sequence[int], size: int, *, backwards: int = -1, start: int = 0) -> IndexPlan:
    """Return a packed array with its axes in this order, from element `start` on. backwards: an axis of the result to reverse."""
    strides = packed_strides(shape)
    out, steps, offset = tuple(shape[axis] for axis in order), [strides[axis] for axis in order], start
    if backwards >= 0:
        offset += (out[backwards] - 1) * steps[backwards]
        steps[backwards] = -steps[backwards]
    return IndexPlan(out, packed_strides(out), tuple(steps), size, start + prod(shape), prod(shape), offset)


@pytest.mark.parametrize(
    ("plan", "alignment", "name"),
    [
        pytest.param(turned((2048, 2048), (1, 0), 1), 4, "squares_e1_l4_s4", id="bytes"),
        pytest.param(turned((2048, 2048), (1, 0), 2), 8, "squares_e2_l8_s8", id="halves"),
        pytest.param(turned((2048, 2048), (1, 0), 4), 16, "squares_e4_l8_s8", id="words"),
        pytest.param(turned((2048, 2048), (1, 0), 2), 4, "tiles_e2_l4_s4", id="arrays at multiples of 4 bytes"),
        pytest.param(turned((2046, 2048), (1, 0), 2), 16, "tiles_e2_l4_s4", id="rows of 2046 halves"),
        pytest.param(turned((2048, 2048), (1, 0), 2, start=2), 16, "tiles_e2_l4_s4", id="from the third half on"),
        pytest.param(turned((2048, 2048), (1, 0), 2, backwards=1), 16, "squares_e2_l8_s8", id="rows from the last one on"),
        pytest.param(turned((2048, 2048), (1, 0), 4, backwards=0), 16, "tiles_e4_l4_s4", id="columns from the last one on"),
        pytest.param(turned((64, 64, 3136), (0, 2, 1), 2), 16, "squares_e2_l8_s8", id="64 channels last: whole lines"),
        pytest.param(turned((64, 32, 3136), (0, 2, 1), 2), 16, "tiles_e2_l4_s4", id="32 channels last: half lines"),
        pytest.param(turned((64, 3136, 32), (0, 2, 1), 2), 16, "squares_e2_l8_s8", id="32 channels first"),
        pytest.param(turned((64, 3136, 6), (0, 2, 1), 2), 16, "tiles_e2_l4_s4", id="6 channels first"),
    ],
)
def test_squares_turn_slices_with_whole_lines(plan: IndexPlan, alignment: int, name: str) -> None:
    (launch,) = launches_for(plan, alignment)
    assert launch.variant.name == name
    assert ("squares of" in describe(plan, alignment)) == name.startswith("squares")


def counted(plan: IndexPlan, launch: Launch, block: int = 0) -> Counts:
    """Return the counts of one block."""
    run = KernelRun.of(launch)
    buffers = (
        Buffer(INPUT, None, size=plan.in_extent * plan.element_bytes, readable=True),
        Buffer(OUTPUT, None, size=plan.out_extent * plan.element_bytes, writable=True, discarded=True),
        Buffer(TABLE, np.frombuffer(run.table, np.uint8), readable=True),
    )
    module = AS_WRITTEN.module(launch.variant)
    counts = module.launch(run.name, run.grid, run.arguments, buffers, blocks=range(block, block + 1), counts=True)
    assert counts is not None
    return counts


@functools.cache
def instructions(variant: Variant) -> tuple[float, float]:
    """Return a thread's instructions per tile of a matrix, and once for its places. Blocks move four and eight tiles of a row."""
    size = variant.element_bytes
    plan = turned((2048, 2048), (1, 0), size)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        if variant.kind is KernelKind.TILES:
            patch.setattr(tiles, "_SQUARES", {})
        for each in (4, 8):
            multiprocessors = 2048 * 2048 * size // variant.tile_bytes // each // 4
            (launch,) = launches_for(plan, multiprocessors=multiprocessors)
            assert launch.variant == variant
            found[each] = counted(plan, launch, block=1).instructions / (BLOCK // WARP)
    tile = (found[8] - found[4]) / 4
    return tile, found[4] - 4 * tile


def page_rows() -> Iterator[re.Match[str]]:
    yield from ROW.finditer(PAGE.read_text(encoding="utf-8"))


def test_the_page_states_the_instructions_of_a_thread() -> None:
    """Another NVRTC generates other instructions."""
    record = json.loads(REGISTERS.read_text())
    names = {variant.name: variant for variant in VARIANTS}
    rows = {row[1]: tuple(map(int, row.groups()[1:])) for row in page_rows()}
    assert set(rows) >= {variant.name for variant in SQUARES}
    for name, (tile, elements, vector, once, registers) in rows.items():
        variant = names[name]
        assert elements == variant.tile_bytes // BLOCK // variant.element_bytes
        if record["nvrtc"] == nvrtc.version():
            assert registers == record["registers"]["sm_90"][name]
            counts = instructions(variant)
            assert (tile, once) == tuple(map(round, counts)), name
            assert abs(vector - counts[0] * VECTOR * BLOCK / variant.tile_bytes) <= 0.5


@pytest.mark.parametrize("squares", SQUARES, ids=lambda variant: variant.name)
def test_squares_save_the_instructions_that_the_model_says(squares: Variant) -> None:
    """The savings per tile, and once, are within a half of the model's."""
    (other,) = [variant for variant, found in tiles._SQUARES.items() if found == squares]
    saved = [before - now for before, now in zip(instructions(other), instructions(squares), strict=True)]
    assert min(saved) > 0
    many, one = (_modelled(other, moved) - _modelled(squares, moved) for moved in (10**6, 1))
    for model, count in zip((many, one - many), saved, strict=True):
        assert 0.5 <= model / count <= 1.5, (model, count)


def _modelled(variant: Variant, moved: int) -> float:
    """Return the modelled instructions of a thread per tile, if a tile fills its kernel. moved: tiles of a block."""
    size, whole = variant.element_bytes, variant.tile_bytes
    sides = [
        RunCost(whole, 1.0, 128, unit, stored=stored)
        for unit, stored in ((variant.load_bytes, False), (variant.store_bytes, True))
    ]
    read = variant.store_bytes if variant.kind is KernelKind.SQUARES else size
    sizes = {"tile_bytes": whole, "most_bytes": whole, "element_bytes": size, "read_bytes": read}
    return tile_cost(sides, **sizes, dimensions=2, tiles=moved, idle=1.0) * whole / size * WARP * ISSUED / BLOCK


def test_a_thread_executes_few_instructions_for_16_bytes() -> None:
    most = {1: 80, 2: 40, 4: 40}
    for variant in SQUARES:
        tile, _ = instructions(variant)
        assert tile * VECTOR * BLOCK / variant.tile_bytes <= most[variant.element_bytes], variant.name


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        pytest.param((2048, 2048), 1, id="matrix of bytes"),
        pytest.param((2048, 2048), 2, id="matrix of halves"),
        pytest.param((2048, 2048), 4, id="matrix of words"),
        pytest.param((100_000, 8), 1, id="8 bytes"),
        pytest.param((100_000, 12), 2, id="12 halves"),
        pytest.param((100_000, 12), 4, id="12 words"),
        pytest.param((100_000, 20), 2, id="20 halves"),
        pytest.param((100_000, 30), 4, id="30 words"),
        pytest.param((100_000, 56), 1, id="56 bytes"),
    ],
)
def test_padding_between_rows_avoids_bank_conflicts(shape: tuple[int, int], size: int) -> None:
    """No other gap takes fewer passes through the banks, and no row takes more than one and a half passes on average."""
    plan = turned(shape, (1, 0), size)
    (launch,) = launches_for(plan)
    assert launch.variant.kind is KernelKind.SQUARES
    chosen = counted(plan, launch)
    assert chosen.shared_passes == min(counted(plan, _with_shift(launch, shift)).shared_passes for shift in range(7, 11))
    assert chosen.shared_passes <= 1.5 * chosen.shared_least
    if shape == (2048, 2048):
        assert chosen.shared_passes == chosen.shared_least


def _with_shift(launch: Launch, shift: int) -> Launch:
    """Return the launch with a gap after every 2^shift bytes of shared memory."""
    table = bytearray(launch.table)
    for form in range(len(table) % 224, len(table), 224):  # after the dimensions along which tiles lie, each with 32 bytes
        table[form + 28] = shift
    return launch._replace(table=bytes(table))
