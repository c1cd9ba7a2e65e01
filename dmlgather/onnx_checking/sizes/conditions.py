"""Conditions on sizes ("N >= 66", "past + seq >= 1"), and sets of conditions that must all hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx_checking.checked_model import SizeCondition
from dmlgather.onnx_checking.sizes.expressions import WORD, KnownSize, Sizes
from dmlgather.onnx_checking.sizes.ranges import ANY, FARTHEST, Range
from dmlgather.wording import printable


def sum_of(sizes: Sizes, terms: Mapping[KnownSize, int]) -> str:
    """Return a weighted sum of sizes as text: "past + seq - 2*total"."""
    signed = [
        f"{'-' if factor < 0 else '+'} {_term(sizes, name, abs(factor))}"
        for name, factor in sorted(terms.items(), key=lambda term: term[1] < 0)
    ]
    return " ".join(signed).removeprefix("+ ")


def text_of(sizes: Sizes, terms: Mapping[KnownSize, int], offset: int) -> str:
    """Return sum(factor * size) + offset >= 0 as text without negative terms: "past + seq >= total + 1"."""
    left = [_term(sizes, name, factor) for name, factor in terms.items() if factor > 0]
    right = [_term(sizes, name, -factor) for name, factor in terms.items() if factor < 0]
    if not left:
        return f"{' + '.join(right)} <= {offset}"
    if offset > 0 and right:
        left.append(str(offset))
    elif offset < 0 or not right:
        right.append(str(-offset))
    return f"{' + '.join(left)} >= {' + '.join(right)}"


def _term(sizes: Sizes, name: KnownSize, factor: int) -> str:
    quoted = sizes.symbols(name) == {name} and not WORD.fullmatch(str(name))
    return ("" if factor == 1 else f"{factor}*") + (f"'{name}'" if quoted else str(name))


MOST_ROUNDS = 32
"""Limit of passes over all conditions. A smaller range of one symbol may narrow the ranges of other symbols."""


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The inequality `left` >= `right` + `offset`."""

    left: KnownSize
    right: KnownSize
    offset: int


Atom = bool | tuple[str, Range] | AtLeast | None
"""True or False, a symbol and its range, or an inequality. None is an inequality with a too long expression."""


class Conditions:
    """Conditions on sizes that must all hold.
    `inequalities`: conditions that cannot be stated as the range of one symbol, such as "past + seq >= 1".
    `unstated`: True if a condition is missing because its expression was too long.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.ranges: dict[str, Range] = {}
        self.inequalities: dict[AtLeast, None] = {}
        self.never = False
        self.unstated = False

    def joined(self, *others: Conditions) -> Conditions:
        """Return the conditions of all these sets as a new set. All sets must use the same `Sizes`."""
        conjunction = Conditions(self.sizes)
        for other in (self, *others):
            conjunction.never |= other.never
            conjunction.unstated |= other.unstated
            conjunction.inequalities |= other.inequalities
            for symbol, allowed in other.ranges.items():
                conjunction._add((symbol, allowed))
        return conjunction

    def require(self, left: Iterable[KnownSize], right: Iterable[KnownSize], offset: int = 0) -> None:
        """Add the condition sum(left) >= sum(right) + offset."""
        for atom in self._atoms(left, right, offset):
            self._add(atom)

    def holds(self, left: Iterable[KnownSize], right: Iterable[KnownSize], offset: int = 0) -> bool | None:
        """Return True if the conditions imply sum(left) >= sum(right) + offset, False if they exclude it, otherwise None."""
        answers = {self._answer(atom) for atom in self._atoms(left, right, offset)}
        return False if False in answers else None if None in answers else True

    def solved(self) -> Conditions:
        """Return an equivalent set with simpler inequalities. With N = 3, "N + seq >= 5" becomes "seq >= 2"."""
        conditions = self
        for _ in range(MOST_ROUNDS):
            simplified = Conditions(self.sizes)
            simplified.ranges = dict(conditions.ranges)
            simplified.never, simplified.unstated = conditions.never, conditions.unstated
            for inequality in conditions.inequalities:
                for atom in simplified._simplified(inequality):
                    simplified._add(atom)
            if simplified.ranges == conditions.ranges:
                break
            conditions = simplified
        return simplified

    def stated(self) -> tuple[SizeCondition, ...]:
        """Return the conditions for a report, except those that always hold or follow from others."""
        ranges = [
            _of_range(symbol, allowed)
            for symbol, allowed in self.ranges.items()
            if allowed.low or (allowed.high is not None and allowed.high < ELEMENT_LIMIT)
        ]
        return (*ranges, *(self._stated(each) for each in self.inequalities if self._by_ranges(each) is not True))

    def tightened(self) -> dict[str, Range] | None:
        """Return the ranges, narrowed by the inequalities, or None if no sizes meet them. "N >= M" and "M >= 2" give N >= 2."""
        if self.never:
            return None
        ranges = dict(self.ranges)
        sums = [sum_ for inequality in self.inequalities if (sum_ := self._difference(inequality)) is not None]
        for _ in range(MOST_ROUNDS):
            before = dict(ranges)
            for factors, constant in sums:
                for symbol, factor in factors.items():
                    most = [most_of(other, ranges.get(name, ANY)) for name, other in factors.items() if name != symbol]
                    if math.inf not in most:
                        ranges[symbol] = ranges.get(symbol, ANY).both(_range(factor, constant + int(sum(most))))
            if ranges == before:
                break
        return None if any(allowed.empty for allowed in ranges.values()) else ranges

    def _atoms(self, left: Iterable[KnownSize], right: Iterable[KnownSize], offset: int) -> Iterator[Atom]:
        (one, less), (two, extra) = self._sum(left), self._sum(right)
        yield from (None,) if one is None or two is None else self._simplified(AtLeast(one, two, offset + extra - less))

    def _sum(self, terms: Iterable[KnownSize]) -> tuple[KnownSize | None, int]:
        """Return the sum of the symbolic sizes, and the sum of the numbers. The first is None if its expression is too long."""
        total: KnownSize | None = 0
        numbers = 0
        for term in terms:
            if isinstance(term, int):
                numbers += term
            elif total is not None:
                total = self.sizes.compute("add", total, term) if total else term
        return (0, numbers + total) if isinstance(total, int) else (total, numbers)

    def _simplified(self, inequality: AtLeast) -> Iterator[Atom]:
        """Yield simpler conditions that together mean the same: "minimum(N, M) >= 2" gives N >= 2 and M >= 2."""
        linear = self._difference(inequality)
        if linear is not None and len(linear[0]) < 2:
            yield _atom(*linear)
            return
        if abs(inequality.offset) > FARTHEST:
            yield inequality.offset < 0
            return
        if (solved := self._solved(inequality)) is not None:
            yield solved
            return
        parts = self.sizes.parts
        all_of = list(product(parts(inequality.left, "minimum"), parts(inequality.right, "maximum")))
        any_of = list(product(parts(inequality.left, "maximum"), parts(inequality.right, "minimum")))
        if len(all_of) > 1:
            for left, right in all_of:
                yield from self._simplified(AtLeast(left, right, inequality.offset))
        elif (inequality.right, inequality.offset) == (0, 1) and self._are_factors(factors := parts(inequality.left, "multiply")):
            for factor in factors:
                yield from self._simplified(AtLeast(factor, 0, 1))
        elif len(any_of) > 1:
            yield from self._alternatives(inequality, [AtLeast(left, right, inequality.offset) for left, right in any_of])
        else:
            yield inequality

    def _are_factors(self, sizes: tuple[KnownSize, ...]) -> bool:
        """Return True if there are several sizes and none can be negative.

        A product of such sizes is positive only if each size is.
        """
        return len(sizes) > 1 and all(self.sizes.compare(size, ">=", 0) for size in sizes)

    def _alternatives(self, inequality: AtLeast, any_of: list[AtLeast]) -> Iterator[Atom]:
        """Simplify an inequality that means "one of `any_of` holds". Example: maximum(N, M) >= 2 means N >= 2 or M >= 2."""
        possible = [one for one in any_of if self.holds((one.left,), (one.right,), one.offset) is not False]
        if len(possible) == 1:
            yield from self._simplified(possible[0])
        else:
            yield inequality if possible else False

    def _solved(self, inequality: AtLeast) -> Atom:
        """Solve an inequality in which all symbols but one have fixed values.
        Return None if more symbols are not fixed, or if the solutions are not one range.
        """
        symbols = self.sizes.symbols(inequality.left) | self.sizes.symbols(inequality.right)
        ranges = {symbol: self.ranges.get(symbol, ANY) for symbol in symbols}
        open_symbols = [symbol for symbol in symbols if ranges[symbol].low != ranges[symbol].high]
        if len(open_symbols) != 1 or any(allowed.empty for allowed in ranges.values()):
            return None
        solution = self.sizes.where_at_least(inequality.left, inequality.right, inequality.offset, open_symbols[0], ranges)
        return (open_symbols[0], solution) if isinstance(solution, Range) else solution

    def met(self, inequality: AtLeast, values: Mapping[str, int]) -> bool:
        """Return True if an inequality holds for these numbers. Raise ZeroDivisionError if a side has no integer value."""
        return self.sizes.at(inequality.left, values) - self.sizes.at(inequality.right, values) >= inequality.offset

    def _difference(self, inequality: AtLeast) -> tuple[dict[str, int], int] | None:
        """Return left - right - offset as factors of symbols and a constant, or None if it is not linear."""
        left, right = self.sizes.linear(inequality.left), self.sizes.linear(inequality.right)
        if left is None or right is None:
            return None
        factors = {symbol: left[0].get(symbol, 0) - right[0].get(symbol, 0) for symbol in (left[0] | right[0])}
        return {symbol: factor for symbol, factor in factors.items() if factor}, left[1] - right[1] - inequality.offset

    def _answer(self, atom: Atom) -> bool | None:
        if isinstance(atom, AtLeast):
            return True if any(self._implies(inequality, atom) for inequality in self.inequalities) else self._by_ranges(atom)
        if not isinstance(atom, tuple):
            return atom
        allowed = self.ranges.get(atom[0], ANY)
        both = allowed.both(atom[1])
        return False if both.empty else True if both == allowed else None

    def _implies(self, one: AtLeast, other: AtLeast) -> bool:
        """Return True if `one` certainly implies `other`."""
        sum_, other_sum = self._difference(one), self._difference(other)
        if sum_ is None or other_sum is None:
            return one.left == other.left and one.right == other.right and one.offset >= other.offset
        return sum_[0] == other_sum[0] and sum_[1] <= other_sum[1]

    def _by_ranges(self, inequality: AtLeast) -> bool | None:
        """Return True or False if the ranges alone decide an inequality, else None."""
        if any(allowed.empty for allowed in self.ranges.values()):
            return None
        least, most = self.sizes.bounding(inequality.left, inequality.right, inequality.offset)(self.ranges).ends(self.ranges)
        if least >= 0 or most < 0:
            return least >= 0
        right = self.sizes.compute("add", inequality.right, inequality.offset)
        return None if right is None else self.sizes.compare(inequality.left, ">=", right)

    def _add(self, atom: Atom) -> None:
        answer = self._answer(atom)
        if isinstance(atom, tuple):
            self.ranges[atom[0]] = self.ranges.get(atom[0], ANY).both(atom[1])
        elif isinstance(atom, AtLeast) and answer is None:
            kept = {inequality: None for inequality in self.inequalities if not self._implies(atom, inequality)}
            self.inequalities = kept | {atom: None}
        self.never |= answer is False
        self.unstated |= atom is None

    def _stated(self, inequality: AtLeast) -> SizeCondition:
        parts: dict[KnownSize, int] = {inequality.left: 1, inequality.right: -1}
        constant, linear = -inequality.offset, self._difference(inequality)
        if linear is not None:
            parts, constant = dict(linear[0].items()), linear[1]
        divisor = math.gcd(*parts.values())
        terms = {name: factor // divisor for name, factor in parts.items() if name}
        rest = constant // divisor
        below = linear is not None and all(factor < 0 for factor in terms.values())  # the sum has an upper limit
        limits = {"at_least": 0, "at_most": rest} if below else {"at_least": -rest, "at_most": None}
        factors = {name: -factor if below else factor for name, factor in terms.items()}
        return SizeCondition(
            text=printable(text_of(self.sizes, terms, rest)),
            size=sum_of(self.sizes, factors),
            **limits,
            symbols=tuple(sorted(self.sizes.symbols(inequality.left) | self.sizes.symbols(inequality.right))),
            terms=None if linear is None else {str(name): factor for name, factor in factors.items()},
        )


def _of_range(symbol: str, allowed: Range) -> SizeCondition:
    most = allowed.high if allowed.high is not None and allowed.high < ELEMENT_LIMIT else None
    return SizeCondition(
        text=printable(allowed.condition(symbol)),
        size=symbol,
        at_least=allowed.low,
        at_most=most,
        symbols=(symbol,),
        terms={symbol: 1},
    )


def _atom(factors: Mapping[str, int], constant: int) -> Atom:
    """Solve factor * symbol + constant >= 0. `factors` has at most one symbol."""
    if not factors:
        return constant >= 0
    ((symbol, factor),) = factors.items()
    allowed = _range(factor, constant)
    return True if allowed == ANY else False if allowed.empty else (symbol, allowed)


def _range(factor: int, constant: int) -> Range:
    """Return the range of sizes with factor * size + constant >= 0."""
    # 2 * size - 7 >= 0: size >= 4, which is -(-7 // 2). -2 * size + 7 >= 0: size <= 3, which is 7 // 2.
    return Range(max(0, -(constant // factor))) if factor > 0 else Range(0, constant // -factor)


def most_of(factor: int, allowed: Range) -> float | int:
    """Return the largest value of factor * symbol if the symbol lies in a range. It may be infinite."""
    if factor < 0:
        return factor * allowed.low
    return math.inf if allowed.high is None else factor * allowed.high


def strongest(conditions: Iterable[SizeCondition]) -> list[SizeCondition]:
    """Combine the conditions of several nodes. Conditions that follow from others are left out."""
    by_size: dict[str, SizeCondition] = {}
    for condition in conditions:
        by_size[condition.size] = _both(by_size.setdefault(condition.size, condition), condition)
    return [condition for condition in by_size.values() if len(condition.terms or ()) < 2 or not _follows(condition, by_size)]


def _both(one: SizeCondition, other: SizeCondition) -> SizeCondition:
    both = Range(one.at_least, one.at_most).both(Range(other.at_least, other.at_most))
    for condition in (one, other):
        if (condition.at_least, condition.at_most) == (both.low, both.high):
            return condition
    limits = {"at_least": both.low, "at_most": both.high}
    return one.model_copy(update={**limits, "text": printable(both.condition(one.size))})


def _follows(condition: SizeCondition, by_size: Mapping[str, SizeCondition]) -> bool:
    """Return True if a condition on a sum follows from the conditions on its symbols."""
    least = 0.0
    for symbol, factor in (condition.terms or {}).items():
        limit = by_size.get(symbol)
        least -= most_of(-factor, ANY if limit is None else Range(limit.at_least, limit.at_most))
    return condition.at_most is None and least >= condition.at_least
