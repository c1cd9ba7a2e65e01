"""Find values of symbols, the smallest first, that meet constraints on sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.ranges import ANY, Range

MOST_STEPS, MOST_STEPS_OF_ALL = 200, 1000
"""How often a search, and all searches together, look for values of one more symbol."""

MOST_ROOTS = 300
"""Roots of crossings that are computed for one node; the others are not tried."""

SMALL = (0, 2, 7)
"""What is added to the smallest value of a symbol that has none yet."""

Values = Mapping[str, int]


@dataclass(frozen=True)
class Crossing:
    """Where the sum of `left` crosses the sum of `right` and `more`."""

    left: tuple[KnownSize, ...]
    right: tuple[KnownSize, ...]
    more: int = 0

    def symbols(self, sizes: Sizes) -> frozenset[str]:
        """Those of both sides."""
        return frozenset(chain.from_iterable(map(sizes.symbols, (*self.left, *self.right))))

    def is_sum(self, sizes: Sizes) -> bool:
        """Whether both sides are sums of symbols."""
        return all(sizes.linear(each) is not None for each in (*self.left, *self.right))

    def difference(self, sizes: Sizes, values: Values) -> int:
        """How much the left side is more than the right. ZeroDivisionError where a size has no value."""
        left, right = (sum(sizes.at(each, values) for each in side) for side in (self.left, self.right))
        return left - right - self.more


@dataclass(frozen=True, eq=False)
class Constraint:
    """What values of symbols must meet. met: a ZeroDivisionError counts as no. crossings: near them, that may change."""

    symbols: frozenset[str]
    met: Callable[[Values], bool]
    crossings: tuple[Crossing, ...] = ()

    def by(self, values: Values) -> bool:
        """Whether the values meet it."""
        try:
            return self.met(values)
        except ZeroDivisionError:
            return False


def constraints_of(conditions: Conditions) -> list[Constraint]:
    """The constraints beside the ranges of symbols."""
    sizes = conditions.sizes
    return [
        Constraint(
            sizes.symbols(each.left) | sizes.symbols(each.right),
            lambda values, each=each: conditions.met(each, values),  # type: ignore[misc] # mypy knows no default of a lambda
            (Crossing((each.left,), (each.right,), each.more),),
        )
        for each in conditions.inequalities
    ]


DENSE = 20
"""So many of the smallest values of a symbol are tried where a crossing is not one of sums of sizes."""


class SizeSearch:
    """A search for values of symbols in given ranges."""

    def __init__(self, sizes: Sizes, symbols: Sequence[str], ranges: Mapping[str, Range], farthest: int) -> None:
        """farthest: the largest value that is tried."""
        self.sizes, self.symbols = sizes, symbols
        self.ranges = {symbol: ranges.get(symbol, ANY).both(Range(0, farthest)) for symbol in symbols}
        self._steps = 0
        self._symbols: dict[tuple[Crossing, str], tuple[str, ...]] = {}
        self._roots: dict[tuple[Crossing, str, tuple[int, ...]], int | None] = {}

    @property
    def lows(self) -> dict[str, int]:
        """The least value of each symbol."""
        return {symbol: known.low for symbol, known in self.ranges.items()}

    def first(self, constraints: Sequence[Constraint]) -> dict[str, int] | None:
        """The first values, in the order of the symbols, that meet all constraints; None where none are found."""
        values: dict[str, int] = {}
        if not all(constraint.by(values) for constraint in constraints if not constraint.symbols):
            return None
        for group in _groups(self.symbols, [constraint.symbols for constraint in constraints]):
            found = self._of_group(group, [constraint for constraint in constraints if constraint.symbols & set(group)])
            if found is None:
                return None
            values |= found
        return {symbol: values[symbol] for symbol in self.symbols}

    def _of_group(self, group: Sequence[str], constraints: Sequence[Constraint]) -> dict[str, int] | None:
        values: dict[str, int] = {}
        due = [[each for each in constraints if symbol in each.symbols <= {*group[: at + 1]}] for at, symbol in enumerate(group)]
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
                if all(each.by(values) for each in due[at]) and extend(at + 1):
                    return True
                del values[group[at]]
            return False

        return values if extend(0) else None

    def _candidates(self, symbol: str, values: Values, crossings: Iterable[Crossing]) -> list[int]:
        """The values of a symbol near its crossings. Others that have no value yet are taken for small ones."""
        known = self.ranges[symbol]
        crossings = list(crossings)
        dense = DENSE if any(not crossing.is_sum(self.sizes) for crossing in crossings) else 3
        near = set(range(known.low, known.low + dense))
        for crossing in crossings:
            others = self._others(crossing, symbol)
            for more in (0,) if all(each in values for each in others) else SMALL:
                root = self._root(crossing, symbol, {each: values.get(each, self.ranges[each].low + more) for each in others})
                near |= set() if root is None else {root - 1, root, root + 1, root + 2}
        return sorted(each for each in near if known.low <= each and (known.high is None or each <= known.high))

    def _others(self, crossing: Crossing, symbol: str) -> tuple[str, ...]:
        """The other symbols of a crossing."""
        if (crossing, symbol) not in self._symbols:
            self._symbols[crossing, symbol] = tuple(each for each in crossing.symbols(self.sizes) if each != symbol)
        return self._symbols[crossing, symbol]

    def _root(self, crossing: Crossing, symbol: str, others: Values) -> int | None:
        """The last value of a symbol before the sides of a crossing are equal, or where they are; None where they never are."""
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
        assert high is not None, "each range ends where nothing is tried any more"
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


def _groups(symbols: Sequence[str], together: Iterable[frozenset[str]]) -> Iterator[list[str]]:
    """The symbols in groups: those that stand in one set are in one group."""
    group = {symbol: {symbol} for symbol in symbols}
    for each in together:
        joined = set().union(*(group[symbol] for symbol in each))
        group |= dict.fromkeys(joined, joined)
    for symbol in symbols:
        if symbol == next(each for each in symbols if each in group[symbol]):
            yield [each for each in symbols if each in group[symbol]]
