"""The recipes: which of NumPy's primitives serves which shape of plan, and how it is cut into blocks.

The table is read from the top; the first recipe whose condition holds is used. Every recipe is correct wherever its condition
holds: `copy` for every plan without lookups, `flat` for every plan with some.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Protocol

import numpy as np

from dmlgather.backends.cpu import block_gather
from dmlgather.backends.cpu.block_copy import BlockCopy, BlockFill
from dmlgather.backends.cpu.block_gather import BlockGather, Move
from dmlgather.backends.cpu.blocks import Blocks, fit
from dmlgather.backends.cpu.buffers import Buffers
from dmlgather.backends.cpu.geometry import WORDS, Geometry
from dmlgather.backends.cpu.offsets import Addressing
from dmlgather.backends.cpu.threads import BlockWork
from dmlgather.backends.cpu.tuning import Tuning
from dmlgather.backends.cpu.units import in_place, scratch_of, unit_of
from dmlgather.backends.cpu.whole_take import BoundCall, WholeTake
from dmlgather.plan import OutOfBounds

BLOCKS = 2
"""Blocks per thread that a small problem is cut into. With more, it would spend its time in Python, one thread at a time."""


class Task(Protocol):
    """A recipe applied to a geometry."""

    @property
    def geometry(self) -> Geometry:
        """The problem."""

    @property
    def blocks(self) -> Blocks:
        """The blocks that it is executed by."""

    def bind(self, buffers: Buffers) -> BoundCall:
        """The whole task on these buffers, as one function; for tasks of one block."""

    def begin(self, buffers: Buffers) -> BlockWork:
        """The function with which one thread executes blocks of these buffers."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """name and why: for describe(). when: the condition. cut: applies the recipe to a geometry that meets the condition."""

    name: str
    why: str
    when: Callable[[Geometry, Tuning], bool]
    cut: Callable[[Geometry, Tuning], Task]


def apply(geometry: Geometry, tuning: Tuning, shares: int, opaque: bool, steady: bool = False) -> tuple[Recipe, Task]:
    """The first recipe of the table whose condition `geometry` meets, and its task for `shares` threads.

    opaque: elements may be joined to larger units and moved as plain bytes. steady: keeps these units short.
    """
    if opaque:
        geometry = geometry.joined(unit_of(geometry, tuning, steady))
    scratch = tuning.scratch_bytes // shares
    tuning = replace(
        tuning,
        block_units=max(1, min(tuning.block_units, scratch // scratch_of(geometry))),
        tile_bytes=min(tuning.tile_bytes, scratch),
        block_bytes=tuning.block_bytes if in_place(geometry, opaque) else min(tuning.block_bytes, scratch // 4),
    )
    if shares > 1:
        units = -(-geometry.units() // (BLOCKS * shares))
        tuning = replace(
            tuning,
            block_units=min(tuning.block_units, units),
            block_bytes=min(tuning.block_bytes, units * geometry.unit),
            row_units=tuning.shared_row_units,
        )
    recipe = next(recipe for recipe in RECIPES if recipe.when(geometry, tuning))
    return recipe, recipe.cut(geometry, tuning)


# When: without lookups.


def _writes_nothing(geometry: Geometry, _: Tuning) -> bool:
    return not geometry.writes and not geometry.lookups


def _only_checks(geometry: Geometry, _: Tuning) -> bool:
    return not geometry.writes


def _is_constant(geometry: Geometry, _: Tuning) -> bool:
    return geometry.out_of_bounds is OutOfBounds.FILL and any(lookup.limit == 0 for lookup in geometry.lookups)


def _is_transposed(geometry: Geometry, tuning: Tuning) -> bool:
    fastest, step = _fastest(geometry, tuning), abs(geometry.in_strides[-1])
    crosses = abs(geometry.in_strides[fastest]) < tuning.cache_line <= step
    long = min(geometry.shape[fastest], geometry.shape[-1]) > tuning.short
    # Otherwise the lines that a run of the output reads stay in cache until the next run reads them again.
    evicts = step % tuning.alias_bytes == 0 or geometry.shape[-1] * tuning.cache_line > tuning.tile_bytes
    return not geometry.lookups and geometry.unit < tuning.cache_line and crosses and long and evicts


def _is_short(geometry: Geometry, tuning: Tuning) -> bool:
    return not geometry.lookups and geometry.rank > 1 and geometry.shape[-1] <= tuning.short < geometry.shape[-2]


def _is_backwards(geometry: Geometry, _: Tuning) -> bool:
    swapped = geometry.in_strides[-1] == -1 and geometry.out_strides[-1] == 1 and geometry.shape[-1] % 4 == 0
    return not geometry.lookups and geometry.unit == 1 and swapped


def _is_every_second(geometry: Geometry, tuning: Tuning) -> bool:
    pairs = abs(geometry.in_strides[-1]) == 2 * geometry.unit and geometry.out_strides[-1] == geometry.unit
    aligned = not any(step % (2 * geometry.unit) for step in (geometry.in_offset, *geometry.in_strides))
    inside = geometry.top + 2 * geometry.unit <= geometry.in_bytes
    narrow = geometry.unit <= tuning.widest_half and sys.byteorder == "little"
    return not geometry.lookups and pairs and aligned and inside and narrow


def _is_copy(geometry: Geometry, _: Tuning) -> bool:
    return not geometry.lookups


def _fastest(geometry: Geometry, tuning: Tuning) -> int:
    """The long dimension with the smallest source stride; stride 0 counts as the largest."""
    strides = [abs(step) for step in geometry.in_strides]
    return min(range(geometry.rank), key=lambda axis: (geometry.shape[axis] <= tuning.short, not strides[axis], strides[axis]))


# When: with lookups.


def _moves_slices(geometry: Geometry, tuning: Tuning) -> bool:
    if geometry.still == geometry.rank:
        return False
    if geometry.still == geometry.rank - 1 and geometry.run > geometry.unit > tuning.part_unit // 8:
        return False  # one run, cut into parts that take() moves more steadily
    units = geometry.units(geometry.still)
    return units >= tuning.slice_units or units * geometry.unit >= tuning.longest_unit


def _moves_columns(geometry: Geometry, tuning: Tuning) -> bool:
    axis = _row_axis(geometry)
    return axis is not None and (axis == 0 or geometry.units(axis) >= tuning.row_units)


def _moves_rows(geometry: Geometry, tuning: Tuning) -> bool:
    return (
        len(geometry.lookups) == 1
        and geometry.lookups[0].in_stride == geometry.pitch
        and 0 < geometry.direct < geometry.rank
        and geometry.units(geometry.direct) >= tuning.row_units
    )


def _shares_lines(geometry: Geometry, tuning: Tuning) -> bool:
    return geometry.rank > 1 and 0 < abs(geometry.in_strides[-1]) < tuning.cache_line and geometry.shape[-1] > tuning.column_block


def _always(_: Geometry, __: Tuning) -> bool:
    return True


def _row_axis(geometry: Geometry) -> int | None:
    """The innermost axis along which no lookup moves and one step of which spans every column reached by what is inside it.

    That axis and the offsets are the rows and columns of one contiguous array.
    """
    if geometry.pitch != geometry.unit:
        return None
    for axis in reversed(range(geometry.rank - 1)):
        step = geometry.in_strides[axis]
        if not geometry.moves(axis) and step % geometry.unit == 0 and step > geometry.span(axis + 1):
            return axis
    return None


# The tasks of the recipes.


def _copy(geometry: Geometry, tuning: Tuning) -> Task:
    return BlockCopy(geometry, _blocks(geometry, _payload(geometry, tuning)))


def _swapped(geometry: Geometry, tuning: Tuning) -> Task:
    words = geometry.swapped(gcd(geometry.shape[-1], max(WORDS)))
    read = words.word.newbyteorder("S")
    return BlockCopy(words, _blocks(words, _payload(words, tuning)), read=read)


def _halves(geometry: Geometry, tuning: Tuning) -> Task:
    return BlockCopy(geometry, _blocks(geometry, _payload(geometry, tuning)), read=np.dtype(f"u{2 * geometry.unit}"))


def _fill(geometry: Geometry, tuning: Tuning) -> Task:
    return BlockFill(geometry, _blocks(geometry, _payload(geometry, tuning)))


def _apart(geometry: Geometry, tuning: Tuning) -> Task:
    units = tuning.tile_bytes // (geometry.unit * geometry.shape[-1])
    return BlockCopy(geometry, _blocks(geometry, fit(geometry.shape, units, {geometry.rank - 1: 1})))


def _tiles(geometry: Geometry, tuning: Tuning) -> Task:
    units, last, fastest = tuning.tile_bytes // geometry.unit, geometry.rank - 1, _fastest(geometry, tuning)
    sides = {axis: max(tuning.tile, units // geometry.shape[other]) for axis, other in ((fastest, last), (last, fastest))}
    order = sorted(range(geometry.rank), key=lambda axis: -abs(geometry.in_strides[axis]))
    margin = -(-tuning.cache_line // geometry.unit)
    return BlockCopy(geometry, _blocks(geometry, fit(geometry.shape, units, sides)), tuple(order), margin)


def _slices(geometry: Geometry, tuning: Tuning) -> Task:
    looked_up = range(geometry.still)
    return _gather(Addressing(geometry, looked_up, looked_up), tuning, _payload(geometry, tuning), block_gather.slices)


def _columns(geometry: Geometry, tuning: Tuning) -> Task:
    axis = _row_axis(geometry)
    assert axis is not None
    columns = range(axis + 1, geometry.rank)
    first = {inner: geometry.shape[inner] for inner in reversed(columns)} | dict.fromkeys(range(axis), 1)
    return _gather(Addressing(geometry, columns, columns), tuning, _payload(geometry, tuning, first), block_gather.along)


def _rows(geometry: Geometry, tuning: Tuning) -> Task:
    addressing = Addressing(geometry, range(geometry.rank), range(geometry.direct, geometry.rank))
    return _gather(addressing, tuning, fit(geometry.shape, _units(geometry, tuning)), block_gather.rows)


def _flat(geometry: Geometry, tuning: Tuning) -> Task:
    return _gather(_everything(geometry), tuning, fit(geometry.shape, _units(geometry, tuning)), block_gather.flat)


def _narrow(geometry: Geometry, tuning: Tuning) -> Task:
    sizes = fit(geometry.shape, _units(geometry, tuning), {geometry.rank - 1: tuning.column_block})
    return _gather(_everything(geometry), tuning, sizes, block_gather.flat)


def _check(geometry: Geometry, tuning: Tuning) -> Task:
    return _gather(_everything(geometry), tuning, fit(geometry.shape, tuning.block_units), block_gather.check)


def _everything(geometry: Geometry) -> Addressing:
    return Addressing(geometry, range(geometry.rank), range(geometry.rank))


def _gather(addressing: Addressing, tuning: Tuning, sizes: tuple[int, ...], move: Move) -> Task:
    geometry, dims = addressing.geometry, addressing.dims
    cached = geometry.unit <= tuning.native_unit and geometry.span(0) <= tuning.native_window
    native = addressing.native and move is block_gather.flat and cached
    blocks = _blocks(geometry, sizes)
    small = geometry.units() <= tuning.small_units and geometry.units() * geometry.unit <= tuning.small_bytes
    plain = geometry.unit > tuning.native_unit and addressing.plain(geometry.shape)
    whole = None
    if blocks.count == 1 and (small or plain) and move in (block_gather.flat, block_gather.along):
        whole = WholeTake.of(addressing, None if move is block_gather.flat else geometry.shape[dims.start - 1])
    return BlockGather(geometry, blocks, addressing, move, native, whole)


def _payload(geometry: Geometry, tuning: Tuning, first: Mapping[int, int] | None = None) -> tuple[int, ...]:
    return fit(geometry.shape, tuning.block_bytes // geometry.unit, first)


def _units(geometry: Geometry, tuning: Tuning) -> int:
    return min(tuning.block_units, tuning.block_bytes // geometry.unit)


def _blocks(geometry: Geometry, sizes: tuple[int, ...]) -> Blocks:
    # Dimensions without lookups change fastest, so that one block's offsets serve the next.
    order = sorted(range(geometry.rank), key=lambda axis: not geometry.moves(axis))
    return Blocks(geometry.shape, sizes, tuple(order))


RECIPES = (
    Recipe("nothing", "the output is empty", _writes_nothing, _copy),
    Recipe("check", "the output is empty, but RAISE checks the indices", _only_checks, _check),
    Recipe("fill", "an indexed axis is empty, so every element is the fill value", _is_constant, _fill),
    Recipe("tiles", "source and output run along different dimensions, so blocks are turned in cache", _is_transposed, _tiles),
    Recipe("apart", "the innermost dimension is short, so its positions are copied one after the other", _is_short, _apart),
    Recipe("swapped", "bytes are read backwards, so words are copied and their bytes swapped", _is_backwards, _swapped),
    Recipe("halves", "every second unit is copied, so pairs are read as numbers and cut to half", _is_every_second, _halves),
    Recipe("copy", "no lookups, so strided blocks are copied", _is_copy, _copy),
    Recipe("slices", "each lookup moves a large slice, which is copied as one strided block", _moves_slices, _slices),
    Recipe("columns", "every row uses the same offsets, so columns are taken from many rows at once", _moves_columns, _columns),
    Recipe("rows", "long rows have indices of their own, so each is one take with its indices as they are", _moves_rows, _rows),
    Recipe("narrow", "neighbours share cache lines of the source's rows, so blocks are narrow", _shares_lines, _narrow),
    Recipe("flat", "units are taken at their offsets", _always, _flat),
)
