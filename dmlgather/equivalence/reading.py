"""Reading one tensor through another: what a view, a gather or a slice makes of the formula of its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.index_arithmetic import MOST_PIECES
from dmlgather.dialects.index_graph import Elementwise
from dmlgather.equivalence.checks import Checks
from dmlgather.equivalence.parts import KNOWN, PartMaker, course, unsplit_course, walked
from dmlgather.equivalence.symbols import (
    MAY_BE_KNOWN,
    Addend,
    Formula,
    Guard,
    Pointwise,
    Read,
    Sum,
    SymbolicTensor,
    guarded,
    leaves_of,
    mapped,
    moved,
    plus,
    scaled,
    sums,
    total,
    whole_leaf,
)
from dmlgather.equivalence.tables import MOST_POINTS, Coordinates, Integers, applied, finest, grid, merged, split, strided
from dmlgather.plan.index_function import IndexFunction, Intervals, Piece, united
from dmlgather.plan.walk import CompositionError

MOST_SUMS = 200
"""A formula with more sums is not carried on: its tensor becomes a leaf."""

MOST_COMPUTED = 48
"""The result of arithmetic whose formula has more sums becomes a leaf: a chain that reads each value twice would double it."""

Pointed = tuple[tuple[int, ...], Formula]
"""Sizes, and a formula over them."""

Compute = Callable[["Reader", Elementwise, tuple[int, ...], Sequence[Formula], Sequence[np.dtype[Any]]], Formula]
"""What a step makes of operands: from the reader, the step, the sizes, the operands and their types."""

Refusal = tuple[Formula, Intervals]
"""A formula, and the integers out of which it must give one."""


class Reader:
    """Makes formulas from formulas. checks: what holds where the program does not raise; functions are defined only there.

    compute: what arithmetic makes of formulas. stops: for each leaf that a tensor had to become, the step where that was, and
    why.
    """

    def __init__(self, parts: PartMaker, checks: Checks, compute: Compute) -> None:
        self.parts, self.tables, self.leaves, self.checks = parts, parts.tables, parts.leaves, checks
        self.compute = compute
        self.stops: dict[int, tuple[str, str]] = {}
        self._computed: dict[tuple[int, tuple[int, ...], Pointwise], Formula] = {}

    def read(self, tensor: SymbolicTensor, sizes: tuple[int, ...], at: Sum, step: str) -> Pointed:
        """What lies in a tensor at an address, which is never outside it. The sizes may become finer."""
        why = "its formula is too long"
        if sum(1 for _ in sums(tensor.formula)) <= MOST_SUMS:
            try:
                return self._walked(tensor, sizes, at)
            except CompositionError as error:
                why = str(error)
            coordinates = self._coordinates(tensor, sizes, at)
            if coordinates is not None:
                points = (prod(sizes),)
                return points, self._renewed(points, self.tables.at_places(tensor.formula, coordinates))
            coordinates = self._coordinates(tensor, (tensor.elements,), Sum(0, (1,)))
            if coordinates is not None:
                flat = self.tables.at_places(tensor.formula, coordinates)
                return self._walked(SymbolicTensor((tensor.elements,), flat, tensor.dtype), sizes, at)
        leaf = self.leaves.tensor(merged(tensor), f"what {step} reads")
        self.stops.setdefault(leaf.number, (step, why))
        return sizes, Formula(Read(leaf, at))

    def shortened(self, tensor: SymbolicTensor, step: str) -> SymbolicTensor:
        """What a step computes; as a leaf, where its formula is too long to be carried on."""
        if sum(1 for _ in sums(tensor.formula)) <= MOST_COMPUTED:
            return tensor
        leaf = self.leaves.tensor(merged(tensor), f"what {step} computes")
        self.stops.setdefault(leaf.number, (step, "its formula is too long"))
        return SymbolicTensor((tensor.elements,) if tensor.elements > 1 else (), whole_leaf(leaf), tensor.dtype)

    def _walked(self, tensor: SymbolicTensor, sizes: tuple[int, ...], at: Sum) -> Pointed:
        way = course(at, sizes, tensor.sizes)
        looked_up = [Addend(addend.function, split(addend.formula, sizes, way.sizes)) for addend in way.addends]
        formula = moved(tensor.formula, way.start, way.steps, looked_up)
        return self._seen_through(way.sizes, self._renewed(way.sizes, formula))

    def _renewed(self, sizes: tuple[int, ...], formula: Formula) -> Formula:
        """The formula after a move, which may have left less of a table or of an operand that varied."""
        formula = mapped(formula, Sum, partial(self._unfolded, sizes), partial(self._recomputed, sizes))
        return guarded(Formula(formula.content), [each for guard in formula.guards for each in self._refusing(guard)])

    def _recomputed(self, sizes: tuple[int, ...], each: Pointwise) -> Formula:
        """What a step makes of operands. It is kept: arithmetic on arithmetic is looked at again with each step that reads it."""
        key = (self.checks.added, sizes, each)
        if key not in self._computed:
            self._computed[key] = self.compute(self, each.work, sizes, each.operands, each.dtypes)
        return self._computed[key]

    @staticmethod
    def _refusing(guard: Guard) -> list[Guard]:
        """The guard, by the formula of which its own is a function."""
        content = guard.formula.content
        if isinstance(content, Sum) and not guard.formula.guards and content.fixed and len(content.addends) == 1:
            (addend,) = content.addends
            function = addend.function.scaled(1, content.offset)
            allowed = united(values for low, high in guard.allowed for values in function.preimage(low, high))
            return [] if allowed == function.domain else [Guard(addend.formula, allowed, guard.fill)]
        return [guard]

    def _unfolded(self, sizes: Sequence[int], each: Sum) -> Sum:
        """The sum without addends that read a table at one place, or by an index that only leads to places that are strided."""
        for addend in each.addends:
            content, pieces = addend.formula.content, addend.function.pieces
            if isinstance(content, Sum) and not addend.formula.guards:
                found = self._through(addend.function, content, sizes)
                if found is not None:
                    others = replace(each, addends=tuple(other for other in each.addends if other != addend))
                    return self._unfolded(sizes, plus(others, found))
            table = self.leaves.integers.get(content.leaf) if isinstance(content, Read) and not addend.formula.guards else None
            if table is not None and isinstance(content, Read) and (content.at.addends or content.at.fixed):
                found = self._strides_of(table, sizes, content.at) if len(pieces) == 1 else None
                if found is not None:
                    found = scaled(found, pieces[0].slope, pieces[0].constant)
                else:
                    found = self._function_of(table, content.at, addend.function)
                if found is not None:
                    others = replace(each, addends=tuple(other for other in each.addends if other != addend))
                    return self._unfolded(sizes, plus(others, found))
        return each

    @staticmethod
    def _function_of(table: Integers, at: Sum, function: IndexFunction) -> Sum | None:
        """The function of what a small table holds at an address that depends on one index alone."""
        if not at.fixed or len(at.addends) != 1 or len(table) > MOST_PIECES:
            return None
        (addend,) = at.addends
        held = IndexFunction(tuple(Piece(place, place, 0, value) for place, value in enumerate(table.tolist())))
        found = addend.function.scaled(1, at.offset).then(held).then(function)
        return total(0, at.strides, [Addend(found, addend.formula)])

    def _through(self, function: IndexFunction, inner: Sum, sizes: Sequence[int]) -> Sum | None:
        """The function of a sum as a sum itself, where it is one."""
        if inner.fixed and len(inner.addends) < 2:
            if not inner.addends:
                result = function(inner.offset)
                return None if result is None else Sum(result, inner.strides)
            (addend,) = inner.addends
            return total(0, inner.strides, [Addend(addend.function.scaled(1, inner.offset).then(function), addend.formula)])
        low, high = self.tables.span(inner, sizes)
        inside = function.restricted(((low, high),))
        if len(inside.pieces) == 1 and inside.domain == ((low, high),):
            return scaled(inner, inside.pieces[0].slope, inside.pieces[0].constant)
        return None

    def _strides_of(self, table: Integers, sizes: Sequence[int], at: Sum) -> Sum | None:
        """What a table holds at an address that depends on indices, where that is a sum of what the address is the sum of."""
        low, indices = walked(at)
        ends = [addend.function.high + 1 for addend, _ in indices]
        along = [size if stride else 1 for size, stride in zip(sizes, at.strides, strict=True)]
        if prod(along) * prod(ends) > MOST_POINTS:
            return None
        places = grid([*along, *ends])
        address = strided(Sum(low, (*at.strides, *(factor for _, factor in indices))), places)
        if int(address.min()) < 0 or int(address.max()) >= len(table):
            return None
        try:
            found = self.tables.table(table[address])
        except OverflowError:
            return None
        if found.addends:
            return None
        steps, factors = found.strides[: len(sizes)], found.strides[len(sizes) :]
        moves = [
            Addend(addend.function.scaled(factor), addend.formula) for (addend, _), factor in zip(indices, factors, strict=True)
        ]
        return total(found.offset, steps, moves)

    def _coordinates(self, tensor: SymbolicTensor, sizes: tuple[int, ...], at: Sum) -> Coordinates | None:
        """The coordinates in a tensor of each point, where they are known and few; else None."""
        points = prod(sizes)
        addresses = self.tables.known(at, grid(sizes)) if points <= MOST_POINTS else None
        if addresses is None:
            return None
        return np.unravel_index(np.broadcast_to(addresses, sizes).reshape(points), tensor.sizes)

    def _seen_through(self, sizes: tuple[int, ...], formula: Formula) -> Pointed:
        """The formula; of a part of a concatenation, where it reads nothing else of it."""
        content = formula.content
        joined = self.leaves.concatenations.get(content.leaf) if isinstance(content, Read) else None
        if joined is None or not isinstance(content, Read):
            return sizes, formula
        way = unsplit_course(content.at, sizes, (joined.outer, sum(joined.lengths), joined.inner))
        if way is None:
            return sizes, formula
        low, high = self.tables.span(way.along(1), sizes)
        ends = accumulate(joined.lengths)
        for tensor, length, end in zip(joined.tensors, joined.lengths, ends, strict=True):
            if end - length <= low and high < end:
                rows = plus(scaled(way.along(0), length), scaled(way.along(1), 1, length - end))
                found, inner = self.read(tensor, sizes, plus(scaled(rows, joined.inner), way.along(2)), content.leaf.what)
                finer = finest(sizes, found)
                if finer is not None:
                    guards = split(formula, sizes, finer).guards
                    return finer, guarded(split(inner, found, finer), guards)
        return sizes, formula

    def identity(self, formula: Formula, sizes: Sequence[int]) -> IndexFunction:
        """The integers that a formula gives, as they are: defined for those that it can give where the program does not raise."""
        function = IndexFunction.identity(*self.tables.value_range(formula, sizes))
        allowed = self.checks.known_of(formula, tuple(sizes))
        return function if allowed is None else function.restricted(allowed)

    def as_sum(self, formula: Formula, sizes: Sequence[int]) -> Sum:
        """The integers that a formula gives as a sum."""
        if isinstance(formula.content, Sum) and not formula.guards:
            return formula.content
        return total(0, (0,) * len(sizes), [Addend(self.identity(formula, sizes), formula)])

    def aligned(self, pointed: Sequence[Pointed], step: str) -> tuple[tuple[int, ...], list[Formula]]:
        """The formulas over the same sizes. All have the same number of points."""
        sizes = finest(*(each for each, _ in pointed))
        if sizes is None:
            pointed = [self._flat(*each, step) for each in pointed]
            sizes = pointed[0][0]
        return sizes, [split(formula, own, sizes) for own, formula in pointed]

    def _flat(self, sizes: tuple[int, ...], formula: Formula, step: str) -> Pointed:
        """The formula over one dimension."""
        points = prod(sizes)
        tensor = SymbolicTensor(sizes, formula, np.dtype(np.int64))
        if points <= MOST_POINTS:
            return (points,), self.tables.at_places(formula, self._coordinates(tensor, (points,), Sum(0, (1,))) or ())
        leaf = self.leaves.tensor(merged(tensor), f"what {step} reads")
        self.stops.setdefault(leaf.number, (step, "its operands are walked by dimensions that do not fit together"))
        return (points,), whole_leaf(leaf)

    def as_function(self, each: Sum, sizes: Sequence[int]) -> tuple[IndexFunction, Formula] | None:
        """A sum as a function of what one formula gives; None for a constant."""
        if not each.fixed or len(each.addends) > 1:
            low, high = self.tables.span(replace(each, offset=0), sizes)
            return IndexFunction.identity(low, high).scaled(1, each.offset), Formula(replace(each, offset=0))
        if not each.addends:
            return None
        (addend,) = each.addends
        return addend.function.scaled(1, each.offset), addend.formula

    def looked_up(self, function: IndexFunction, formula: Formula, sizes: Sequence[int]) -> tuple[Sum, Refusal | None]:
        """The function of the integers that a formula gives, and for which of them it is defined, where that is not for all."""
        each = self.as_sum(formula, sizes)
        if not each.fixed or len(each.addends) != 1:
            low, high = self.tables.span(each, sizes)
            inside = function.restricted(((low, high),))
            if len(inside.pieces) == 1 and inside.domain == ((low, high),):
                return scaled(each, inside.pieces[0].slope, inside.pieces[0].constant), None
            values = self.tables.known_over(Formula(each), sizes)
            results = None if values is None else applied(function, values)
            if results is not None:
                return self.tables.table(results), None
        inner, source = self.as_function(each, sizes) or (
            IndexFunction.constant(each.offset, 0, 0),
            Formula(Sum(0, each.strides)),
        )
        found = inner.then(function)
        refusal = None if found.domain == inner.domain else (source, found.domain)
        return total(0, (0,) * len(sizes), [Addend(found, source)]), refusal

    def constant(self, formula: Formula, sizes: Sequence[int], dtype: np.dtype[Any]) -> int | bytes | None:
        """The element that a formula gives at every point, as a guard has it; None where it is not known, or not one."""
        if not formula.guards and not all(leaf.kind in MAY_BE_KNOWN for leaf in leaves_of(formula)):
            return None
        part = self.parts.parts(SymbolicTensor(tuple(sizes), formula, dtype))
        if not part or len(part) > 1 or part[0].formula not in (KNOWN, Formula(Sum(0, ()))):
            return None
        (elements,) = part[0].numbers
        if (elements != elements[:1]).any():
            return None
        return int(elements[0]) if elements.ndim == 1 else elements[0].tobytes()
