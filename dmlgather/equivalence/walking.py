"""How a sum, as an address in a tensor, walks over the coordinates of that tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from dmlgather.equivalence.symbols import Addend, Sum, total
from dmlgather.plan import CompositionError, IndexPlan, IndexType, Lookup, Walk, packed_strides
from dmlgather.plan.index_function import IndexFunction, Piece


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
