"""Integer arithmetic on functions of one index: what a program makes of an index, as one `IndexFunction`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.index_graph import Elementwise
from dmlgather.plan.index_function import IndexFunction, Intervals, Piece, common, refined, united

MOST_PIECES = 64
"""A function with more pieces is not followed: the remainder of a wide range, or a product that wraps around often."""

_COMPARED: dict[str, Callable[[Piece], tuple[int, int]]] = {
    "less": lambda difference: difference.between(-(2**200), -1),
    "less_equal": lambda difference: difference.between(-(2**200), 0),
    "equal": lambda difference: difference.between(0, 0),
}
"""Where a comparison is true, from the difference of its operands. The others are negations, or exchange their operands."""

_AS_COMPARED = {
    "less": ("less", False, False),
    "less_equal": ("less_equal", False, False),
    "greater": ("less", True, False),
    "greater_equal": ("less_equal", True, False),
    "equal": ("equal", False, False),
    "not_equal": ("equal", False, True),
}
"""A row of `_COMPARED` for each comparison, whether its operands are exchanged, and whether it is negated."""


_ANSWERS = {*_AS_COMPARED, "and", "or", "not"}
"""What gives a bool."""


def whole_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The smallest and the largest value of an integer type, or of bool."""
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def arithmetic(work: Elementwise, operands: Sequence[IndexFunction], dtypes: Sequence[np.dtype[Any]]) -> IndexFunction | None:
    """What the step makes of an index, whose operands are functions of that index; results wrap around as NumPy's do.

    dtypes: of the operands. None where it is no function in at most MOST_PIECES pieces: a product of two that move, a remainder
    over a wide range; nor where NumPy computes in another type than integers.
    """
    steps = [computed_in(work, dtypes), work.dtype]
    if any(dtype.kind not in "biu" for dtype in steps):
        return None
    found: list[Piece] = []
    for low, high, pieces in refined(operands):
        parts = _parts(work.operator, low, high, pieces)
        for dtype in steps:
            parts = None if parts is None else _wrapped(parts, dtype)
        if parts is None or len(found) + len(parts) > MOST_PIECES:
            return None
        found += parts
    return IndexFunction(tuple(sorted(found, key=lambda piece: piece.low)))


def computed_in(work: Elementwise, dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """The type in which NumPy computes the step, before its result is converted to the output's."""
    if work.operator in _ANSWERS:
        return np.dtype(bool)
    if work.operator == "cast":
        return work.dtype
    return np.result_type(*dtypes[1:] if work.operator == "where" else dtypes)


def truths(condition: IndexFunction) -> tuple[Intervals, Intervals]:
    """The values of the index for which a condition is true, and those for which it is false."""
    false = condition.preimage(0, 0)
    outside = ((-(2**200), -1), (1, 2**200))
    return united(each for low, high in outside for each in condition.preimage(low, high)), false


def _parts(operator: str, low: int, high: int, operands: tuple[Piece, ...]) -> Sequence[Piece] | None:
    """The exact results for low … high, where each operand is one piece, without overflow; None where they are not followed."""
    slopes, constants = [piece.slope for piece in operands], [piece.constant for piece in operands]
    if operator == "cast":
        return [Piece(low, high, slopes[0], constants[0])]
    if operator == "negative":
        return [Piece(low, high, -slopes[0], -constants[0])]
    if operator == "add":
        return [Piece(low, high, sum(slopes), sum(constants))]
    if operator == "multiply":
        return _product(low, high, operands)
    if operator == "remainder":
        return _remainder(low, high, *operands)
    if operator == "not":
        return list(_where(low, high, operands[0], Piece(low, high, 0, 0), Piece(low, high, 0, 1)))
    if operator in ("and", "or"):
        no, yes = Piece(low, high, 0, 0), Piece(low, high, 0, 1)
        second = list(_where(low, high, operands[1], yes, no))
        first = yes if operator == "or" else no
        return [part for each in second for part in _where(each.low, each.high, operands[0], *_branches(operator, first, each))]
    if operator == "where":
        return list(_where(low, high, *operands))
    difference = Piece(low, high, slopes[0] - slopes[1], constants[0] - constants[1])
    if operator == "subtract":
        return [difference]
    if operator in ("minimum", "maximum"):
        smaller, larger = operands if operator == "minimum" else operands[::-1]
        return list(_split(low, high, difference.between(-(2**200), 0), smaller, larger))
    return _comparison(operator, low, high, difference)


def _branches(operator: str, decided: Piece, other: Piece) -> tuple[Piece, Piece]:
    """What and / or give where their first operand is true, and where it is false."""
    return (decided, other) if operator == "or" else (other, decided)


def _comparison(operator: str, low: int, high: int, difference: Piece) -> list[Piece]:
    row, exchanged, negated = _AS_COMPARED[operator]
    if exchanged:
        difference = Piece(low, high, -difference.slope, -difference.constant)
    true = _COMPARED[row](difference)
    return list(_split(low, high, true, Piece(low, high, 0, int(not negated)), Piece(low, high, 0, int(negated))))


def _split(low: int, high: int, inside: tuple[int, int], one: Piece, other: Piece) -> Iterator[Piece]:
    """`one` where a value lies inside, `other` elsewhere."""
    first, last = max(low, inside[0]), min(high, inside[1])
    if first > last:
        first, last = low, low - 1
    for start, end, piece in ((low, first - 1, other), (first, last, one), (last + 1, high, other)):
        if start <= end:
            yield Piece(start, end, piece.slope, piece.constant)


def _where(low: int, high: int, condition: Piece, one: Piece, other: Piece) -> Iterator[Piece]:
    """`other` where the condition is 0, `one` elsewhere."""
    zero = Piece(low, high, condition.slope, condition.constant).between(0, 0)
    return _split(low, high, zero, other, one)


def _product(low: int, high: int, operands: tuple[Piece, ...]) -> list[Piece] | None:
    factor, moving = sorted(operands, key=lambda piece: piece.slope != 0)
    if factor.slope:
        return None
    return [Piece(low, high, factor.constant * moving.slope, factor.constant * moving.constant)]


def _remainder(low: int, high: int, dividend: Piece, divisor: Piece) -> list[Piece] | None:
    """NumPy's: the result has the divisor's sign. Division by 0 is not followed."""
    if divisor.slope or not divisor.constant:
        return None
    return _folded(Piece(low, high, dividend.slope, dividend.constant), divisor.constant, min(0, divisor.constant + 1))


def _wrapped(pieces: Sequence[Piece], dtype: np.dtype[Any]) -> list[Piece] | None:
    """Pieces in the integers of a type. A bool is whether the result is not 0."""
    if dtype.kind == "b":
        no, yes = Piece(0, 0, 0, 0), Piece(0, 0, 0, 1)
        return [part for piece in pieces for part in _where(piece.low, piece.high, piece, yes, no)]
    least, most = whole_range(dtype)
    folded = [_folded(piece, most - least + 1, least) for piece in pieces]
    return None if None in folded else [part for parts in folded for part in parts or ()]


def _folded(piece: Piece, period: int, least: int) -> list[Piece] | None:
    """The results brought into the |period| integers from `least` on by multiples of the period."""
    period = abs(period)
    first, last = ((result - least) // period for result in piece.results)
    if last - first >= MOST_PIECES:
        return None
    found = []
    for turn in range(first, last + 1):
        low, high = piece.between(least + turn * period, least + (turn + 1) * period - 1)
        if low <= high:
            found.append(Piece(low, high, piece.slope, piece.constant - turn * period))
    return sorted(found, key=lambda each: each.low)


def agree(one: IndexFunction, other: IndexFunction) -> bool:
    """Whether both functions are equal wherever both are defined."""
    shared = common(one.domain, other.domain)
    return one.restricted(shared) == other.restricted(shared)
