"""Integer functions of one index, exact for every value that it can have: what a program makes of an index before it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dmlgather.plan.index_plan import Lookup, OutOfBounds

Intervals = tuple[tuple[int, int], ...]
"""Sets of integers: first and last of each run, in rising order, with gaps in between."""


def united(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """The integers that lie in any of the intervals. One whose last integer is below its first is empty."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(each for each in intervals if each[0] <= each[1]):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def common(one: Intervals, other: Intervals) -> Intervals:
    """The integers that lie in both sets."""
    return united((max(a, c), min(b, d)) for a, b in one for c, d in other)


def within(one: Intervals, other: Intervals) -> bool:
    """Whether every integer of the first set lies in the second."""
    return common(one, other) == one


@dataclass(frozen=True, slots=True)
class Piece:
    """slope · v + constant for low <= v <= high."""

    low: int
    high: int
    slope: int
    constant: int

    def at(self, value: int) -> int:
        """The result for a value."""
        return self.slope * value + self.constant

    @property
    def results(self) -> tuple[int, int]:
        """The smallest and the largest result."""
        ends = self.at(self.low), self.at(self.high)
        return min(ends), max(ends)

    def between(self, least: int, most: int) -> tuple[int, int]:
        """The values whose results lie in least … most: first and last; an empty interval where there are none."""
        if not self.slope:
            return (self.low, self.high) if least <= self.constant <= most else (self.low, self.low - 1)
        first, last = (least, most) if self.slope > 0 else (most, least)
        low = -((self.constant - first) // self.slope)  # rounded up
        return max(self.low, low), min(self.high, (last - self.constant) // self.slope)


@dataclass(frozen=True)
class IndexFunction:
    """A function from integers to integers in pieces, defined where one of them is.

    pieces: in rising order, without overlap. They are brought into one form: functions with equal results and equal domains are
    equal objects.
    """

    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        for one, other in pairwise(self.pieces):
            if one.high >= other.low:
                raise ValueError(f"{one} and {other} overlap, or are not in rising order")
        object.__setattr__(self, "pieces", _canonical(self.pieces))

    @classmethod
    def identity(cls, low: int, high: int) -> IndexFunction:
        """The value itself, for low <= v <= high."""
        return cls((Piece(low, high, 1, 0),))

    @classmethod
    def constant(cls, result: int, low: int, high: int) -> IndexFunction:
        """One result for low <= v <= high."""
        return cls((Piece(low, high, 0, result),))

    def __call__(self, value: int) -> int | None:
        """The result for a value; None where the function is not defined."""
        return next((piece.at(value) for piece in self.pieces if piece.low <= value <= piece.high), None)

    @property
    def domain(self) -> Intervals:
        """The values for which the function is defined."""
        return united((piece.low, piece.high) for piece in self.pieces)

    @property
    def low(self) -> int:
        """The smallest result. ValueError where the function is defined nowhere."""
        return min(piece.results[0] for piece in self.pieces)

    @property
    def high(self) -> int:
        """The largest result. ValueError where the function is defined nowhere."""
        return max(piece.results[1] for piece in self.pieces)

    @property
    def single(self) -> int | None:
        """The result, where it is the same for every value; else None."""
        return self.low if self.pieces and self.low == self.high else None

    def scaled(self, factor: int, constant: int = 0) -> IndexFunction:
        """The function factor · f(v) + constant."""
        return IndexFunction(
            tuple(
                replace(piece, slope=factor * piece.slope, constant=factor * piece.constant + constant) for piece in self.pieces
            )
        )

    def plus(self, other: IndexFunction) -> IndexFunction:
        """f(v) + g(v), where both are defined."""
        return IndexFunction(
            tuple(
                Piece(low, high, one.slope + two.slope, one.constant + two.constant)
                for low, high, (one, two) in refined((self, other))
            )
        )

    def restricted(self, values: Intervals) -> IndexFunction:
        """f, defined for fewer values."""
        return IndexFunction(
            tuple(
                replace(piece, low=max(low, piece.low), high=min(high, piece.high))
                for piece in self.pieces
                for low, high in values
                if max(low, piece.low) <= min(high, piece.high)
            )
        )

    def preimage(self, least: int, most: int) -> Intervals:
        """The values whose results lie in least … most."""
        return united(piece.between(least, most) for piece in self.pieces)

    def then(self, outer: IndexFunction) -> IndexFunction:
        """outer(f(v)), where it is defined."""
        found = []
        for piece in self.pieces:
            for after in outer.pieces:
                low, high = piece.between(after.low, after.high)
                if low <= high:
                    constant = after.slope * piece.constant + after.constant
                    found.append(Piece(low, high, after.slope * piece.slope, constant))
        return IndexFunction(tuple(sorted(found, key=lambda piece: piece.low)))


def refined(functions: Sequence[IndexFunction]) -> Iterable[tuple[int, int, tuple[Piece, ...]]]:
    """The largest runs of values on which each function has one piece: first and last value, and the pieces."""
    runs: list[tuple[int, int, tuple[Piece, ...]]] = [
        (piece.low, piece.high, (piece,)) for function in functions[:1] for piece in function.pieces
    ]
    for function in functions[1:]:
        runs = [
            (max(low, piece.low), min(high, piece.high), (*pieces, piece))
            for low, high, pieces in runs
            for piece in function.pieces
            if max(low, piece.low) <= min(high, piece.high)
        ]
    return runs


def lookup_function(lookup: Lookup, policy: OutOfBounds, low: int, high: int) -> IndexFunction:
    """The position that a lookup makes of an index from low … high: wrapped, and clamped where the policy does so.

    Under FILL and RAISE it is not defined for an index out of bounds. ValueError where an index is clamped to an axis of size 0.
    """
    last = lookup.limit - 1
    pieces = [Piece(-lookup.wrap, min(-1, last - lookup.wrap), 1, lookup.wrap)] if lookup.wrap else []
    pieces.append(Piece(0, last, 1, 0))
    if policy in (OutOfBounds.CLAMP, OutOfBounds.PROMISE):
        if last < 0:
            raise ValueError("no index can be clamped to an axis of size 0")
        pieces.insert(0, Piece(min(low, -lookup.wrap), -lookup.wrap - 1, 0, 0))
        if lookup.wrap > lookup.limit:  # a negative index may lie behind the axis, too
            pieces.insert(2, Piece(last - lookup.wrap + 1, -1, 0, last))
        pieces.append(Piece(lookup.limit, max(high, last), 0, last))
    return IndexFunction(tuple(piece for piece in pieces if piece.low <= piece.high)).restricted(((low, high),))


def _canonical(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """From the smallest value on, each piece as long as it can be; the slope of a single value is 0."""
    found: list[Piece] = []
    rest = [piece for piece in reversed(pieces) if piece.low <= piece.high]
    while rest:
        piece = rest.pop()
        before = found[-1] if found else None
        if before is not None and before.high + 1 == piece.low and _continues(before, piece.at(piece.low)):
            slope = piece.at(piece.low) - before.at(before.high)
            whole = piece.low == piece.high or piece.slope == slope
            high = piece.high if whole else piece.low
            found[-1] = Piece(before.low, high, slope, before.at(before.low) - slope * before.low)
            piece = replace(piece, low=high + 1)
            if piece.low <= piece.high:
                rest.append(piece)
        elif piece.low == piece.high:
            found.append(Piece(piece.low, piece.high, 0, piece.at(piece.low)))
        else:
            found.append(piece)
    return tuple(found)


def _continues(piece: Piece, result: int) -> bool:
    """Whether the value behind a piece may belong to it, with that result."""
    return piece.low == piece.high or piece.at(piece.high + 1) == result
