"""Sizes to judge a node with where its model does not give them, and the conditions under which the verdict holds."""

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
"""A shape whose unknown sizes have names: sizes of the model, or "data[0]" where it has no name for one."""

MOST_UNIT = 64
"""Up to this unit, a multiple of it is surely found."""

MOST_COMBINATIONS = 16
"""Combinations of the signs of bounds that are looked at."""


@dataclass(frozen=True)
class NodeSizes:
    """What is known of the sizes of a node.

    shapes: of the inputs, by role. axes: those that are sliced. orders: pairs of sizes of which the operator requires that the
    first is at most the second. units: what sizes must be multiples of. least: what sizes must be at least because of constant
    indices.
    """

    sizes: Sizes
    shapes: Mapping[str, Named]
    axes: Sequence[SlicedAxis] = ()
    orders: Sequence[tuple[KnownSize, KnownSize]] = ()
    units: Mapping[KnownSize, int] = field(default_factory=dict)
    least: Mapping[KnownSize, int] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[KnownSize]:
        """The sizes of all shapes, each once."""
        return list(dict.fromkeys(chain.from_iterable(self.shapes.values())))

    @property
    def bounds(self) -> list[KnownSize]:
        """The bounds of all axes."""
        return [bound for axis in self.axes for bound in (axis.start, axis.end)]

    @property
    def symbols(self) -> list[str]:
        """The symbols in sizes and bounds, in the order in which they are met."""
        known = (sorted(self.sizes.symbols(size)) for size in (*self.dimensions, *self.bounds))
        return list(dict.fromkeys(chain.from_iterable(known)))

    def concrete(self, shape: Named, values: Values) -> tuple[int, ...]:
        """A shape with numbers for its names."""
        return tuple(self.sizes.at(size, values) for size in shape)


@dataclass(frozen=True)
class TrialSizes:
    """Values of a node's symbols to judge it with, ordinary ones first.

    provided: the conditions that they meet, under which no tensor is empty. possible: whether such values exist; if not, the only
    trial shows why. None where none were found, although there may be some.
    """

    values: list[dict[str, int]]
    provided: Conditions
    possible: bool | None = True


def named(role: str, shape: Sequence[KnownSize | None]) -> Named:
    """The shape of an input with a name for each size that has none."""
    return tuple(f"{role}[{axis}]" if size is None else size for axis, size in enumerate(shape))


def trial_sizes(node: NodeSizes, cut: bool = False) -> TrialSizes:
    """Values that show all that DirectML may make of a node: ordinary ones, those that make differences that the ordinary ones do
    not make, and the smallest.

    cut: whether bounds that depend on sizes may lie outside their axes, where they are cut off. Otherwise they may only if they
    have to.
    """
    any_sizes, nonempty_inputs, rules = _any_sizes(node), _nonempty_inputs(node), _rules(node)
    for within in (False,) if cut else (True, False):
        combinations = _sign_combinations(node, nonempty_inputs, within)
        for each in combinations:
            search = _Search(node, each.joined(rules))
            smallest = search.first()
            if smallest is not None:
                possible = None if each.unstated or search.may_miss(smallest) else True
                return TrialSizes([*search.different(), smallest], each.solved(), possible)
    never = len(combinations) < MOST_COMBINATIONS and all(each.joined(rules).tightened() is None for each in combinations)
    for each in (nonempty_inputs.joined(rules), rules, nonempty_inputs.joined(any_sizes), any_sizes):
        shown = _Search(node, each).first()
        if shown is not None:
            return TrialSizes([shown], Conditions(node.sizes), False if never else None)
    return TrialSizes([], Conditions(node.sizes), None)


def _nonempty_inputs(node: NodeSizes) -> Conditions:
    conditions = Conditions(node.sizes)
    for size in node.dimensions:
        conditions.require((size,), (), max(node.units.get(size, 1), node.least.get(size, 1)))
    return conditions


def _any_sizes(node: NodeSizes) -> Conditions:
    """That sizes are sizes, and such that DirectML can describe them."""
    conditions = Conditions(node.sizes)
    for size in node.dimensions:
        if isinstance(size, str):
            conditions.require((size,), ())
            conditions.require((ELEMENT_LIMIT,), (size,))
    return conditions


def _rules(node: NodeSizes) -> Conditions:
    """What the operator requires of the sizes of its inputs."""
    rules = _any_sizes(node)
    for small, large in node.orders:
        rules.require((large,), (small,))
    return rules


def _sign_combinations(node: NodeSizes, nonempty_inputs: Conditions, within: bool) -> list[Conditions]:
    """The conditions under which no tensor is empty, for each combination of the signs of bounds. within: as `nonempty`."""
    combinations = [nonempty_inputs]
    for axis in node.axes:
        combinations = [each for given in combinations for each in nonempty(axis, given, within)][:MOST_COMBINATIONS]
    return combinations


class _Search:
    """A search for values under conditions, all of which have tensors that DirectML can describe."""

    def __init__(self, node: NodeSizes, conditions: Conditions) -> None:
        ranges = conditions.tightened()
        self.node, self.possible = node, ranges is not None
        self.search = SizeSearch(node.sizes, node.symbols, ranges or {}, ELEMENT_LIMIT)
        self.constraints = [*constraints_of(conditions), *self._values(), *self._units()]

    def first(self, *more: Constraint) -> dict[str, int] | None:
        """The first values that meet these constraints as well."""
        return self.search.first([*self.constraints, *more]) if self.possible else None

    def different(self) -> list[dict[str, int]]:
        """Values that together meet each constraint that can be met: the first as many as possible, and so on."""
        found: list[dict[str, int]] = []
        wanted = [*self._several(), *chain.from_iterable(axis.constraints(self.node.sizes) for axis in self.node.axes)]
        smallest = self.first()
        wanted += [each for each in self._single() if smallest is None or not each.by(smallest)]
        wanted = [each for each in wanted if each.symbols and self._small(self.first(each))]
        for one in wanted:
            if any(one.by(values) for values in found):
                continue
            met: list[Constraint] = []
            best: dict[str, int] = {}
            for each in (one, *wanted):
                values = best if best and each.by(best) else self.first(*met, each)
                if values is not None and self._small(values):
                    met, best = [*met, each], values
            found += [best] if best else []
        return found

    def may_miss(self, smallest: Values) -> bool:
        """Whether the smallest values that were found are too large for DirectML, and smaller ones may exist."""
        return not self._small(smallest) and any(smallest[each] > low for each, low in self.search.lows.items())

    def _several(self) -> Iterator[Constraint]:
        """More than one element, or block, in each dimension."""
        for size in self.node.dimensions:
            yield self._at_least(size, 2 * self.node.units.get(size, 1))

    def _single(self) -> Iterator[Constraint]:
        """One element, or block, in each dimension, which the smallest values of symbols need not give."""
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
            # Of as many values as the unit has, one makes any multiple of a symbol a multiple of the unit.
            crossings += [
                Crossing((symbol,), (), more) for symbol in sorted(symbols) for more in range(1, min(unit, MOST_UNIT) + 1, 3)
            ]
            yield Constraint(symbols, partial(_is_multiple, sizes, size, unit), tuple(crossings))

    def _values(self) -> Iterator[Constraint]:
        """Each size has a value: nothing is divided by 0."""
        sizes = self.node.sizes
        for size in (*self.node.dimensions, *self.node.bounds):
            if sizes.linear(size) is None:
                yield Constraint(sizes.symbols(size), partial(_has_value, sizes, size))

    def _small(self, values: Values | None) -> bool:
        """Whether no input has more elements than DirectML can describe."""
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
