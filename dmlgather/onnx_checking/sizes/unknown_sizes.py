"""Numbers for a node's unknown sizes while it is checked, and the conditions under which the result holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, starmap
from operator import ge, le

from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.size_search import Constraint, Crossing, SizeSearch, Values, constraint_on, constraints_of
from dmlgather.onnx_checking.sizes.sliced_axes import SlicedAxis, nonempty

Named = tuple[KnownSize, ...]
"""A shape in which unnamed sizes have names such as "data[0]"."""

MOST_UNIT = 64
"""If a size must be a multiple of at most this number, the search certainly finds one."""

MOST_COMBINATIONS = 16
"""Limit of combinations of positive and negative slice bounds to try."""


@dataclass(frozen=True)
class NodeSizes:
    """The sizes in a node's inputs, and what the operator requires of them.
    `orders`: pairs of sizes; the first must not exceed the second.
    `units`: sizes that must be multiples of a number, such as the block size.
    `least`: minimums that constant indices require. Index 5 requires 6.
    """

    sizes: Sizes
    shapes: Mapping[str, Named]
    axes: Sequence[SlicedAxis] = ()
    orders: Sequence[tuple[KnownSize, KnownSize]] = ()
    units: Mapping[KnownSize, int] = field(default_factory=dict)
    least: Mapping[KnownSize, int] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[KnownSize]:
        """Return the different sizes of all inputs."""
        return list(dict.fromkeys(chain.from_iterable(self.shapes.values())))

    @property
    def bounds(self) -> list[KnownSize]:
        """Return the start and end of each sliced axis."""
        return [bound for axis in self.axes for bound in (axis.start, axis.end)]

    @property
    def symbols(self) -> list[str]:
        """Return the symbols in sizes and bounds, in order of first occurrence."""
        symbols = (sorted(self.sizes.symbols(size)) for size in (*self.dimensions, *self.bounds))
        return list(dict.fromkeys(chain.from_iterable(symbols)))

    def concrete(self, shape: Named, values: Values) -> tuple[int, ...]:
        """Return a shape with numbers in place of symbols."""
        return tuple(self.sizes.at(size, values) for size in shape)


@dataclass(frozen=True)
class TrialSizes:
    """Trials: sets of numbers for a node's unknown sizes, to check the node with. The smallest numbers come last.
    `provided`: the conditions that all trials meet. They imply that no tensor is empty.
    `possible`: False if no sizes meet all conditions. The only trial then breaks one, to show the fault. None: not known.
    """

    values: list[dict[str, int]]
    provided: Conditions
    possible: bool | None = True


def named(role: str, shape: Sequence[KnownSize | None]) -> Named:
    """Name the unnamed sizes in a shape: "data[0]"."""
    return tuple(f"{role}[{axis}]" if size is None else size for axis, size in enumerate(shape))


def trial_sizes(node: NodeSizes, clamped: bool = False) -> TrialSizes:
    """Choose numbers for a node's unknown sizes, so that every case of DirectML occurs.
    `clamped`: True if slice bounds may lie outside their axes.
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
    for conditions in (nonempty_inputs.joined(rules), nonempty_inputs.joined(any_sizes), rules, any_sizes):
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
    """Require that each size lies between 0 and DirectML's largest size."""
    conditions = Conditions(node.sizes)
    for size in node.dimensions:
        if isinstance(size, str):
            conditions.require((size,), ())
            conditions.require((ELEMENT_LIMIT,), (size,))
    return conditions


def _rules(node: NodeSizes) -> Conditions:
    rules = _any_sizes(node)
    for small, large in node.orders:
        rules.require((large,), (small,))
    return rules


def _sign_combinations(node: NodeSizes, nonempty_inputs: Conditions, within: bool) -> list[Conditions]:
    """Return one set of conditions for each combination of signs of slice bounds. Each set implies that no tensor is empty."""
    combinations = [nonempty_inputs]
    for axis in node.axes:
        combinations = [each for common in combinations for each in nonempty(axis, common, within)][:MOST_COMBINATIONS]
    return combinations


class _Search:
    def __init__(self, node: NodeSizes, conditions: Conditions) -> None:
        ranges = conditions.tightened()
        self.node, self.possible = node, ranges is not None
        self.search = SizeSearch(node.sizes, node.symbols, ranges or {}, ELEMENT_LIMIT)
        nonlinear = (size for size in (*node.dimensions, *node.bounds) if node.sizes.linear(size) is None)
        have_values = (constraint_on(node.sizes, size, lambda _: True) for size in nonlinear)  # no division by 0
        self.constraints = [*constraints_of(conditions), *have_values, *starmap(self._is_multiple, node.units.items())]

    def first(self, *more: Constraint) -> dict[str, int] | None:
        return self.search.first([*self.constraints, *more]) if self.possible else None

    def different(self) -> list[dict[str, int]]:
        """Return trials for all cases that DirectML may treat differently. Each trial covers as many new cases as possible."""
        trials: list[dict[str, int]] = []
        sizes, units = self.node.sizes, {size: self.node.units.get(size, 1) for size in self.node.dimensions}
        # Try sizes of several elements or blocks, and of one. The smallest values of the symbols may give more than one.
        several = [constraint_on(sizes, size, partial(le, 2 * unit), 2 * unit) for size, unit in units.items()]
        single = [constraint_on(sizes, size, partial(ge, unit), unit) for size, unit in units.items()]
        wanted = [*several, *chain.from_iterable(axis.constraints(sizes) for axis in self.node.axes)]
        smallest = self.first()
        wanted += [candidate for candidate in single if smallest is None or not candidate.by(smallest)]
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
        """Return True if `smallest` is too large for DirectML, but smaller sizes may exist that the search missed."""
        return not self._small(smallest) and any(smallest[symbol] > each.low for symbol, each in self.search.ranges.items())

    def _is_multiple(self, size: KnownSize, unit: int) -> Constraint:
        of_size = constraint_on(self.node.sizes, size, lambda value: value % unit == 0, unit, 2 * unit, 3 * unit)
        # One of `unit` consecutive values is a multiple of the unit. Crossings at every third value suffice, because the search
        # tries the values from value - 1 to value + 2 of each crossing.
        values = range(1, min(unit, MOST_UNIT) + 1, 3)
        of_symbols = (Crossing((symbol,), (), value) for symbol in sorted(of_size.symbols) for value in values)
        return replace(of_size, crossings=(*of_size.crossings, *of_symbols))

    def _small(self, values: Values | None) -> bool:
        """Return True if no input is too large for DirectML."""
        return values is not None and all(
            math.prod(self.node.concrete(shape, values)) <= ELEMENT_LIMIT for shape in self.node.shapes.values()
        )
