"""A tensor as parts: points that have one formula with other numbers in it. So all that is known of a tensor can be evaluated."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd, isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.equivalence.symbols import (
    MAY_BE_KNOWN,
    Addend,
    Formula,
    Guard,
    Leaf,
    Pointwise,
    Read,
    Sum,
    SymbolicTensor,
    guarded,
    is_whole,
    leaves_of,
    mapped,
    order,
    plus,
    scaled,
    simplest,
    total,
    whole_leaf,
)
from dmlgather.equivalence.tables import (
    MOST_POINTS,
    Coordinates,
    Integers,
    Tables,
    among,
    applied,
    check_differences,
    merged,
    strided,
)
from dmlgather.plan import IndexPlan, IndexType, Lookup, packed_strides
from dmlgather.plan.index_function import IndexFunction, Piece
from dmlgather.plan.walk import CompositionError, Walk


@dataclass(frozen=True, slots=True)
class Course:
    """The coordinates that an address leads to: start + steps, for each dimension of the points and then for each addend.

    sizes: of the points, finer than they were where a dimension runs over the end of an inner one. Formulas of the addends are
    still over the coarser ones.
    """

    sizes: tuple[int, ...]
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    addends: tuple[Addend, ...]

    def along(self, axis: int) -> Sum:
        """The coordinate along one dimension, where `sizes` are those of the points."""
        count = len(self.sizes)
        addends = [
            Addend(addend.function.scaled(step[axis]), addend.formula)
            for step, addend in zip(self.steps[count:], self.addends, strict=True)
            if step[axis]
        ]
        return total(self.start[axis], [step[axis] for step in self.steps[:count]], addends)


def course(at: Sum, sizes: Sequence[int], inner: Sequence[int]) -> Course:
    """How `at`, over points of these sizes, walks over a tensor of the sizes `inner`.

    CompositionError where strides cannot say it.
    """
    offset, indices = walked(at)
    packed, extent = packed_strides(inner), prod(inner)
    try:
        over = IndexPlan(tuple(inner), packed, packed, 1, extent, extent)
        lookups = tuple(Lookup((0,) * len(sizes), 0, addend.function.high + 1, 0, factor) for addend, factor in indices)
        plan = IndexPlan(
            shape=tuple(sizes),
            out_strides=packed_strides(sizes),
            in_strides=at.strides,
            element_bytes=1,
            in_extent=extent,
            out_extent=prod(sizes),
            in_offset=offset,
            lookups=lookups,
            index_type=IndexType.INT64 if lookups else None,
            index_extent=1 if lookups else 0,
        )
    except ValueError as error:
        raise CompositionError(f"the reach of the address is not known well enough: {error}") from None
    walk = Walk.over(over, plan)
    dims = sorted(range(len(walk.sizes)), key=lambda dim: -walk.out_strides[dim])
    steps = (*(walk.steps[dim] for dim in dims), *walk.value_steps)
    return Course(tuple(walk.sizes[dim] for dim in dims), walk.start, steps, tuple(addend for addend, _ in indices))


def unsplit_course(at: Sum, sizes: Sequence[int], inner: Sequence[int]) -> Course | None:
    """As `course`; None where strides cannot say it, and where the points would have to be split for it."""
    try:
        found = course(at, sizes, inner)
    except CompositionError:
        return None
    return found if found.sizes == tuple(sizes) else None


def walked(at: Sum) -> tuple[int, list[tuple[Addend, int]]]:
    """An address as an offset, and addends from 0 on with how far a unit of each leads."""
    offset, found = at.offset, []
    for addend in at.addends:
        pieces, low = addend.function.pieces, addend.function.low
        factor = gcd(*(number for piece in pieces for number in (piece.slope, piece.at(piece.low) - low)))
        found.append((Addend(_divided(addend.function, low, factor), addend.formula), factor))
        offset += low
    return offset, found


def _divided(function: IndexFunction, low: int, factor: int) -> IndexFunction:
    """(function - low) / factor, which is whole."""
    return IndexFunction(
        tuple(Piece(piece.low, piece.high, piece.slope // factor, (piece.constant - low) // factor) for piece in function.pieces)
    )


# A tensor as parts: points that have one formula with other numbers in it. So all that is known of a tensor can be evaluated.


def strided_sums(tables: Tables, numbers: Sequence[Integers]) -> tuple[tuple[int, ...], list[Sum]]:
    """Sizes and a sum for each array of numbers. What is strided at the outer or the inner end gets strides, the rest in
    between is a table. OverflowError where a table does not hold their differences.
    """
    for each in numbers:
        check_differences(each)
    block = np.stack(numbers)
    outer: list[tuple[int, list[int]]] = []
    inner: list[tuple[int, list[int]]] = []
    count = 0
    while count != 1:
        count, steps = _run(block)
        if count > 1:
            inner.insert(0, (count, steps))
            block = block[:, ::count]
        repeats, steps = _repeats(block)
        if repeats > 1:
            outer.append((repeats, steps))
            block = block[:, : block.shape[1] // repeats]
            count = 0
    between = [block.shape[1]] if block.shape[1] > 1 else []
    sizes = (*(size for size, _ in outer), *between, *(size for size, _ in inner))
    shape = [1] * len(outer) + between + [1] * len(inner)
    found = []
    for row, each in enumerate(block):
        strides = [*(steps[row] for _, steps in outer), *(0 for _ in between), *(steps[row] for _, steps in inner)]
        found.append(plus(tables.table(each.reshape(shape)), Sum(0, tuple(strides))))
    return sizes, found


def _run(block: Integers) -> tuple[int, list[int]]:
    """The longest inner dimension that each row walks by one stride, the same one everywhere: its size and the strides."""
    count = block.shape[1]
    if count == 1:
        return 1, []
    moves = np.diff(block, axis=1)
    breaks = np.flatnonzero((moves != moves[:, :1]).any(axis=0)) + 1
    return int(np.gcd.reduce(breaks, initial=count)), moves[:, 0].tolist()


def _divisors(count: int) -> list[int]:
    small = [each for each in range(1, isqrt(count) + 1) if count % each == 0]
    return sorted({*small, *(count // each for each in small)})


def _repeats(block: Integers) -> tuple[int, list[int]]:
    """The longest outer dimension that each row walks by one stride: its size and the strides."""
    count = block.shape[1]
    moves = np.diff(block, axis=1)
    for period in _divisors(count)[:-1]:
        same = (moves[:, :1] == moves[:, period : period + 1]).all()
        if same and (moves[:, period:] == moves[:, :-period]).all():
            return count // period, (block[:, period] - block[:, 0]).tolist()
    return 1, []


_BITS = Leaf(-1, "bits", np.dtype(np.uint8), 0, "known elements")

KNOWN = Formula(Read(_BITS, Sum(0, ())))
"""Stands for known elements that are no integers; its numbers are their bits: [points, bytes of an element]."""


_LARGE = np.dtype(np.uint64)
"""The type of integers that no table holds."""


class MixedError(Exception):
    """What one formula looks up has several formulas at different points, or is too large for a table."""


@dataclass(frozen=True, slots=True)
class Part:
    """places: the points, in row-major order. formula: its sums without offsets and strides. numbers: of each sum at each point,
    in the order of `sums`.
    """

    places: Integers
    formula: Formula
    numbers: tuple[NDArray[Any], ...]

    @property
    def digest(self) -> Hashable:
        """Equal for parts that are equal."""
        return self.formula, tuple(
            hashlib.sha256(np.ascontiguousarray(each).data).hexdigest() for each in (self.places, *self.numbers)
        )


class PartMaker:
    """Takes tensors apart into parts, and puts one part together as a tensor again."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.leaves = tables, tables.leaves
        self._settled: dict[SymbolicTensor, SymbolicTensor] = {}

    def settled(self, tensor: SymbolicTensor) -> SymbolicTensor:
        """The tensor in canonical form: what is known of it is evaluated, and tables that are strided are strides again.

        It is kept: a program is looked at twice, and often the other one has the same steps.
        """
        if tensor not in self._settled:
            self._settled[tensor] = self._evaluated(tensor)
        return self._settled[tensor]

    def _evaluated(self, tensor: SymbolicTensor) -> SymbolicTensor:
        tensor = merged(tensor)
        parts = self.parts(tensor) if self._evaluable(tensor) else None
        with suppress(OverflowError):
            return self.tensor(parts[0], tensor.dtype) if parts and len(parts) == 1 else tensor
        return tensor

    def form(self, tensor: SymbolicTensor) -> Hashable:
        """Equal for tensors whose elements are equal, as far as that can be seen."""
        tensor = self.settled(tensor)
        parts = (self.parts(tensor) if self._evaluable(tensor) else None) or ()
        return (tensor.dtype, tensor.elements, tuple(part.digest for part in parts)) if len(parts) > 1 else tensor

    def parts(self, tensor: SymbolicTensor) -> list[Part] | None:
        """The parts of a tensor in canonical order, by their first points. None where it is too large, and where what is looked
        up has several formulas itself.
        """
        if not 0 < tensor.elements <= MOST_POINTS:
            return None
        places = np.arange(tensor.elements, dtype=np.int64)
        coordinates = np.unravel_index(places, tensor.sizes) if tensor.sizes else ()
        try:
            found = list(self._of(tensor.formula, tensor.sizes, coordinates, places))
        except MixedError:
            return None
        together: dict[Formula, list[Part]] = {}
        for part in found:
            together.setdefault(part.formula, []).append(part)
        return sorted(map(_joined, together.values()), key=lambda part: int(part.places[0]))

    @staticmethod
    def _evaluable(tensor: SymbolicTensor) -> bool:
        """Whether something may be known of a tensor that is not settled."""
        content = tensor.formula.content
        if isinstance(content, Read) and content.leaf.dtype.kind not in "biu" and is_whole(tensor):
            return content.leaf.kind == "concatenation"
        return any(leaf.kind in MAY_BE_KNOWN for leaf in leaves_of(tensor.formula))

    def tensor(self, part: Part, dtype: np.dtype[Any]) -> SymbolicTensor:
        """The tensor whose only part this is."""
        numbers = list(part.numbers)
        if part.formula.content == KNOWN.content:
            formula, numbers = self._constant(part, dtype)
            part = replace(part, formula=formula)
        sizes, restored = strided_sums(self.tables, numbers)
        rest = iter(restored)
        formula = mapped(part.formula, lambda *_: next(rest))
        return merged(SymbolicTensor(sizes, simplest(guarded(Formula(formula.content), formula.guards)), dtype))

    def _of(self, formula: Formula, sizes: Sequence[int], coordinates: Coordinates, places: Integers) -> Iterator[Part]:
        """The parts of a formula at points. coordinates: one array for each of `sizes`, as long as `places`."""
        guards: list[Guard] = []
        numbers: list[NDArray[Any]] = []
        here = np.ones(len(places), bool)
        for guard in formula.guards:
            values = self.tables.known_formula(guard.formula, coordinates)
            if values is None:
                looked_up, more = self._single(guard.formula, _LARGE, sizes, coordinates, len(places))
                guards.append(Guard(looked_up, guard.allowed, guard.fill))
                numbers += more
                continue
            refused = here & ~among(np.broadcast_to(values, places.shape), guard.allowed)
            here &= ~refused
            if refused.any():
                behind = (tuple(guards), [each[refused] for each in numbers])
                yield _behind(*behind, _filled(guard.fill, places[refused]))
        if here.all():
            inside = coordinates
        else:
            inside, places, numbers = [each[here] for each in coordinates], places[here], [each[here] for each in numbers]
        if len(places):
            for part in self._content(formula, sizes, inside, places):
                chosen = slice(None) if len(part.places) == len(places) else np.searchsorted(places, part.places)
                yield _behind(tuple(guards), [each[chosen] for each in numbers], part)

    def _content(self, formula: Formula, sizes: Sequence[int], coordinates: Coordinates, places: Integers) -> Iterator[Part]:
        """The parts of a formula without its guards."""
        content = formula.content
        values = self.tables.known_formula(Formula(content), coordinates)
        if values is not None:
            yield Part(places, Formula(Sum(0, ())), (np.broadcast_to(values, places.shape),))
            return
        if isinstance(content, Read):
            at = self.tables.known(content.at, coordinates)
            array = self.leaves.constants.get(content.leaf)
            if at is not None and array is not None and not array.dtype.hasobject:
                yield _known(places, array[np.broadcast_to(at, places.shape)])
                return
            if content.leaf in self.leaves.concatenations:
                yield from self._concatenated(content, at, sizes, coordinates, places)
                return
        stripped, numbers = self._single_content(content, sizes, coordinates, len(places))
        yield Part(places, Formula(stripped), tuple(numbers))

    def _concatenated(
        self,
        read: Read,
        at: Integers | None,
        sizes: Sequence[int],
        coordinates: Coordinates,
        places: Integers,
    ) -> Iterator[Part]:
        """The parts of what is read from a concatenation: each of the tensor that the points lead to."""
        joined = self.leaves.concatenations[read.leaf]
        length = sum(joined.lengths)
        if at is not None:
            outer, along, inner = np.unravel_index(np.broadcast_to(at, places.shape), (joined.outer, length, joined.inner))
        else:
            way = unsplit_course(read.at, sizes, (joined.outer, length, joined.inner))
            known = None if way is None else self.tables.known(way.along(1), coordinates)
            if way is None or known is None:
                stripped, numbers = self._single_content(read, sizes, coordinates, len(places))
                yield Part(places, Formula(stripped), tuple(numbers))
                return
            along = np.broadcast_to(known, places.shape)
        start = 0
        for tensor, size in zip(joined.tensors, joined.lengths, strict=True):
            here = (along >= start) & (along < start + size)
            if here.any() and at is not None:
                address = (outer[here] * size + along[here] - start) * joined.inner + inner[here]
                inside = np.unravel_index(address, tensor.sizes) if tensor.sizes else ()
                yield from self._of(tensor.formula, tensor.sizes, inside, places[here])
            elif here.any():
                content = tensor.formula.content
                if not isinstance(content, Read) or tensor.formula != whole_leaf(content.leaf) or way is None:
                    raise MixedError
                across = plus(scaled(way.along(0), size * joined.inner), way.along(2))
                inside_part, numbers = self._sum(across, sizes, [each[here] for each in coordinates], int(here.sum()))
                numbers[0] = numbers[0] + (along[here] - start) * joined.inner
                yield Part(places[here], Formula(Read(content.leaf, inside_part)), tuple(numbers))
            start += size

    def _single(
        self, formula: Formula, dtype: np.dtype[Any], sizes: Sequence[int], coordinates: Coordinates, count: int
    ) -> tuple[Formula, list[NDArray[Any]]]:
        """The only part of a formula, without its places. MixedError where it has several. dtype: of elements that are known, but
        that no table of integers holds.
        """
        parts = list(self._of(formula, sizes, coordinates, np.arange(count, dtype=np.int64)))
        if len({part.formula for part in parts}) > 1:
            raise MixedError
        part = _joined(parts)
        if part.formula.content != KNOWN.content:
            return part.formula, list(part.numbers)
        return self._constant(part, dtype)

    def _constant(self, part: Part, dtype: np.dtype[Any]) -> tuple[Formula, list[NDArray[Any]]]:
        """The formula of a part of known elements, and its numbers: read from a constant, one after the other."""
        *numbers, bits = part.numbers
        leaf = self.leaves.constant(np.ascontiguousarray(bits).view(dtype).reshape(-1))
        return Formula(Read(leaf, Sum(0, ())), part.formula.guards), [*numbers, np.arange(len(part.places), dtype=np.int64)]

    def _single_content(
        self, content: Read | Sum | Pointwise, sizes: Sequence[int], coordinates: Coordinates, count: int
    ) -> tuple[Read | Sum | Pointwise, list[NDArray[Any]]]:
        """Content without offsets and strides, and its numbers."""
        if isinstance(content, Sum):
            return self._sum(content, sizes, coordinates, count)
        if isinstance(content, Read):
            at, numbers = self._sum(content.at, sizes, coordinates, count)
            return Read(content.leaf, at), numbers
        found = [
            self._single(operand, dtype, sizes, coordinates, count)
            for operand, dtype in zip(content.operands, content.dtypes, strict=True)
        ]
        operands = tuple(formula for formula, _ in found)
        return Pointwise(content.work, content.dtypes, operands), [each for _, numbers in found for each in numbers]

    def _sum(self, each: Sum, sizes: Sequence[int], coordinates: Coordinates, count: int) -> tuple[Sum, list[NDArray[Any]]]:
        """A sum without offset and strides, and its numbers: its own, then those of its addends."""
        if not self.tables.fits(each, coordinates):
            raise MixedError
        numbers = np.broadcast_to(strided(each, coordinates), (count,)) if coordinates else np.full(count, each.offset, np.int64)
        kept: list[tuple[str, Addend, list[NDArray[Any]]]] = []
        for addend in each.addends:
            values = self.tables.known_formula(addend.formula, coordinates)
            known = None if values is None else applied(addend.function, values)
            if known is not None:
                numbers = numbers + known
                continue
            formula, more = self._single(addend.formula, _LARGE, sizes, coordinates, count)
            found = Addend(addend.function, formula)
            kept.append((order(found), found, more))
        kept.sort(key=lambda item: (item[0], [int(each[0]) for each in item[2]]))
        rest = [each for _, _, more in kept for each in more]
        return Sum(0, (), tuple(addend for _, addend, _ in kept)), [np.broadcast_to(numbers, (count,)), *rest]


def _filled(fill: int | bytes, places: Integers) -> Part:
    """The part of points that are filled."""
    if isinstance(fill, int):
        return Part(places, Formula(Sum(0, ())), (np.full(places.shape, fill, np.int64),))
    return _known(places, np.broadcast_to(np.frombuffer(fill, f"V{len(fill)}"), places.shape))


def _known(places: Integers, elements: NDArray[Any]) -> Part:
    """The part of known elements that are no integers."""
    bits = np.ascontiguousarray(elements).view(np.uint8).reshape(len(places), -1)
    return Part(places, KNOWN, (bits,))


def _behind(guards: tuple[Guard, ...], numbers: Sequence[NDArray[Any]], part: Part) -> Part:
    """A part behind guards; numbers: of the guards, at the part's places."""
    if not guards:
        return part
    return Part(part.places, Formula(part.formula.content, (*guards, *part.formula.guards)), (*numbers, *part.numbers))


def _joined(parts: Sequence[Part]) -> Part:
    """Parts with one formula as one part."""
    if len(parts) == 1:
        return parts[0]
    places = np.concatenate([part.places for part in parts])
    new = np.argsort(places)
    numbers = tuple(np.concatenate(each)[new] for each in zip(*(part.numbers for part in parts), strict=True))
    return Part(places[new], parts[0].formula, numbers)
