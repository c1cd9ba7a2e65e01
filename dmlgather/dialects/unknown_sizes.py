"""Sizes to judge a node with where its model does not give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Named = tuple[int | str, ...]
"""A shape whose unknown sizes have names: symbols of the model, or "data[0]" where there is no symbol."""


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes from `low` on, up to `high` where that is not None."""

    low: int
    high: int | None = None

    def both(self, other: Range) -> Range:
        """The sizes in both ranges; `low` exceeds `high` where there are none."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(max(self.low, other.low), min(highs, default=None))

    @property
    def empty(self) -> bool:
        """Whether the range has no size."""
        return self.high is not None and self.low > self.high

    def within(self, size: int) -> int:
        """The size in the range that is nearest to `size`. The range is not empty."""
        return max(self.low, size if self.high is None else min(size, self.high))

    def condition(self, name: str) -> str:
        """The condition that a size is in the range: "N >= 1"."""
        if self.high is None:
            return f"{name} >= {self.low}"
        return f"{name} = {self.low}" if self.low == self.high else f"{self.low} <= {name} <= {self.high}"


def named(role: str, shape: Sequence[int | str | None]) -> Named:
    """The shape of an input with a name for each size that has none."""
    return tuple(f"{role}[{axis}]" if size is None else size for axis, size in enumerate(shape))


def assign(shapes: Iterable[Named], orders: Iterable[tuple[int | str, int | str]], lows: Mapping[str, int]) -> dict[str, int]:
    """A size for each name in the shapes: the smallest, at least `lows` (default 1), such that the first of each pair in
    `orders` is at most the second. Where that is impossible a pair is violated, and the operator's rule will report it.
    """
    names = dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, str))
    pairs = list(orders)
    highs: dict[str, int] = {}
    for _ in names:  # a bound travels along one pair per round
        for small, large in pairs:
            limit = large if isinstance(large, int) else highs.get(large)
            if isinstance(small, str) and limit is not None:
                highs[small] = min(limit, highs.get(small, limit))
    sizes = {name: min(lows.get(name, 1), highs.get(name, lows.get(name, 1))) for name in names}
    for _ in names:
        for small, large in pairs:
            if isinstance(large, str):
                sizes[large] = max(sizes[large], small if isinstance(small, int) else sizes[small])
    return sizes


def concrete(shape: Named, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape with sizes for its names."""
    return tuple(size if isinstance(size, int) else sizes[size] for size in shape)
