"""Tile kernels: slices that are contiguous along different dimensions in the input and in the output.

A tile is a box of elements that a block loads into shared memory in the order of the input, and stores in the order of the
output. So it should have long contiguous runs in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter, prod
from typing import NamedTuple

import numpy as np

from dmlgather.backends.cuda.arguments import MAX_DIMENSIONS, NEAR_DIMENSIONS, Arguments, Dimension, TileDimension, TileForm
from dmlgather.backends.cuda.cost import FURTHER_DIMENSION, GENERAL_START, LINE, SECTOR, START, WARP, RunCost, idle, tile_cost
from dmlgather.backends.cuda.form_cost import form_cost
from dmlgather.backends.cuda.launch import Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.launch_form import cheap_form
from dmlgather.backends.cuda.tile_boxes import Side, Sizes, boxes, fit
from dmlgather.backends.cuda.variants import BLOCK, DECLARED, GENERAL_UNROLL, RESIDENT, VARIANTS, WORD, KernelKind, Variant
from dmlgather.backends.cuda.work import Work
from dmlgather.plan.index_plan import ELEMENT_BYTES

LONG_RUN = 64
"""A slice with this many adjacent bytes in input and output needs no tiles."""


def tile_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """Return one launch of a tile kernel that executes `work`, or None if there is none or if other kernels cost less."""
    inner, size = work.dims[0], work.element_bytes
    transposed = inner.in_step != size or inner.size * size < LONG_RUN
    if work.lookups or len(work.dims) < 2 or inner.out_step != size or not transposed:
        return None
    sides = (
        Side.of(size, work.in_offset, [dim.in_step for dim in work.dims]),
        Side.of(size, work.out_offset, [dim.out_step for dim in work.dims]),
    )
    whole = tuple([dim.size for dim in work.dims])
    tilings: dict[int, list[Tiling]] = {}
    for variant, units, most in _VARIANTS[size]:
        if max(units) > target.alignment or not fit(sides, units, whole, most):
            continue
        if most not in tilings:
            tilings[most] = [Tiling.of(work, sides, sizes) for sizes in boxes(whole, sides, most)]
        if fitting := [tiling for tiling in tilings[most] if tiling.fits(units)]:
            candidates = [(variant, tiling) for tiling in fitting]
            if stretches := _STRETCHES.get(variant):
                candidates += [
                    (stretches, tiling) for tiling in fitting if tiling.are_stretches(stretches, target.multiprocessors)
                ]
            costs = [(tiling.cost(kernel, target.multiprocessors), kernel, tiling) for kernel, tiling in candidates]
            cost, kernel, tiling = min(costs, key=lambda entry: entry[0])
            squares = _SQUARES.get(kernel)
            if squares and squares.store_bytes <= target.alignment and tiling.are_squares(squares):
                kernel, cost = squares, tiling.cost(squares, target.multiprocessors)
            # If each thread of a warp would load a sector of its own without tiles, tiles are used whatever they cost.
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
"""By element size: kernel, bytes of a load and of a store, most elements in a tile. The widest come first."""
_STRETCHES = {
    variant: stretches
    for stretches in VARIANTS
    if stretches.kind is KernelKind.STRETCH
    for variant, (load, store), _ in _VARIANTS[stretches.element_bytes]
    if store == stretches.store_bytes and (load == stretches.load_bytes or variant._replace(kind=stretches.kind) not in DECLARED)
}
"""The stretch kernel that can replace each tile kernel."""
_SQUARES = {
    tiles: squares
    for squares in VARIANTS
    if squares.kind is KernelKind.SQUARES
    for tiles, units, _ in _VARIANTS[squares.element_bytes]
    if units == (max(WORD, squares.element_bytes),) * 2
}
"""The squares kernel that can replace each tile kernel that moves words."""
_ROOM_SHIFTS = np.arange(LINE.bit_length() - 1, (BLOCK * WORD).bit_length())[:, None]
"""Values of `room_shift` to try: from a cache line to all bytes that a block writes at once."""
_THREADS, _COUNTED = np.arange(BLOCK), np.arange(_ROOM_SHIFTS.size)[:, None] * BLOCK
_COPIED = {size: Variant(KernelKind.COPY, element_bytes=size).unroll for size in ELEMENT_BYTES}
"""Elements that a thread of a copy kernel moves, by element size."""


def _elements_cost_more(work: Work, target: LaunchTarget, cost: float) -> bool:
    special, multiprocessors = len(work.dims) <= MAX_DIMENSIONS, target.multiprocessors
    unroll = _COPIED[work.element_bytes] if special else GENERAL_UNROLL
    start = START + FURTHER_DIMENSION * max(0, len(work.dims) - NEAR_DIMENSIONS) if special else GENERAL_START
    just_above = nextafter(cost, inf)
    form = cheap_form(work, (unroll, unroll), multiprocessors, just_above)
    return form is None or cost < form_cost(work, form, start, just_above) * idle(-(-form.threads // BLOCK), multiprocessors)


class Tiling(NamedTuple):
    """A `Work`, divided into boxes of elements. Each box is a tile: a block moves it through shared memory.

    `sides`: the strides of the input, then the strides of the output.
    `sizes`: the sizes of a whole box. Boxes at the end of a dimension may be smaller.
    `cut`: the dimensions along which there are several boxes.
    `ragged`: the dimensions of `cut` along which the last box is smaller.
    `forms`: the different sizes of boxes, whole boxes first. Bit n of the position in `forms` is set if a box is the last one
    along dimension `ragged[n]`. Example: `forms[2]` is for the boxes that are last along `ragged[1]` only.
    `tiles`: the number of boxes.
    `aligned`: a number for the input and one for the output. It divides the lengths and addresses in bytes of all runs.
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
        """Divide `work` into boxes of these sizes."""
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
        """Return True if all boxes can be moved by loads of `units[0]` bytes and stores of `units[1]` bytes."""
        size = self.work.element_bytes
        for unit, aligned, side in zip(units, self.aligned, self.sides, strict=True):
            if (unit != size and aligned % unit) or side.extent(self.sizes) >= 2**31:
                return False
        return True

    def are_squares(self, variant: Variant) -> bool:
        """Return True if a squares kernel can move all boxes, and touches no more cache lines than other kernels.

        Input and output must be contiguous over whole units of `store_bytes`, along different dimensions.
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
        return self.sides[0].order[0], self.sides[1].order[0]

    def are_stretches(self, variant: Variant, multiprocessors: int) -> bool:
        """Return True if a stretch kernel can move all boxes, and its stores touch fewer sectors.

        Boxes must be contiguous in the output, and all boxes of one block must begin at the same offset in a sector.
        """
        tile_bytes = prod(self.sizes) * self.work.element_bytes
        fits = tile_bytes + SECTOR - variant.store_bytes <= variant.tile_bytes
        if not fits or self.aligned[1] % SECTOR == 0 or self.sides[1].run(self.sizes)[0] != tile_bytes:
            return False
        steps = [self.sizes[axis] * self.sides[1].steps[axis] for axis in self.cut]
        return self._boxes_per_block(multiprocessors) == 1 or not any(step % SECTOR for step in steps)

    def cost(self, variant: Variant, multiprocessors: int, waiting: float = 1.0) -> float:
        """Return the estimated cycles of a multiprocessor per element.

        `waiting`: the factor for multiprocessors without a block, from `cost.idle`.
        """
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
            tiles=self._boxes_per_block(multiprocessors),
            idle=waiting,
        )

    def _boxes_per_block(self, multiprocessors: int) -> int:
        return -(-self.tiles // max(1, RESIDENT * multiprocessors))

    def launch(self, variant: Variant, multiprocessors: int) -> Launch | None:
        """Return the launch of kernel `variant` that moves all boxes, or None if there are too many boxes for one launch."""
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
        per_block = self._boxes_per_block(multiprocessors)
        arguments = Arguments(tuple(outer), self.tiles, full=per_block, **work_arguments(self.work))
        blocks = -(-self.tiles // per_block)
        box = tuple(size for size in reversed(self.sizes) if size > 1)
        return Launch(variant, blocks, arguments.pack(general=True), table=b"".join(table), box=box)

    def _form(self, sizes: Sizes, variant: Variant) -> TileForm:
        element, unit = self.work.element_bytes, variant.load_bytes
        source, target = self.sides
        loads: list[TileDimension] = []
        places, length = {}, element
        # In shared memory, elements have the order of the input.
        for axis in source.order:
            step, size = source.steps[axis], sizes[axis]
            places[axis] = length if step > 0 else -length
            length *= size
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
    """Return the `room_shift` for which neighbouring threads of a squares kernel have the fewest bank conflicts.

    The kernel leaves a gap of one unit after every 2^room_shift bytes. Example: with units of 4 bytes and shift 7, bytes 0 …
    127 use banks 0 … 31, and byte 128 lies at 132, in bank 1.
    """
    lanes = LINE // unit  # number of threads whose units pass through the banks at once
    number = _THREADS[: form.stores]
    place = np.full_like(number, form.first_place)
    for dim in form.store[:-1]:
        rest = number // dim.size
        place += (number - rest * dim.size) * dim.place
        number = rest
    rows = (place + number * form.store[-1].place) // unit
    # Each row belongs to one shift. It has the bank of each read, plus a multiple of `lanes` for the read's request.
    banks = (rows + (rows >> _ROOM_SHIFTS - (unit.bit_length() - 1)) & lanes - 1) + (_THREADS[: len(rows)] & -lanes) + _COUNTED
    passes = np.bincount(banks.ravel(), minlength=_COUNTED.size * BLOCK).reshape(_COUNTED.size, -1, lanes).max(axis=2).sum(axis=1)
    return int(_ROOM_SHIFTS[passes.argmin(), 0])


def _padded(dims: Sequence[TileDimension], least: int) -> tuple[TileDimension, ...]:
    return (*dims, *[TileDimension(1, 0)] * (least - len(dims)))
