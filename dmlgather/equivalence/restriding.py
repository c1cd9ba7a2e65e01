"""Numbers at points as sums again: strides where they are strided, tables in between."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from dmlgather.equivalence.symbols import Sum, plus
from dmlgather.equivalence.tables import Integers, Tables, check_differences


def strided_sums(tables: Tables, numbers: Sequence[Integers]) -> tuple[tuple[int, ...], list[Sum]]:
    """Sizes and a sum for each array of numbers. What is strided at the outer or the inner end gets strides, the rest in
    between is a table. OverflowError where a table does not hold their differences.
    """
    for each in numbers:
        check_differences(each)
    block = np.stack(numbers)
    outer: list[tuple[int, list[int]]] = []
    inner: list[tuple[int, list[int]]] = []
    count = 0
    while count != 1:
        count, steps = _run(block)
        if count > 1:
            inner.insert(0, (count, steps))
            block = block[:, ::count]
        repeats, steps = _repeats(block)
        if repeats > 1:
            outer.append((repeats, steps))
            block = block[:, : block.shape[1] // repeats]
            count = 0
    between = [block.shape[1]] if block.shape[1] > 1 else []
    sizes = (*(size for size, _ in outer), *between, *(size for size, _ in inner))
    shape = [1] * len(outer) + between + [1] * len(inner)
    found = []
    for row, each in enumerate(block):
        strides = [*(steps[row] for _, steps in outer), *(0 for _ in between), *(steps[row] for _, steps in inner)]
        found.append(plus(tables.table(each.reshape(shape)), Sum(0, tuple(strides))))
    return sizes, found


def _run(block: Integers) -> tuple[int, list[int]]:
    """The longest inner dimension that each row walks by one stride, the same one everywhere: its size and the strides."""
    count = block.shape[1]
    if count == 1:
        return 1, []
    moves = np.diff(block, axis=1)
    breaks = np.flatnonzero((moves != moves[:, :1]).any(axis=0)) + 1
    return int(np.gcd.reduce(breaks, initial=count)), moves[:, 0].tolist()


def _divisors(count: int) -> list[int]:
    small = [each for each in range(1, isqrt(count) + 1) if count % each == 0]
    return sorted({*small, *(count // each for each in small)})


def _repeats(block: Integers) -> tuple[int, list[int]]:
    """The longest outer dimension that each row walks by one stride: its size and the strides."""
    count = block.shape[1]
    moves = np.diff(block, axis=1)
    for period in _divisors(count)[:-1]:
        same = (moves[:, :1] == moves[:, period : period + 1]).all()
        if same and (moves[:, period:] == moves[:, :-period]).all():
            return count // period, (block[:, period] - block[:, 0]).tolist()
    return 1, []
