"""The sizes over which formulas walk their tensors: merged, split, and brought together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from dmlgather.equivalence.symbols import NOTHING, Formula, Sum, SymbolicTensor, mapped, sums
from dmlgather.plan import packed_strides


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
