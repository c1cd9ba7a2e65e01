"""Trial values for the unknown sizes of a node, and the conditions under which the verdict holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.size_search import Constraint, Crossing, SizeSearch, Values, constraints_of
from dmlgather.onnx_checking.sizes.sliced_axes import SlicedAxis, nonempty

Named = tuple[KnownSize, ...]
"""A shape whose unknown sizes have names: names of the model, or "data[0]" for a size without a name."""

MOST_UNIT = 64
"""For units up to this one, a multiple is always found."""

MOST_COMBINATIONS = 16
"""The most combinations of signs of bounds that are tried."""


@dataclass(frozen=True)
class NodeSizes:
    """The sizes of a node, and the constraints on them. `shapes`: of the inputs, by role. `axes`: the sliced axes. `orders`:
    pairs of sizes; the operator requires that the first is at most the second. `units`: the number of which a size must be a
    multiple. `least`: the minimum of a size, because of constant indices.
    """

    sizes: Sizes
    shapes: Mapping[str, Named]
    axes: Sequence[SlicedAxis] = ()
    orders: Sequence[tuple[KnownSize, KnownSize]] = ()
    units: Mapping[KnownSize, int] = field(default_factory=dict)
    least: Mapping[KnownSize, int] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[KnownSize]:
        """Return the sizes of all shapes, each once."""
        return list(dict.fromkeys(chain.from_iterable(self.shapes.values())))

    @property
    def bounds(self) -> list[KnownSize]:
        """Return the bounds of all axes."""
        return [bound for axis in self.axes for bound in (axis.start, axis.end)]

    @property
    def symbols(self) -> list[str]:
        """Return the symbols in sizes and bounds, in order of first occurrence."""
        symbols = (sorted(self.sizes.symbols(size)) for size in (*self.dimensions, *self.bounds))
        return list(dict.fromkeys(chain.from_iterable(symbols)))

    def concrete(self, shape: Named, values: Values) -> tuple[int, ...]:
        """Return a shape with numbers for its names."""
        return tuple(self.sizes.at(size, values) for size in shape)


@dataclass(frozen=True)
class TrialSizes:
    """Values of a node's symbols to judge the node with, ordinary ones first. `provided`: the conditions that they meet, under
    which no tensor is empty. `possible`: True if such values exist. False: none exist, and the only trial shows why. None: none
    were found, but some may exist.
    """

    values: list[dict[str, int]]
    provided: Conditions
    possible: bool | None = True


def named(role: str, shape: Sequence[KnownSize | None]) -> Named:
    """Return the shape of an input with a name for each unnamed size."""
    return tuple(f"{role}[{axis}]" if size is None else size for axis, size in enumerate(shape))


def trial_sizes(node: NodeSizes, clamped: bool = False) -> TrialSizes:
    """Return values that show everything that DirectML may do with a node: ordinary ones, values that make a difference to
    DirectML, and the smallest. `clamped`: bounds that depend on sizes may lie outside their axes, where they are clamped.
    Otherwise they lie within their axes if they can.
    """
    any_sizes, nonempty_inputs, rules = _any_sizes(node), _nonempty_inputs(node), _rules(node)
    for within in (False,) if clamped else (True, False):
        combinations = _sign_combinations(node, nonempty_inputs, within)
        for conditions in combinations:
            search = _Search(node, conditions.joined(rules))
            smallest = search.first()
            if smallest is not None:
                possible = None if conditions.unstated or search.may_miss(smallest) else True
                return TrialSizes([*search.different(), smallest], conditions.solved(), possible)
    tightened = (conditions.joined(rules).tightened() for conditions in combinations)
    never = len(combinations) < MOST_COMBINATIONS and all(ranges is None for ranges in tightened)
    for conditions in (nonempty_inputs.joined(rules), rules, nonempty_inputs.joined(any_sizes), any_sizes):
        shown = _Search(node, conditions).first()
        if shown is not None:
            return TrialSizes([shown], Conditions(node.sizes), False if never else None)
    return TrialSizes([], Conditions(node.sizes), None)


def _nonempty_inputs(node: NodeSizes) -> Conditions:
    conditions = Conditions(node.sizes)
    for size in node.dimensions:
        conditions.require((size,), (), max(node.units.get(size, 1), node.least.get(size, 1)))
    return conditions


def _any_sizes(node: NodeSizes) -> Conditions:
    """Return the conditions that sizes are not negative, and not too large for DirectML."""
    conditions = Conditions(node.sizes)
    for size in node.dimensions:
        if isinstance(size, str):
            conditions.require((size,), ())
            conditions.require((ELEMENT_LIMIT,), (size,))
    return conditions


def _rules(node: NodeSizes) -> Conditions:
    """Return the operator's conditions on the sizes of its inputs."""
    rules = _any_sizes(node)
    for small, large in node.orders:
        rules.require((large,), (small,))
    return rules


def _sign_combinations(node: NodeSizes, nonempty_inputs: Conditions, within: bool) -> list[Conditions]:
    """Return the conditions for nonempty tensors, one set for each combination of the bounds' signs. `within`: as for
    `nonempty`.
    """
    combinations = [nonempty_inputs]
    for axis in node.axes:
        combinations = [each for common in combinations for each in nonempty(axis, common, within)][:MOST_COMBINATIONS]
    return combinations


class _Search:
    """A search for values that meet conditions and do not make a tensor too large for DirectML."""

    def __init__(self, node: NodeSizes, conditions: Conditions) -> None:
        ranges = conditions.tightened()
        self.node, self.possible = node, ranges is not None
        self.search = SizeSearch(node.sizes, node.symbols, ranges or {}, ELEMENT_LIMIT)
        self.constraints = [*constraints_of(conditions), *self._values(), *self._units()]

    def first(self, *more: Constraint) -> dict[str, int] | None:
        """Return the first values that also meet these constraints."""
        return self.search.first([*self.constraints, *more]) if self.possible else None

    def different(self) -> list[dict[str, int]]:
        """Return trials that together meet every constraint that a trial can meet. The first trial meets as many as possible,
        the second as many as possible of the rest, and so on.
        """
        trials: list[dict[str, int]] = []
        wanted = [*self._several(), *chain.from_iterable(axis.constraints(self.node.sizes) for axis in self.node.axes)]
        smallest = self.first()
        wanted += [candidate for candidate in self._single() if smallest is None or not candidate.by(smallest)]
        wanted = [candidate for candidate in wanted if candidate.symbols and self._small(self.first(candidate))]
        for constraint in wanted:
            if any(constraint.by(values) for values in trials):
                continue
            together: list[Constraint] = []
            best: dict[str, int] = {}
            for candidate in (constraint, *wanted):
                values = best if best and candidate.by(best) else self.first(*together, candidate)
                if values is not None and self._small(values):
                    together, best = [*together, candidate], values
            trials += [best] if best else []
        return trials

    def may_miss(self, smallest: Values) -> bool:
        """Return True if the smallest values found are too large for DirectML, but smaller ones may exist."""
        return not self._small(smallest) and any(smallest[symbol] > low for symbol, low in self.search.lows.items())

    def _several(self) -> Iterator[Constraint]:
        """Yield, per dimension, the constraint that it has more than one element or block."""
        for size in self.node.dimensions:
            yield self._at_least(size, 2 * self.node.units.get(size, 1))

    def _single(self) -> Iterator[Constraint]:
        """Yield, per dimension, the constraint that it has one element or block. The smallest values of symbols need not meet
        them.
        """
        sizes = self.node.sizes
        for size in self.node.dimensions:
            unit = self.node.units.get(size, 1)
            met = partial(_is_at_most, sizes, size, unit)
            yield Constraint(sizes.symbols(size), met, (Crossing((size,), (), unit),))

    def _at_least(self, size: KnownSize, least: int) -> Constraint:
        sizes = self.node.sizes
        return Constraint(sizes.symbols(size), lambda values: sizes.at(size, values) >= least, (Crossing((size,), (), least),))

    def _units(self) -> Iterator[Constraint]:
        sizes = self.node.sizes
        for size, unit in self.node.units.items():
            symbols = sizes.symbols(size)
            crossings = [Crossing((size,), (), times * unit) for times in (1, 2, 3)]
            # Among `unit` consecutive values of a symbol, one makes every multiple of the symbol a multiple of the unit.
            # Each crossing at `value` tries the values from value - 1 to value + 2, so every third suffices.
            crossings += [
                Crossing((symbol,), (), value) for symbol in sorted(symbols) for value in range(1, min(unit, MOST_UNIT) + 1, 3)
            ]
            yield Constraint(symbols, partial(_is_multiple, sizes, size, unit), tuple(crossings))

    def _values(self) -> Iterator[Constraint]:
        """Yield, per size, the constraint that it has a value: nothing is divided by 0."""
        sizes = self.node.sizes
        for size in (*self.node.dimensions, *self.node.bounds):
            if sizes.linear(size) is None:
                yield Constraint(sizes.symbols(size), partial(_has_value, sizes, size))

    def _small(self, values: Values | None) -> bool:
        """Return True if no input has more elements than DirectML can describe."""
        return values is not None and all(
            math.prod(self.node.concrete(shape, values)) <= ELEMENT_LIMIT for shape in self.node.shapes.values()
        )


def _is_at_most(sizes: Sizes, size: KnownSize, most: int, values: Values) -> bool:
    return sizes.at(size, values) <= most


def _is_multiple(sizes: Sizes, size: KnownSize, unit: int, values: Values) -> bool:
    return sizes.at(size, values) % unit == 0


def _has_value(sizes: Sizes, size: KnownSize, values: Values) -> bool:
    sizes.at(size, values)
    return True
