"""Slices whose input and output run along different dimensions: which box of elements a block turns in shared memory.

A tile is loaded in the order of the input and stored in the order of the output. So it needs a run of elements that are
adjacent in the input, and one of elements that are adjacent in the output. Of the boxes that `tile_boxes.py` makes, the cheapest
is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, inf, prod

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
    SECTOR,
    START,
    WARP,
    RunCost,
    form_cost,
    idle,
    tile_cost,
)
from dmlgather.backends.cuda.launch import Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.launch_form import launch_form
from dmlgather.backends.cuda.tile_boxes import Side, Sizes, boxes
from dmlgather.backends.cuda.variants import BLOCK, GENERAL_UNROLL, RESIDENT, VARIANTS, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

LONG_RUN = 64
"""Bytes that are adjacent on both sides, and so need no turning: two sectors."""


def tile_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """One launch that moves `work` by tiles; None where it has lookups, or where elements by themselves cost no more."""
    inner, size = work.dims[0], work.element_bytes
    turned = inner.in_step != size or inner.size * size < LONG_RUN
    if work.lookups or len(work.dims) < 2 or inner.out_step != size or not turned:
        return None
    for variant in _variants(size, target.alignment):
        tiling = Tiling.cheapest(work, variant, target.multiprocessors)
        if tiling is not None:
            # Else, each thread of a warp would load a sector of its own.
            apart = inner.size >= WARP and abs(inner.in_step) >= SECTOR and sum(size > 1 for size in tiling.sizes) > 1
            waiting = idle(tiling.count, target.multiprocessors)
            pays = apart or tiling.cost(target.multiprocessors, waiting) < _elements_cost(work, target)
            return tiling.launch(target.multiprocessors) if pays else None
    return None


def _variants(element_bytes: int, alignment: int) -> Iterator[Variant]:
    """The kernels for such elements, those with the widest loads and stores first."""
    for variant in reversed(VARIANTS):
        fits = variant.element_bytes == element_bytes and max(variant.load_bytes, variant.store_bytes) <= alignment
        if variant.kind is KernelKind.TILES and fits:
            yield variant


def _elements_cost(work: Work, target: LaunchTarget) -> float:
    """Of the kernels that would move it otherwise, element by element."""
    special = len(work.dims) <= MAX_DIMENSIONS
    unroll = Variant(KernelKind.COPY, element_bytes=work.element_bytes).unroll if special else GENERAL_UNROLL
    form = launch_form(work, lambda _: unroll, target.multiprocessors)
    start = START + FURTHER_DIMENSION * max(0, len(work.dims) - NEAR_DIMENSIONS) if special else GENERAL_START
    return form_cost(work, form, start) * idle(-(-form.threads // BLOCK), target.multiprocessors)


@dataclass(frozen=True, slots=True)
class Tiling:
    """Work cut into boxes, for one kernel.

    source, target: input and output. sizes: of a box. outer: the dimensions along which there are several, with the steps from
    one to the next; blocks go along the first ones, so those with boxes of one size come first. ragged: those of them whose last
    box is smaller. forms: the sizes that boxes have; bit n of a form's number says that a box is the last one along the n-th
    dimension of `ragged`.
    """

    work: Work
    variant: Variant
    source: Side
    target: Side
    sizes: Sizes
    outer: dict[int, Dimension]
    ragged: tuple[int, ...]
    forms: tuple[Sizes, ...]

    @classmethod
    def cheapest(cls, work: Work, variant: Variant, multiprocessors: int) -> Tiling | None:
        """Boxes as large as the kernel takes; None where none fits."""
        source = Side.of(work.element_bytes, work.in_offset, [dim.in_step for dim in work.dims])
        target = Side.of(work.element_bytes, work.out_offset, [dim.out_step for dim in work.dims])
        whole = tuple(dim.size for dim in work.dims)
        best, least = None, inf
        for sizes in boxes(whole, source, target, variant.tile_bytes // work.element_bytes):
            tiling = cls.of(work, variant, source, target, sizes)
            if tiling.fits() and (cost := tiling.cost(multiprocessors)) < least:
                best, least = tiling, cost
        return best

    @classmethod
    def of(cls, work: Work, variant: Variant, source: Side, target: Side, sizes: Sizes) -> Tiling:
        """Boxes of these sizes."""
        whole = tuple(dim.size for dim in work.dims)
        cut = [axis for axis, size in enumerate(sizes) if size < whole[axis]]
        ragged = tuple(axis for axis in cut if whole[axis] % sizes[axis])
        outer = {
            axis: Dimension(-(-whole[axis] // sizes[axis]), sizes[axis] * dim.out_step, sizes[axis] * dim.in_step)
            for axis, dim in sorted(enumerate(work.dims), key=lambda found: found[0] in ragged)
            if axis in cut
        }
        forms = [sizes]
        for axis in ragged:
            forms += [(*form[:axis], whole[axis] % sizes[axis], *form[axis + 1 :]) for form in forms]
        return cls(work, variant, source, target, sizes, outer, ragged, tuple(forms))

    @property
    def count(self) -> int:
        """Boxes."""
        return prod(dim.size for dim in self.outer.values())

    @property
    def _units(self) -> tuple[tuple[Side, int], tuple[Side, int]]:
        """Input and output, with the bytes of a load and of a store."""
        return (self.source, self.variant.load_bytes), (self.target, self.variant.store_bytes)

    def fits(self) -> bool:
        """Whether loads and stores of the kernel are aligned and move what is adjacent, and steps in a box fit its tables."""
        pairs = self._units
        reach = max(sum((size - 1) * abs(step) for size, step in zip(self.sizes, side.steps, strict=True)) for side, _ in pairs)
        return reach < 2**31 and all(unit == side.element_bytes or self._aligned(side) % unit == 0 for side, unit in pairs)

    def _aligned(self, side: Side) -> int:
        """What all runs of a side, and the places where they begin, are multiples of, in bytes."""
        along = side.run(self.sizes)[1]
        numbers = [side.offset, *(side.run(sizes)[0] for sizes in self.forms)]
        if side is self.source:
            numbers += [side.start(sizes) for sizes in self.forms]
        for axis, step in enumerate(side.steps):
            if axis not in along:
                numbers.append(step)
            elif axis in self.outer:
                numbers.append(step * self.sizes[axis])
        return gcd(*numbers)

    def cost(self, multiprocessors: int, waiting: float = 1.0) -> float:
        """Cycles of a multiprocessor for an element. waiting: how many times as long so few blocks take."""
        runs = [RunCost(*side.spread(self.sizes), self._aligned(side), unit, side is self.target) for side, unit in self._units]
        size = self.work.element_bytes
        return tile_cost(
            runs,
            tile_bytes=prod(self.sizes) * size,
            most_bytes=self.variant.tile_bytes,
            element_bytes=size,
            dimensions=len(self.outer),
            tiles=self._each(multiprocessors),
            idle=waiting,
        )

    def _each(self, multiprocessors: int) -> int:
        """Boxes that a block of threads moves at most, where a launch has about the blocks that the GPU holds at a time."""
        return -(-self.count // max(1, RESIDENT * multiprocessors))

    def launch(self, multiprocessors: int) -> Launch | None:
        """Blocks of threads that move about as many boxes each. None where one launch cannot have so many boxes."""
        if not launchable(self.count):
            return None
        bits = {axis: 1 << number for number, axis in enumerate(self.ragged)}
        table = [dim.pack_for_table(bits.get(axis, 0)) for axis, dim in self.outer.items()]
        table += [self._form(sizes).pack() for sizes in self.forms]
        each = self._each(multiprocessors)
        arguments = Arguments(tuple(self.outer.values()), self.count, full=each, **work_arguments(self.work))
        blocks = -(-self.count // each)
        box = tuple(size for size in reversed(self.sizes) if size > 1)
        return Launch(self.variant, blocks, arguments.pack(general=True), table=b"".join(table), box=box)

    def _form(self, sizes: Sizes) -> TileForm:
        """What a box of these sizes moves. In shared memory, its elements lie as in the input."""
        element, unit = self.work.element_bytes, self.variant.load_bytes
        loads: list[TileDimension] = []
        places, reached = {}, element
        for axis in self.source.order:
            step, size = self.source.steps[axis], sizes[axis]
            places[axis] = reached if step > 0 else -reached
            reached *= size
            if loads and abs(step) == loads[-1].size * loads[-1].step:
                loads[-1] = TileDimension(loads[-1].size * size, loads[-1].step)
            elif size > 1:
                loads.append(TileDimension(size, abs(step)))
        if unit > element:
            loads[0] = TileDimension(loads[0].size * element // unit, unit)
        stores = [
            TileDimension(sizes[axis], self.target.steps[axis], places[axis]) for axis in self.target.order if sizes[axis] > 1
        ]
        return TileForm(
            in_start=self.source.start(sizes),
            loads=prod(sizes) * element // unit,
            stores=prod(sizes) * element // self.variant.store_bytes,
            first_place=sum((sizes[axis] - 1) * max(-place, 0) for axis, place in places.items()),
            load=_two(loads),
            store=_two(stores),
        )


def _two(dims: Sequence[TileDimension]) -> tuple[TileDimension, ...]:
    """The kernel takes two dimensions at least."""
    return (*dims, *[TileDimension(1, 0)] * (2 - len(dims)))
