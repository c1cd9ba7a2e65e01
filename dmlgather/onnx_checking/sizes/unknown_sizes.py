"""Numbers that stand in for the unknown sizes of a node while the node is checked, and the conditions under which the result of
the check holds.
"""

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
"""A shape in which each size is a number or a text. A size without a name in the model is named after its input and dimension,
for example "data[0]".
"""

MOST_UNIT = 64
"""If a size must be a multiple of a unit up to this number, the search certainly finds a multiple. For a larger unit, it may
find none.
"""

MOST_COMBINATIONS = 16
"""The most combinations of positive and negative slice bounds that are tried for a node."""


@dataclass(frozen=True)
class NodeSizes:
    """The sizes in a node's inputs, and what the operator requires of them. `shapes`: the shape of each input, by the
    operator's name for the input. `axes`: for a slice, the axes that it slices. `orders`: pairs of sizes; the first must not
    exceed the second. `units`: the number that a size must be a multiple of, for example the block size. `least`: the minimum
    that constant indices require of a size; index 5 requires at least 6.
    """

    sizes: Sizes
    shapes: Mapping[str, Named]
    axes: Sequence[SlicedAxis] = ()
    orders: Sequence[tuple[KnownSize, KnownSize]] = ()
    units: Mapping[KnownSize, int] = field(default_factory=dict)
    least: Mapping[KnownSize, int] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[KnownSize]:
        """Return the sizes of all inputs, without repetitions."""
        return list(dict.fromkeys(chain.from_iterable(self.shapes.values())))

    @property
    def bounds(self) -> list[KnownSize]:
        """Return the start and the end of each sliced axis."""
        return [bound for axis in self.axes for bound in (axis.start, axis.end)]

    @property
    def symbols(self) -> list[str]:
        """Return the symbols in the sizes and the bounds, in order of first occurrence."""
        symbols = (sorted(self.sizes.symbols(size)) for size in (*self.dimensions, *self.bounds))
        return list(dict.fromkeys(chain.from_iterable(symbols)))

    def concrete(self, shape: Named, values: Values) -> tuple[int, ...]:
        """Evaluate a shape. `values`: a number for each symbol."""
        return tuple(self.sizes.at(size, values) for size in shape)


@dataclass(frozen=True)
class TrialSizes:
    """Numbers for the unknown sizes of a node, to check the node with them. `values`: for each trial, a number for each symbol.
    Trials with several elements per dimension come first, the smallest sizes last. `provided`: the conditions that all trials
    meet; under them, no tensor is empty. `possible`: True if some sizes meet the conditions. False if none do; then there is
    one trial, and checking it shows the fault. None if no such sizes were found, but some may exist.
    """

    values: list[dict[str, int]]
    provided: Conditions
    possible: bool | None = True


def named(role: str, shape: Sequence[KnownSize | None]) -> Named:
    """Name the unnamed sizes in the shape of an input after the input, for example "data[0]". `role`: the operator's name for
    the input.
    """
    return tuple(f"{role}[{axis}]" if size is None else size for axis, size in enumerate(shape))


def trial_sizes(node: NodeSizes, clamped: bool = False) -> TrialSizes:
    """Choose numbers for the unknown sizes of a node, so that the trials together show everything that DirectML may do with it.
    There are trials with several elements per dimension, with other cases that DirectML treats differently, such as a slice
    that takes all elements, and with the smallest sizes. `clamped`: True if symbolic bounds of a slice may lie outside their
    axes, where they are clamped. If False, they lie within their axes where possible.
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
    """Return the conditions that no size is negative, and that none exceeds the largest size in DirectML."""
    conditions = Conditions(node.sizes)
    for size in node.dimensions:
        if isinstance(size, str):
            conditions.require((size,), ())
            conditions.require((ELEMENT_LIMIT,), (size,))
    return conditions


def _rules(node: NodeSizes) -> Conditions:
    """Return the conditions of `_any_sizes` and the conditions that the operator puts on the sizes of its inputs."""
    rules = _any_sizes(node)
    for small, large in node.orders:
        rules.require((large,), (small,))
    return rules


def _sign_combinations(node: NodeSizes, nonempty_inputs: Conditions, within: bool) -> list[Conditions]:
    """Return the conditions under which no tensor is empty. There is one set of conditions for each combination of positive and
    negative slice bounds. `within`: True to require that symbolic bounds lie within their axes.
    """
    combinations = [nonempty_inputs]
    for axis in node.axes:
        combinations = [each for common in combinations for each in nonempty(axis, common, within)][:MOST_COMBINATIONS]
    return combinations


class _Search:
    """A search for numbers that meet the conditions on a node's sizes."""

    def __init__(self, node: NodeSizes, conditions: Conditions) -> None:
        ranges = conditions.tightened()
        self.node, self.possible = node, ranges is not None
        self.search = SizeSearch(node.sizes, node.symbols, ranges or {}, ELEMENT_LIMIT)
        nonlinear = (size for size in (*node.dimensions, *node.bounds) if node.sizes.linear(size) is None)
        have_values = (constraint_on(node.sizes, size, lambda _: True) for size in nonlinear)  # no division by 0
        self.constraints = [*constraints_of(conditions), *have_values, *starmap(self._is_multiple, node.units.items())]

    def first(self, *more: Constraint) -> dict[str, int] | None:
        """Return the smallest values that meet the conditions and the constraints in `more`. Return None if none are found."""
        return self.search.first([*self.constraints, *more]) if self.possible else None

    def different(self) -> list[dict[str, int]]:
        """Return trials that together show all cases that DirectML may treat differently: axes of one or several elements, and
        the cases of `SlicedAxis.constraints`. The first trial covers as many cases as possible. The second covers as many of
        the others as possible, and so on.
        """
        trials: list[dict[str, int]] = []
        sizes, units = self.node.sizes, {size: self.node.units.get(size, 1) for size in self.node.dimensions}
        # Sizes of several elements or blocks, and of one. The smallest values of symbols need not give the latter.
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
        """Return True if the smallest values that were found make a tensor too large for DirectML, but smaller values may
        exist.
        """
        return not self._small(smallest) and any(smallest[symbol] > each.low for symbol, each in self.search.ranges.items())

    def _is_multiple(self, size: KnownSize, unit: int) -> Constraint:
        of_size = constraint_on(self.node.sizes, size, lambda value: value % unit == 0, unit, 2 * unit, 3 * unit)
        # Among `unit` consecutive values of a symbol, one makes every multiple of the symbol a multiple of the unit.
        # A crossing at `value` tries the values from value - 1 to value + 2, so every third value has a crossing.
        values = range(1, min(unit, MOST_UNIT) + 1, 3)
        of_symbols = (Crossing((symbol,), (), value) for symbol in sorted(of_size.symbols) for value in values)
        return replace(of_size, crossings=(*of_size.crossings, *of_symbols))

    def _small(self, values: Values | None) -> bool:
        """Return True if no input has more elements than a tensor in DirectML can have."""
        return values is not None and all(
            math.prod(self.node.concrete(shape, values)) <= ELEMENT_LIMIT for shape in self.node.shapes.values()
        )
