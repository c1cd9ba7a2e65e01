"""Conditions on the sizes of a model: "N >= 66", "1 <= seq <= 512", "past + seq >= 1"; those of several nodes as one list."""

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

# How conditions on sums of sizes are written: "past + seq >= 7".


def sum_of(sizes: Sizes, terms: Mapping[KnownSize, int]) -> str:
    """A sum with its negative terms last: "past + seq - 2*total"."""
    signed = [
        f"{'-' if factor < 0 else '+'} {_term(sizes, name, abs(factor))}"
        for name, factor in sorted(terms.items(), key=lambda term: term[1] < 0)
    ]
    return " ".join(signed).removeprefix("+ ")


def text_of(sizes: Sizes, terms: Mapping[KnownSize, int], more: int) -> str:
    """The condition that a sum and `more` are at least 0, without negative terms: "past + seq >= total + 1"."""
    left = [_term(sizes, name, factor) for name, factor in terms.items() if factor > 0]
    right = [_term(sizes, name, -factor) for name, factor in terms.items() if factor < 0]
    if not left:
        return f"{' + '.join(right)} <= {more}"
    if more > 0 and right:
        left.append(str(more))
    elif more < 0 or not right:
        right.append(str(-more))
    return f"{' + '.join(left)} >= {' + '.join(right)}"


def _term(sizes: Sizes, name: KnownSize, factor: int) -> str:
    quoted = sizes.symbols(name) == {name} and not WORD.fullmatch(str(name))
    return ("" if factor == 1 else f"{factor}*") + (f"'{name}'" if quoted else str(name))


MOST_ROUNDS = 32
"""How often a limit of a symbol is carried over to the others by inequalities."""


@dataclass(frozen=True, slots=True)
class AtLeast:
    """That `left` is at least `right` + `more`."""

    left: KnownSize
    right: KnownSize
    more: int


Atom = bool | tuple[str, Range] | AtLeast | None
"""A part of a condition: whether it holds for all sizes; the range of a symbol; or what is neither. None: it is too long."""


class Conditions:
    """Conditions that hold together.

    ranges: of the symbols, in the order in which they were met. inequalities: what no range states. never: whether they are
    known to contradict each other. unstated: whether a condition is too long to be stated.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.ranges: dict[str, Range] = {}
        self.inequalities: dict[AtLeast, None] = {}
        self.never = False
        self.unstated = False

    def joined(self, *others: Conditions) -> Conditions:
        """These conditions and others, of the same sizes."""
        all_of_them = Conditions(self.sizes)
        for each in (self, *others):
            all_of_them.never |= each.never
            all_of_them.unstated |= each.unstated
            all_of_them.inequalities |= each.inequalities
            for symbol, found in each.ranges.items():
                all_of_them._add((symbol, found))
        return all_of_them

    def require(self, left: Iterable[KnownSize], right: Iterable[KnownSize], more: int = 0) -> None:
        """Add the condition that the sum of `left` is at least the sum of `right` and `more`."""
        for atom in self._atoms(left, right, more):
            self._add(atom)

    def holds(self, left: Iterable[KnownSize], right: Iterable[KnownSize], more: int = 0) -> bool | None:
        """Whether the sum of `left` is at least the sum of `right` and `more`, for all sizes under the conditions or for none;
        None where it depends, or is not known.
        """
        answers = {self._answer(atom) for atom in self._atoms(left, right, more)}
        return False if False in answers else None if None in answers else True

    def solved(self) -> Conditions:
        """The same conditions, each inequality simplified under the ranges of all."""
        found = self
        for _ in range(MOST_ROUNDS):
            again = Conditions(self.sizes)
            again.ranges, again.never, again.unstated = dict(found.ranges), found.never, found.unstated
            for each in found.inequalities:
                for atom in again._simplified(each):
                    again._add(atom)
            if again.ranges == found.ranges:
                break
            found = again
        return again

    def stated(self) -> tuple[SizeCondition, ...]:
        """The conditions for a report, without those that follow from the ranges."""
        ranges = [
            _of_range(symbol, known)
            for symbol, known in self.ranges.items()
            if known.low or (known.high is not None and known.high < ELEMENT_LIMIT)
        ]
        return (*ranges, *(self._stated(each) for each in self.inequalities if self._by_ranges(each) is not True))

    def tightened(self) -> dict[str, Range] | None:
        """The ranges of the symbols that follow from all conditions together; None where they are contradictory."""
        if self.never:
            return None
        ranges = dict(self.ranges)
        sums = [known for each in self.inequalities if (known := self._difference(each)) is not None]
        for _ in range(MOST_ROUNDS):
            before = dict(ranges)
            for factors, constant in sums:
                for symbol, factor in factors.items():
                    most = [most_of(other, ranges.get(name, ANY)) for name, other in factors.items() if name != symbol]
                    if math.inf not in most:
                        ranges[symbol] = ranges.get(symbol, ANY).both(_range(factor, constant + int(sum(most))))
            if ranges == before:
                break
        return None if any(known.empty for known in ranges.values()) else ranges

    def _atoms(self, left: Iterable[KnownSize], right: Iterable[KnownSize], more: int) -> Iterator[Atom]:
        (one, less), (two, extra) = self._sum(left), self._sum(right)
        yield from (None,) if one is None or two is None else self._simplified(AtLeast(one, two, more + extra - less))

    def _sum(self, terms: Iterable[KnownSize]) -> tuple[KnownSize | None, int]:
        """The sum of the terms with names, None where it is too long, and that of the numbers."""
        total: KnownSize | None = 0
        numbers = 0
        for term in terms:
            if isinstance(term, int):
                numbers += term
            elif total is not None:
                total = self.sizes.compute("add", total, term) if total else term
        return (0, numbers + total) if isinstance(total, int) else (total, numbers)

    def _simplified(self, each: AtLeast) -> Iterator[Atom]:
        """A condition as ranges of symbols, as far as that can be."""
        known = self._difference(each)
        if known is not None and len(known[0]) < 2:
            yield _atom(*known)
            return
        if abs(each.more) > FARTHEST:
            yield each.more < 0
            return
        if (solved := self._solved(each)) is not None:
            yield solved
            return
        parts = self.sizes.parts
        all_of = list(product(parts(each.left, "minimum"), parts(each.right, "maximum")))
        any_of = list(product(parts(each.left, "maximum"), parts(each.right, "minimum")))
        if len(all_of) > 1:
            for left, right in all_of:
                yield from self._simplified(AtLeast(left, right, each.more))
        elif (each.right, each.more) == (0, 1) and self._are_factors(factors := parts(each.left, "multiply")):
            for factor in factors:
                yield from self._simplified(AtLeast(factor, 0, 1))
        elif len(any_of) > 1:
            yield from self._alternatives(each, [AtLeast(left, right, each.more) for left, right in any_of])
        else:
            yield each

    def _are_factors(self, sizes: tuple[KnownSize, ...]) -> bool:
        """Whether sizes are several, and never negative."""
        return len(sizes) > 1 and all(self.sizes.compare(size, ">=", 0) for size in sizes)

    def _alternatives(self, each: AtLeast, any_of: list[AtLeast]) -> Iterator[Atom]:
        """A condition that holds where one of others holds."""
        possible = [one for one in any_of if self.holds((one.left,), (one.right,), one.more) is not False]
        if len(possible) == 1:
            yield from self._simplified(possible[0])
        else:
            yield each if possible else False

    def _solved(self, each: AtLeast) -> Atom:
        """The range of a condition of which the ranges leave one symbol open; None for others, and where it is no range."""
        symbols = self.sizes.symbols(each.left) | self.sizes.symbols(each.right)
        known = {symbol: self.ranges.get(symbol, ANY) for symbol in symbols}
        left = [symbol for symbol in symbols if known[symbol].low != known[symbol].high]
        if len(left) != 1 or any(one.empty for one in known.values()):
            return None
        found = self.sizes.where_at_least(each.left, each.right, each.more, left[0], known)
        return (left[0], found) if isinstance(found, Range) else found

    def met(self, each: AtLeast, values: Mapping[str, int]) -> bool:
        """Whether a condition holds for values of its symbols. ZeroDivisionError where a size has none there."""
        return self.sizes.at(each.left, values) - self.sizes.at(each.right, values) >= each.more

    def _difference(self, each: AtLeast) -> tuple[dict[str, int], int] | None:
        """Factors and constant of the sum that is at least 0; None where there is none."""
        left, right = self.sizes.linear(each.left), self.sizes.linear(each.right)
        if left is None or right is None:
            return None
        factors = {symbol: left[0].get(symbol, 0) - right[0].get(symbol, 0) for symbol in (left[0] | right[0])}
        return {symbol: factor for symbol, factor in factors.items() if factor}, left[1] - right[1] - each.more

    def _answer(self, atom: Atom) -> bool | None:
        if isinstance(atom, AtLeast):
            return True if any(self._implies(each, atom) for each in self.inequalities) else self._by_ranges(atom)
        if not isinstance(atom, tuple):
            return atom
        known = self.ranges.get(atom[0], ANY)
        both = known.both(atom[1])
        return False if both.empty else True if both == known else None

    def _implies(self, one: AtLeast, other: AtLeast) -> bool:
        """Whether a condition is another one, or states more of the same sizes."""
        known, asked = self._difference(one), self._difference(other)
        if known is None or asked is None:
            return one.left == other.left and one.right == other.right and one.more >= other.more
        return known[0] == asked[0] and known[1] <= asked[1]

    def _by_ranges(self, each: AtLeast) -> bool | None:
        """Whether a condition holds for all sizes in the ranges, or for none of them."""
        if any(known.empty for known in self.ranges.values()):
            return None
        least, most = self.sizes.bounding(each.left, each.right, each.more)(self.ranges).ends(self.ranges)
        if least >= 0 or most < 0:
            return least >= 0
        right = self.sizes.compute("add", each.right, each.more)
        return None if right is None else self.sizes.compare(each.left, ">=", right)

    def _add(self, atom: Atom) -> None:
        answer = self._answer(atom)
        if isinstance(atom, tuple):
            self.ranges[atom[0]] = self.ranges.get(atom[0], ANY).both(atom[1])
        elif isinstance(atom, AtLeast) and answer is None:
            kept = {each: None for each in self.inequalities if not self._implies(atom, each)}
            self.inequalities = kept | {atom: None}
        self.never |= answer is False
        self.unstated |= atom is None

    def _stated(self, each: AtLeast) -> SizeCondition:
        parts: dict[KnownSize, int] = {each.left: 1, each.right: -1}
        constant, known = -each.more, self._difference(each)
        if known is not None:
            parts, constant = dict(known[0].items()), known[1]
        divisor = math.gcd(*parts.values())
        terms = {name: factor // divisor for name, factor in parts.items() if name}
        more = constant // divisor
        below = known is not None and all(factor < 0 for factor in terms.values())  # a sum of sizes that is limited above
        ends = {"at_least": 0, "at_most": more} if below else {"at_least": -more, "at_most": None}
        factors = {name: -factor if below else factor for name, factor in terms.items()}
        return SizeCondition(
            text=printable(text_of(self.sizes, terms, more)),
            size=sum_of(self.sizes, factors),
            **ends,
            symbols=tuple(sorted(self.sizes.symbols(each.left) | self.sizes.symbols(each.right))),
            terms=None if known is None else {str(name): factor for name, factor in factors.items()},
        )


def _of_range(symbol: str, known: Range) -> SizeCondition:
    most = known.high if known.high is not None and known.high < ELEMENT_LIMIT else None
    return SizeCondition(
        text=printable(known.condition(symbol)),
        size=symbol,
        at_least=known.low,
        at_most=most,
        symbols=(symbol,),
        terms={symbol: 1},
    )


def _atom(factors: Mapping[str, int], constant: int) -> Atom:
    """The condition that a sum is at least 0, of at most one symbol."""
    if not factors:
        return constant >= 0
    ((symbol, factor),) = factors.items()
    found = _range(factor, constant)
    return True if found == ANY else False if found.empty else (symbol, found)


def _range(factor: int, constant: int) -> Range:
    """The sizes that, times the factor, with the constant, are at least 0."""
    return Range(max(0, -(constant // factor))) if factor > 0 else Range(0, constant // -factor)


def most_of(factor: int, known: Range) -> float | int:
    """The most that a symbol of that range, times the factor, can be."""
    if factor < 0:
        return factor * known.low
    return math.inf if known.high is None else factor * known.high


def strongest(conditions: Iterable[SizeCondition]) -> list[SizeCondition]:
    """Conditions that hold together, of the nodes of one model: one for each size, and none that follows from the others."""
    found: dict[str, SizeCondition] = {}
    for each in conditions:
        found[each.size] = _both(found.setdefault(each.size, each), each)
    return [each for each in found.values() if len(each.terms or ()) < 2 or not _follows(each, found)]


def _both(one: SizeCondition, other: SizeCondition) -> SizeCondition:
    """Two conditions on one size as one."""
    both = Range(one.at_least, one.at_most).both(Range(other.at_least, other.at_most))
    for each in (one, other):
        if (each.at_least, each.at_most) == (both.low, both.high):
            return each
    ends = {"at_least": both.low, "at_most": both.high}
    return one.model_copy(update={**ends, "text": printable(both.condition(one.size))})


def _follows(each: SizeCondition, known: Mapping[str, SizeCondition]) -> bool:
    """Whether a condition on a sum follows from those on its symbols."""
    least = 0.0
    for symbol, factor in (each.terms or {}).items():
        of = known.get(symbol)
        least -= most_of(-factor, ANY if of is None else Range(of.at_least, of.at_most))
    return each.at_most is None and least >= each.at_least
