"""Formulas at tables of points: what strides cannot say, as arrays; and arrays that are strided, as strides again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_arithmetic import whole_range
from dmlgather.equivalence.symbols import (
    NOTHING,
    Addend,
    Formula,
    Leaves,
    Pointwise,
    Read,
    Sum,
    SymbolicTensor,
    mapped,
    sums,
    total,
)
from dmlgather.plan import packed_strides, reach
from dmlgather.plan.index_function import IndexFunction, Intervals, Piece

MOST_POINTS = 2**20
"""Tensors with more elements are compared by strides alone."""

Integers = NDArray[np.int64]

Coordinates = Sequence[Integers]
"""Of each dimension, arrays that broadcast with each other."""


def grid(sizes: Sequence[int]) -> Coordinates:
    """The coordinates of all points, each array long in its own dimension only."""
    return [
        np.arange(size, dtype=np.int64).reshape([-1 if other == axis else 1 for other in range(len(sizes))])
        for axis, size in enumerate(sizes)
    ]


def strided(each: Sum, coordinates: Coordinates) -> Integers:
    """The integers offset + coordinates · strides, of the shape in which they vary."""
    found = np.full((1,) * (coordinates[0].ndim if coordinates else 0), each.offset, np.int64)
    for stride, coordinate in zip(each.strides, coordinates, strict=True):
        if stride:
            found = found + stride * coordinate
    return found


def fit(low: int, high: int) -> bool:
    """Whether tables hold all integers from `low` to `high`; they do not hold the large ones of uint64."""
    return low >= -(2**63) and high < 2**63


def applied(function: IndexFunction, values: Integers) -> Integers | None:
    """The function of each value; None where it is not defined for one of them, or where a table may not hold the result."""
    if not values.size:
        return values
    least, most = int(values.min()), int(values.max())
    pieces = [piece for piece in function.pieces if piece.low <= most and piece.high >= least]
    if len(pieces) == 1 and pieces[0].low <= least and most <= pieces[0].high:
        return _on_piece(pieces[0], values)
    found, defined = np.zeros_like(values), np.zeros(values.shape, bool)
    for piece in pieces:
        inside = (values >= piece.low) & (values <= piece.high)
        if inside.any():
            results = _on_piece(piece, values[inside])
            if results is None:
                return None
            found[inside] = results
        defined |= inside
    return found if defined.all() else None


def _on_piece(piece: Piece, values: Integers) -> Integers | None:
    """As `applied`, for values that all lie in one piece."""
    if (piece.slope, piece.constant) == (1, 0):
        return values
    if not fit(*piece.results) or not fit(piece.slope, piece.slope):
        return None
    start = max(piece.low, -(2**63))
    return piece.slope * (values - start) + piece.at(start)


def as_table(integers: NDArray[Any]) -> Integers | None:
    """Integers of any type as a table; None where it does not hold them."""
    return integers.astype(np.int64) if not integers.size or fit(0, int(integers.max())) else None


def check_differences(numbers: Integers) -> None:
    """OverflowError unless a table holds all differences of these numbers, and twice as much."""
    if int(numbers.max()) - int(numbers.min()) >= 2**62:
        raise OverflowError("the numbers differ by 2^62 or more")


def among(values: Integers, allowed: Intervals) -> NDArray[np.bool_]:
    """Whether each value is one of those that are allowed."""
    found = np.zeros(values.shape, bool)
    for low, high in allowed:
        found |= (values >= low) & (values <= high)
    return found


class Tables:
    """Evaluates what is known of formulas, and makes formulas of arrays."""

    def __init__(self, leaves: Leaves) -> None:
        self.leaves = leaves

    def span(self, each: Sum, sizes: Sequence[int]) -> tuple[int, int]:
        """A range that holds the sum at every point of a tensor that has elements."""
        low, high = reach(sizes, each.strides, each.offset)
        return low + sum(addend.function.low for addend in each.addends), high + sum(
            addend.function.high for addend in each.addends
        )

    def value_range(self, formula: Formula, sizes: Sequence[int]) -> tuple[int, int]:
        """A range that holds the integers that a formula gives."""
        content = formula.content
        if isinstance(content, Sum):
            low, high = self.span(content, sizes)
        elif isinstance(content, Read):
            array = self.leaves.integers.get(content.leaf)
            low, high = whole_range(content.leaf.dtype) if array is None else (int(array.min()), int(array.max()))
        else:
            low, high = self._computed_range(content, sizes)
        fills = [  # guards hold the large integers of uint64 as bytes
            guard.fill if isinstance(guard.fill, int) else int.from_bytes(guard.fill, sys.byteorder) for guard in formula.guards
        ]
        return min([low, *fills]), max([high, *fills])

    def _computed_range(self, content: Pointwise, sizes: Sequence[int]) -> tuple[int, int]:
        """A range that holds what arithmetic gives: of a remainder, that of its divisor where it is known."""
        least, most = whole_range(content.work.dtype)
        if content.work.operator == "remainder":
            low, high = self.value_range(content.operands[1], sizes)
            if low == high != 0 and least <= low <= most:
                return min(0, low + 1), max(0, low - 1)
        return least, most

    def fits(self, each: Sum, coordinates: Coordinates) -> bool:
        """Whether a table holds the sum at each point."""
        low, high = self.span(each, [int(coordinate.max(initial=0)) + 1 for coordinate in coordinates])
        return fit(min(low, each.offset), max(high, each.offset))

    def known_over(self, formula: Formula, sizes: Sequence[int]) -> Integers | None:
        """The integers that a formula gives over all points, likewise; None where it varies over too many, too."""
        moves = [each.strides for each in sums(formula)]
        along = [size if any(move[axis] for move in moves) else 1 for axis, size in enumerate(sizes)]
        return self.known_formula(formula, grid(along)) if prod(along) <= MOST_POINTS else None

    def known(self, each: Sum, coordinates: Coordinates) -> Integers | None:
        """The sum at each point, of the shape in which it varies; None where it depends on what is unknown, or is too large."""
        if not self.fits(each, coordinates):
            return None
        found = strided(each, coordinates)
        for addend in each.addends:
            values = self.known_formula(addend.formula, coordinates)
            results = None if values is None else applied(addend.function, values)
            if results is None:
                return None
            found = found + results
        return found

    def known_formula(self, formula: Formula, coordinates: Coordinates) -> Integers | None:
        """The integers that a formula gives, likewise."""
        content = formula.content
        if formula.guards:
            return None
        if isinstance(content, Sum):
            return self.known(content, coordinates)
        if isinstance(content, Read):
            array = self.leaves.integers.get(content.leaf)
            at = None if array is None else self.known(content.at, coordinates)
            return None if array is None or at is None else array[at]
        operands = [self.known_formula(operand, coordinates) for operand in content.operands]
        if content.work.dtype.kind not in "biu" or any(operand is None for operand in operands):
            return None
        arrays = [each.astype(dtype) for each, dtype in zip(operands, content.dtypes, strict=True) if each is not None]
        return as_table(content.work.compute(arrays))

    def table(self, numbers: Integers) -> Sum:
        """The sum that is these numbers: strided if they are, else read from a constant. numbers: one dimension for each of the
        points, of its size, or 1 where they do not vary along it. OverflowError where a table does not hold their differences.
        """
        check_differences(numbers)
        first = int(numbers.flat[0])
        steps = tuple(
            int(numbers[(0,) * axis + (1,) + (0,) * (numbers.ndim - axis - 1)]) - first if size > 1 else 0
            for axis, size in enumerate(numbers.shape)
        )
        if (numbers == strided(Sum(first, steps), grid(numbers.shape))).all():
            return Sum(first, steps)
        strides = [stride if size > 1 else 0 for stride, size in zip(packed_strides(numbers.shape), numbers.shape, strict=True)]
        least, most = int(numbers.min()), int(numbers.max())
        read = Formula(Read(self.leaves.constant(numbers - least), Sum(0, tuple(strides))))
        return total(least, (0,) * numbers.ndim, [Addend(IndexFunction.identity(0, most - least), read)])

    def at_places(self, formula: Formula, coordinates: Coordinates) -> Formula:
        """The formula over the points with these coordinates of its own: arrays of one dimension."""
        return mapped(formula, lambda offset, strides: self.table(self._along(Sum(offset, strides), coordinates)))

    @staticmethod
    def _along(each: Sum, coordinates: Coordinates) -> Integers:
        return np.broadcast_to(strided(each, coordinates), coordinates[0].shape)


# The sizes over which formulas walk their tensors: merged, split, and brought together.


def split(formula: Formula, sizes: Sequence[int], finer: Sequence[int]) -> Formula:
    """The formula over sizes as one over finer ones: each size is the product of some of them, in order."""
    if tuple(sizes) == tuple(finer):
        return formula
    groups, rest = [], list(finer)
    for size in sizes:
        parts: list[int] = []
        while prod(parts) < size:
            parts.append(rest.pop(0))
        groups.append(packed_strides(parts))

    def change(offset: int, strides: tuple[int, ...]) -> Sum:
        return Sum(offset, tuple(stride * step for stride, steps in zip(strides, groups, strict=True) for step in steps))

    return mapped(formula, change)


def merged(tensor: SymbolicTensor) -> SymbolicTensor:
    """The tensor over as few dimensions as can be: without those of size 1, and neighbours joined that move as one."""
    if 0 in tensor.sizes:
        return SymbolicTensor((0,), NOTHING, tensor.dtype)
    moves = [each.strides for each in sums(tensor.formula)]
    sizes: list[int] = []
    kept: list[int] = []
    for axis, size in enumerate(tensor.sizes):
        if size == 1:
            continue
        if kept and all(move[kept[-1]] == size * move[axis] for move in moves):
            sizes[-1] *= size
            kept[-1] = axis
        else:
            sizes.append(size)
            kept.append(axis)
    if tuple(sizes) == tensor.sizes:
        return tensor
    formula = mapped(tensor.formula, lambda offset, strides: Sum(offset, tuple(strides[axis] for axis in kept)))
    return SymbolicTensor(tuple(sizes), formula, tensor.dtype)


def moving(tensor: SymbolicTensor) -> SymbolicTensor:
    """The tensor without dimensions along which its elements do not change."""
    kept = [axis for axis in range(len(tensor.sizes)) if any(each.strides[axis] for each in sums(tensor.formula))]
    if len(kept) == len(tensor.sizes):
        return merged(tensor)
    formula = mapped(tensor.formula, lambda offset, strides: Sum(offset, tuple(strides[axis] for axis in kept)))
    return merged(SymbolicTensor(tuple(tensor.sizes[axis] for axis in kept), formula, tensor.dtype))


def finest(*several: Sequence[int]) -> tuple[int, ...] | None:
    """The sizes of which all of these are products of neighbours; all have the same product. None where there are none."""
    cuts = sorted({step * size for sizes in several for step, size in zip(packed_strides(sizes), sizes, strict=True)} | {1})
    if any(high % low for low, high in pairwise(cuts)):
        return None
    return tuple(high // low for low, high in reversed([*pairwise(cuts)]))
