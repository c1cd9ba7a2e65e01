"""Search for numbers in place of symbols so that constraints hold. Small numbers are tried first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.ranges import ANY, Range

MOST_STEPS, MOST_STEPS_OF_ALL = 200, 1000
"""Step limits of one search, and of all. A step fixes one symbol."""

MOST_ROOTS = 300
"""Limit of crossings to solve. Beyond it, no values near a crossing are tried."""

SMALL = (0, 2, 7)
"""Added to the minimum of a symbol without a value, while a crossing is solved for another symbol."""

Values = Mapping[str, int]


@dataclass(frozen=True)
class Crossing:
    """A boundary where sum(left) - sum(right) - offset changes its sign: left N, right M and offset 1 for "N >= M + 1"."""

    left: tuple[KnownSize, ...]
    right: tuple[KnownSize, ...]
    offset: int = 0

    def symbols(self, sizes: Sizes) -> frozenset[str]:
        """Return the symbols on both sides."""
        return frozenset(chain.from_iterable(map(sizes.symbols, (*self.left, *self.right))))

    def is_sum(self, sizes: Sizes) -> bool:
        """Return True if both sides are linear in their symbols."""
        return all(sizes.linear(size) is not None for size in (*self.left, *self.right))

    def difference(self, sizes: Sizes, values: Values) -> int:
        """Evaluate sum(left) - sum(right) - offset. Raise ZeroDivisionError if a size has no integer value."""
        left, right = (sum(sizes.at(size, values) for size in side) for side in (self.left, self.right))
        return left - right - self.offset


@dataclass(frozen=True, eq=False)
class Constraint:
    """A constraint on symbols. It is not met if `met` raises ZeroDivisionError.
    `crossings`: the boundaries at which `met` may change. The search tries values near them.
    """

    symbols: frozenset[str]
    met: Callable[[Values], bool]
    crossings: tuple[Crossing, ...] = ()

    def by(self, values: Values) -> bool:
        """Return True if the values meet the constraint."""
        try:
            return self.met(values)
        except ZeroDivisionError:
            return False


def constraints_of(conditions: Conditions) -> list[Constraint]:
    """Return a constraint for each inequality. Ranges are left out: `SizeSearch` has a parameter for them."""
    sizes = conditions.sizes
    return [
        Constraint(
            sizes.symbols(inequality.left) | sizes.symbols(inequality.right),
            lambda values, each=inequality: conditions.met(each, values),  # type: ignore[misc] # mypy knows no default of a lambda
            (Crossing((inequality.left,), (inequality.right,), inequality.offset),),
        )
        for inequality in conditions.inequalities
    ]


def constraint_on(sizes: Sizes, size: KnownSize, met: Callable[[int], bool], *numbers: int) -> Constraint:
    """Return a constraint that is met if `met(size)` is True. `numbers`: the values at which `met` may change."""
    crossings = tuple(Crossing((size,), (), number) for number in numbers)
    return Constraint(sizes.symbols(size), lambda values: met(sizes.at(size, values)), crossings)


DENSE = 20
"""If a crossing is not linear, so many of the smallest values are tried."""


class SizeSearch:
    """A search for values of symbols in ranges, under constraints. Searches share a budget of steps."""

    def __init__(self, sizes: Sizes, symbols: Sequence[str], ranges: Mapping[str, Range], farthest: int) -> None:
        self.sizes, self.symbols = sizes, symbols
        self.ranges = {symbol: ranges.get(symbol, ANY).both(Range(0, farthest)) for symbol in symbols}
        self._steps = 0
        self._symbols: dict[tuple[Crossing, str], tuple[str, ...]] = {}
        self._roots: dict[tuple[Crossing, str, tuple[int, ...]], int | None] = {}

    def first(self, constraints: Sequence[Constraint]) -> dict[str, int] | None:
        """Return values that meet the constraints, or None. The first symbol gets its smallest value, then the second …"""
        values: dict[str, int] = {}
        if not all(constraint.by(values) for constraint in constraints if not constraint.symbols):
            return None
        for group in _groups(self.symbols, [constraint.symbols for constraint in constraints]):
            group_values = self._of_group(group, [constraint for constraint in constraints if constraint.symbols & set(group)])
            if group_values is None:
                return None
            values |= group_values
        return {symbol: values[symbol] for symbol in self.symbols}

    def _of_group(self, group: Sequence[str], constraints: Sequence[Constraint]) -> dict[str, int] | None:
        values: dict[str, int] = {}
        ready = [
            [each for each in constraints if symbol in each.symbols <= {*group[: at + 1]}] for at, symbol in enumerate(group)
        ]
        crossings = {symbol: [at for each in constraints if symbol in each.symbols for at in each.crossings] for symbol in group}
        steps = 0

        def extend(at: int) -> bool:
            nonlocal steps
            if at == len(group):
                return True
            steps += 1
            self._steps += 1
            if steps > MOST_STEPS or self._steps > MOST_STEPS_OF_ALL:
                return False
            for candidate in self._candidates(group[at], values, dict.fromkeys(crossings[group[at]])):
                values[group[at]] = candidate
                if all(constraint.by(values) for constraint in ready[at]) and extend(at + 1):
                    return True
                del values[group[at]]
            return False

        return values if extend(0) else None

    def _candidates(self, symbol: str, values: Values, crossings: Iterable[Crossing]) -> list[int]:
        """Return the values of a symbol to try, in ascending order: small values, and values near crossings."""
        allowed = self.ranges[symbol]
        crossings = list(crossings)
        dense = DENSE if any(not crossing.is_sum(self.sizes) for crossing in crossings) else 3
        near = set(range(allowed.low, allowed.low + dense))
        for crossing in crossings:
            other_symbols = self._others(crossing, symbol)
            for offset in (0,) if all(other in values for other in other_symbols) else SMALL:
                others = {other: values.get(other, self.ranges[other].low + offset) for other in other_symbols}
                root = self._root(crossing, symbol, others)
                near |= set() if root is None else {root - 1, root, root + 1, root + 2}
        return sorted(value for value in near if allowed.low <= value and (allowed.high is None or value <= allowed.high))

    def _others(self, crossing: Crossing, symbol: str) -> tuple[str, ...]:
        if (crossing, symbol) not in self._symbols:
            self._symbols[crossing, symbol] = tuple(each for each in crossing.symbols(self.sizes) if each != symbol)
        return self._symbols[crossing, symbol]

    def _root(self, crossing: Crossing, symbol: str, others: Values) -> int | None:
        """Return the value of one symbol at which the crossing's difference is 0, rounded down. None if it is not found."""
        key = (crossing, symbol, tuple(others.values()))
        if key not in self._roots:
            if len(self._roots) == MOST_ROOTS:
                return None
            root = self._root_of_sum if crossing.is_sum(self.sizes) else self._root_by_bisection
            self._roots[key] = root(crossing, symbol, others)
        return self._roots[key]

    def _root_of_sum(self, crossing: Crossing, symbol: str, values: Values) -> int | None:
        constant = crossing.difference(self.sizes, {**values, symbol: 0})
        factor = crossing.difference(self.sizes, {**values, symbol: 1}) - constant
        return -constant // factor if factor else None

    def _root_by_bisection(self, crossing: Crossing, symbol: str, values: Values) -> int | None:
        low, high = self.ranges[symbol].low, self.ranges[symbol].high
        assert high is not None, "__init__ limits each range"
        try:
            sign = crossing.difference(self.sizes, {**values, symbol: low}) > 0
            if (crossing.difference(self.sizes, {**values, symbol: high}) > 0) is sign:
                return None
            while high - low > 1:
                middle = (low + high) // 2
                same = (crossing.difference(self.sizes, {**values, symbol: middle}) > 0) is sign
                low, high = (middle, high) if same else (low, middle)
        except ZeroDivisionError:
            return None
        return low


def _groups(symbols: Sequence[str], sets: Iterable[frozenset[str]]) -> Iterator[list[str]]:
    """Divide the symbols into groups to search one by one. Symbols in the same set stay together."""
    group = {symbol: {symbol} for symbol in symbols}
    for together in sets:
        joined = set().union(*(group[symbol] for symbol in together))
        group |= dict.fromkeys(joined, joined)
    for symbol in symbols:
        members = [each for each in symbols if each in group[symbol]]
        if symbol == members[0]:
            yield members
