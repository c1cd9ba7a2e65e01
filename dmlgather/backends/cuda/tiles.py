"""Slices whose input and output run along different dimensions: which box of elements a block turns in shared memory.

A tile is loaded in the order of the input and stored in the order of the output. So it needs a run of elements that are
adjacent in the input, and one of elements that are adjacent in the output. Of the boxes that `tile_boxes.py` makes, the cheapest
is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter, prod
from typing import NamedTuple

import numpy as np

from dmlgather.backends.cuda.arguments import (
    MAX_DIMENSIONS,
    NEAR_DIMENSIONS,
    Arguments,
    Dimension,
    TileDimension,
    TileForm,
)
from dmlgather.backends.cuda.cost import (
    FURTHER_DIMENSION,
    GENERAL_START,
    LINE,
    SECTOR,
    START,
    WARP,
    RunCost,
    idle,
    tile_cost,
)
from dmlgather.backends.cuda.form_cost import form_cost
from dmlgather.backends.cuda.launch import Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.launch_form import cheap_form
from dmlgather.backends.cuda.tile_boxes import Side, Sizes, boxes, fit
from dmlgather.backends.cuda.variants import BLOCK, DECLARED, GENERAL_UNROLL, RESIDENT, VARIANTS, WORD, KernelKind, Variant
from dmlgather.backends.cuda.work import Work
from dmlgather.plan.index_plan import ELEMENT_BYTES

LONG_RUN = 64
"""Bytes that are adjacent on both sides, and so need no turning: two sectors."""


def tile_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """One launch that moves `work` by tiles; None where it has lookups, or where elements by themselves cost no more."""
    inner, size = work.dims[0], work.element_bytes
    turned = inner.in_step != size or inner.size * size < LONG_RUN
    if work.lookups or len(work.dims) < 2 or inner.out_step != size or not turned:
        return None
    sides = (
        Side.of(size, work.in_offset, [dim.in_step for dim in work.dims]),
        Side.of(size, work.out_offset, [dim.out_step for dim in work.dims]),
    )
    whole = tuple([dim.size for dim in work.dims])
    made: dict[int, list[Tiling]] = {}
    for variant, units, most in _VARIANTS[size]:
        if max(units) > target.alignment or not fit(sides, units, whole, most):
            continue
        if most not in made:
            made[most] = [Tiling.of(work, sides, sizes) for sizes in boxes(whole, sides, most)]
        if fitting := [tiling for tiling in made[most] if tiling.fits(units)]:
            ways = [(variant, tiling) for tiling in fitting]
            if stretches := _STRETCHES.get(variant):
                ways += [(stretches, tiling) for tiling in fitting if tiling.are_stretches(stretches, target.multiprocessors)]
            weighed = [(tiling.cost(kernel, target.multiprocessors), kernel, tiling) for kernel, tiling in ways]
            cost, kernel, tiling = min(weighed, key=lambda found: found[0])
            squares = _SQUARES.get(kernel)
            if squares and squares.store_bytes <= target.alignment and tiling.are_squares(squares):
                kernel, cost = squares, tiling.cost(squares, target.multiprocessors)
            # Else, each thread of a warp would load a sector of its own.
            apart = inner.size >= WARP and abs(inner.in_step) >= SECTOR and len(whole) - tiling.sizes.count(1) > 1
            if (waiting := idle(tiling.tiles, target.multiprocessors)) > 1 and not apart:
                cost = tiling.cost(kernel, target.multiprocessors, waiting)
            return tiling.launch(kernel, target.multiprocessors) if apart or _elements_cost_more(work, target, cost) else None
    return None


_VARIANTS = {
    size: [
        (variant, (variant.load_bytes, variant.store_bytes), variant.tile_bytes // size)
        for variant in reversed(VARIANTS)
        if (variant.kind, variant.element_bytes) == (KernelKind.TILES, size)
    ]
    for size in ELEMENT_BYTES
}
"""The kernels for elements of that size, those with the widest loads and stores first: each with these, and with the elements of
a tile at most.
"""
_STRETCHES = {
    variant: stretches
    for stretches in VARIANTS
    if stretches.kind is KernelKind.STRETCH
    for variant, (load, store), _ in _VARIANTS[stretches.element_bytes]
    if store == stretches.store_bytes and (load == stretches.load_bytes or variant._replace(kind=stretches.kind) not in DECLARED)
}
"""The kernels for stretches beside those for any tile: with the same stores, and the same or narrower loads."""
_SQUARES = {
    tiles: squares
    for squares in VARIANTS
    if squares.kind is KernelKind.SQUARES
    for tiles, units, _ in _VARIANTS[squares.element_bytes]
    if units == (max(WORD, squares.element_bytes),) * 2
}
"""The kernels for squares beside those that move the same boxes by words."""
_ROOM_SHIFTS = np.arange(LINE.bit_length() - 1, (BLOCK * WORD).bit_length())[:, None]
"""Of kernels for squares: what a block writes at once is a multiple of so many bytes, and room for a unit then fits."""
_THREADS, _COUNTED = np.arange(BLOCK), np.arange(_ROOM_SHIFTS.size)[:, None] * BLOCK
_COPIED = {size: Variant(KernelKind.COPY, element_bytes=size).unroll for size in ELEMENT_BYTES}
"""Elements that a thread walks where a slice is moved element by element."""


def _elements_cost_more(work: Work, target: LaunchTarget, cost: float) -> bool:
    """Whether the kernels that would move it otherwise, element by element, cost more."""
    special, multiprocessors = len(work.dims) <= MAX_DIMENSIONS, target.multiprocessors
    unroll = _COPIED[work.element_bytes] if special else GENERAL_UNROLL
    start = START + FURTHER_DIMENSION * max(0, len(work.dims) - NEAR_DIMENSIONS) if special else GENERAL_START
    more = nextafter(cost, inf)
    form = cheap_form(work, (unroll, unroll), multiprocessors, more)
    return form is None or cost < form_cost(work, form, start, more) * idle(-(-form.threads // BLOCK), multiprocessors)


class Tiling(NamedTuple):
    """Work cut into boxes.

    sides: input and output. sizes: of a box. cut: the dimensions along which there are several; blocks go along the first ones,
    so those with boxes of one size come first. ragged: those of them whose last box is smaller. forms: the sizes that boxes
    have; bit n of a form's number says that a box is the last one along the n-th dimension of `ragged`. tiles: boxes. aligned:
    what the runs of each side, and the places where they begin, are multiples of, in bytes.
    """

    work: Work
    sides: tuple[Side, Side]
    sizes: Sizes
    cut: tuple[int, ...]
    ragged: tuple[int, ...]
    forms: tuple[Sizes, ...]
    tiles: int
    aligned: tuple[int, int]

    @classmethod
    def of(cls, work: Work, sides: tuple[Side, Side], sizes: Sizes) -> Tiling:
        """Boxes of these sizes."""
        even: list[int] = []
        ragged: list[int] = []
        forms, count = [sizes], 1
        for axis, (size, dim) in enumerate(zip(sizes, work.dims, strict=True)):
            if size == dim.size:
                continue
            count *= -(-dim.size // size)
            if rest := dim.size % size:
                ragged.append(axis)
                forms += [(*form[:axis], rest, *form[axis + 1 :]) for form in forms]
            else:
                even.append(axis)
        cut = even + ragged
        aligned = sides[0].aligned(forms, cut, starts=True), sides[1].aligned(forms, cut, starts=False)
        return cls(work, sides, sizes, tuple(cut), tuple(ragged), tuple(forms), count, aligned)

    def fits(self, units: tuple[int, int]) -> bool:
        """Whether loads and stores of so many bytes are aligned and move what is adjacent, and steps in a box fit a kernel's
        tables.
        """
        size = self.work.element_bytes
        for unit, aligned, side in zip(units, self.aligned, self.sides, strict=True):
            if (unit != size and aligned % unit) or side.reach(self.sizes) >= 2**31:
                return False
        return True

    def are_squares(self, variant: Variant) -> bool:
        """Whether each box consists of squares of elements: both sides run along whole units, in different dimensions; and
        whether requests touch no more lines than those of other kernels would.
        """
        unit = variant.store_bytes
        if any(aligned % unit for aligned in self.aligned):
            return False
        edge, (along, across) = unit // variant.element_bytes, self._fastest
        # Elements of a square that are adjacent in the input are stored by different requests.
        stored, _ = self.sides[1].spread(self.sizes, along)
        shorter = stored % LINE and stored < self.sides[1].spread(self.sizes)[0]
        if along == across or self.sides[0].steps[along] < 0 or shorter:
            return False
        return not any(sizes[axis] % edge for sizes in self.forms for axis in (along, across))

    @property
    def _fastest(self) -> tuple[int, int]:
        """The dimensions along which the input and the output run."""
        return self.sides[0].order[0], self.sides[1].order[0]

    def are_stretches(self, variant: Variant, multiprocessors: int) -> bool:
        """Whether each box is one run of the output, some begin or end inside sectors, and all of a block begin at the same place
        in one.
        """
        moved = prod(self.sizes) * self.work.element_bytes
        fits = moved + SECTOR - variant.store_bytes <= variant.tile_bytes
        if not fits or self.aligned[1] % SECTOR == 0 or self.sides[1].run(self.sizes)[0] != moved:
            return False
        steps = [self.sizes[axis] * self.sides[1].steps[axis] for axis in self.cut]
        return self._each(multiprocessors) == 1 or not any(step % SECTOR for step in steps)

    def cost(self, variant: Variant, multiprocessors: int, waiting: float = 1.0) -> float:
        """Cycles of a multiprocessor for an element. waiting: how many times as long so few blocks take."""
        size, (source, target) = self.work.element_bytes, self.sides
        squares, whole = variant.kind is KernelKind.SQUARES, variant.kind is KernelKind.STRETCH
        return tile_cost(
            (
                RunCost(*source.spread(self.sizes), self.aligned[0], variant.load_bytes, stored=False),
                RunCost(*target.spread(self.sizes), self.aligned[1], variant.store_bytes, stored=True, whole=whole),
            ),
            tile_bytes=prod(self.sizes) * size,
            most_bytes=variant.tile_bytes,
            element_bytes=size,
            read_bytes=variant.store_bytes if squares else size,
            dimensions=len(self.cut),
            tiles=self._each(multiprocessors),
            idle=waiting,
        )

    def _each(self, multiprocessors: int) -> int:
        """Boxes that a block of threads moves at most, where a launch has about the blocks that the GPU holds at a time."""
        return -(-self.tiles // max(1, RESIDENT * multiprocessors))

    def launch(self, variant: Variant, multiprocessors: int) -> Launch | None:
        """Blocks of threads that move about as many boxes each. None where one launch cannot have so many boxes."""
        if not launchable(self.tiles):
            return None
        outer = []
        for axis in self.cut:
            dim, size = self.work.dims[axis], self.sizes[axis]
            outer.append(Dimension(-(-dim.size // size), size * dim.out_step, size * dim.in_step))
        bits = {axis: 1 << number for number, axis in enumerate(self.ragged)}
        table = [dim.pack_for_table(bits.get(axis, 0)) for axis, dim in zip(self.cut, outer, strict=True)]
        if not table:  # the kernel takes one dimension at least
            outer = [Dimension(1)]
            table = [outer[0].pack_for_table()]
        forms = [self._form(sizes, variant) for sizes in self.forms]
        if variant.kind is KernelKind.SQUARES:
            shift = _room_shift(forms[0], variant.store_bytes)
            forms = [form._replace(room_shift=shift) for form in forms]
        table += [form.pack() for form in forms]
        each = self._each(multiprocessors)
        arguments = Arguments(tuple(outer), self.tiles, full=each, **work_arguments(self.work))
        blocks = -(-self.tiles // each)
        box = tuple(size for size in reversed(self.sizes) if size > 1)
        return Launch(variant, blocks, arguments.pack(general=True), table=b"".join(table), box=box)

    def _form(self, sizes: Sizes, variant: Variant) -> TileForm:
        """What a box of these sizes moves. In shared memory, its elements lie as in the input."""
        element, unit = self.work.element_bytes, variant.load_bytes
        source, target = self.sides
        loads: list[TileDimension] = []
        places, reached = {}, element
        for axis in source.order:
            step, size = source.steps[axis], sizes[axis]
            places[axis] = reached if step > 0 else -reached
            reached *= size
            if loads and abs(step) == loads[-1].size * loads[-1].step:
                loads[-1] = TileDimension(loads[-1].size * size, loads[-1].step)
            elif size > 1:
                loads.append(TileDimension(size, abs(step)))
        if unit > element:
            loads[0] = TileDimension(loads[0].size * element // unit, unit)
        squares = variant.kind is KernelKind.SQUARES
        along, across = self._fastest if squares else (-1, -1)
        edge = unit // element if squares else 1
        stores = []
        for axis in target.order:
            width = edge if axis in {along, across} else 1
            if sizes[axis] > width or axis == across:
                stores.append(TileDimension(sizes[axis] // width, width * target.steps[axis], width * places[axis]))
        tile_bytes = prod(sizes) * element
        return TileForm(
            in_start=source.start(sizes),
            loads=tile_bytes // unit,
            stores=tile_bytes // variant.store_bytes // edge,
            first_place=sum([(1 - sizes[axis]) * place for axis, place in places.items() if place < 0]),
            load=_padded(loads, 1),
            store=_padded(stores, 1 if squares else 2),
            lane_step=target.steps[along] if squares else 0,
        )


def _room_shift(form: TileForm, unit: int) -> int:
    """After how many bytes of shared memory there is room for a unit, as a power of two: such that the rows which the squares of
    neighbouring threads have lie in different banks, as far as possible. Writes do, with a line or more.
    """
    lanes = LINE // unit  # of a warp, whose units go through the banks at once
    number = _THREADS[: form.stores]
    place = np.full_like(number, form.first_place)
    for dim in form.store[:-1]:
        rest = number // dim.size
        place += (number - rest * dim.size) * dim.place
        number = rest
    rows = (place + number * form.store[-1].place) // unit
    # For each shift, requests one after the other, each with its banks.
    banks = (rows + (rows >> _ROOM_SHIFTS - (unit.bit_length() - 1)) & lanes - 1) + (_THREADS[: len(rows)] & -lanes) + _COUNTED
    passes = np.bincount(banks.ravel(), minlength=_COUNTED.size * BLOCK).reshape(_COUNTED.size, -1, lanes).max(axis=2).sum(axis=1)
    return int(_ROOM_SHIFTS[passes.argmin(), 0])


def _padded(dims: Sequence[TileDimension], least: int) -> tuple[TileDimension, ...]:
    """A kernel takes so many dimensions at least."""
    return (*dims, *[TileDimension(1, 0)] * (least - len(dims)))
