"""The shape rules of jax.lax.gather, in JAX's order: the first that does not hold is a TypeError with the field and its values.

Two rules are stricter than JAX's. The slice size of a batching dimension is 1; JAX takes 0 too, and its backends then differ. A
slice size that only JAX's compiler refuses is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

from dmlgather.lax.problems.dimension_numbers import GatherDimensionNumbers


def check_shapes(
    operand: tuple[int, ...], indices: tuple[int, ...], numbers: GatherDimensionNumbers, sizes: tuple[int, ...]
) -> None:
    """TypeError for shapes, dimension numbers and slice sizes that do not go together.

    operand, indices: their shapes; sizes: slice_sizes.
    """
    if not indices:
        _refuse("start_indices has rank 0", "rank 1 or more, index vectors along its last dimension")
    _check_dims(numbers, "offset_dims", "sorted unique range", len(numbers.offset_dims) + len(indices) - 1, "the result")
    _check_operand_dims(numbers, operand, indices)
    _check_indices_batching(numbers, operand, indices)
    _check_sizes(numbers, operand, indices, sizes)


def _check_operand_dims(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int]) -> None:
    dims, rank = numbers.start_index_map, len(operand)
    if len(dims) != indices[-1]:
        _refuse(
            f"start_index_map is {dims}", f"{indices[-1]} entries, one per component of start_indices, shape {tuple(indices)}"
        )
    _check_dims(numbers, "start_index_map", "range unique", rank, "operand")
    _check_dims(numbers, "collapsed_slice_dims", "sorted range unique", rank, "operand")
    _check_dims(numbers, "operand_batching_dims", "unique sorted range", rank, "operand")
    batching = numbers.operand_batching_dims
    for name in ("collapsed_slice_dims", "start_index_map"):
        if not set(getattr(numbers, name)).isdisjoint(batching):
            _refuse(f"{name} is {getattr(numbers, name)} and operand_batching_dims {batching}", "no dimension in both")


def _check_indices_batching(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int]) -> None:
    of_operand, of_indices = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    _check_dims(numbers, "start_indices_batching_dims", "unique range", len(indices), "start_indices")
    if len(indices) - 1 in of_indices:
        _refuse(f"start_indices_batching_dims is {of_indices}", f"none to be {len(indices) - 1}, which holds the index vectors")
    if len(of_operand) != len(of_indices):
        _refuse(f"operand_batching_dims is {of_operand} and start_indices_batching_dims {of_indices}", "equally many")
    for dim, other in zip(of_operand, of_indices, strict=True):
        if operand[dim] != indices[other]:
            _refuse(
                f"batching dimension {dim} of operand has size {operand[dim]} and {other} of start_indices {indices[other]}",
                "equal sizes",
            )


def _check_sizes(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int], sizes: tuple[int, ...]) -> None:
    if len(sizes) != len(operand):
        _refuse(f"slice_sizes is {sizes}", f"{len(operand)} entries, one per dimension of operand")
    offset, collapsed, batching = numbers.offset_dims, numbers.collapsed_slice_dims, numbers.operand_batching_dims
    if len(sizes) != len(offset) + len(collapsed) + len(batching):
        _refuse(
            f"slice_sizes is {sizes}, offset_dims {offset}, collapsed_slice_dims {collapsed}, operand_batching_dims {batching}",
            f"the last three to have {len(sizes)} entries together: each dimension of operand is kept, collapsed or batching",
        )
    # JAX takes any window size where nothing is looked up and the result is empty.
    windows = [size for dim, size in enumerate(sizes) if dim not in (*collapsed, *batching)]
    empty = 0 in indices and 0 in (*indices[:-1], *windows)
    for dim, (size, most) in enumerate(zip(sizes, operand, strict=True)):
        if size < 0 or (size > most and not empty):
            _refuse(f"slice_sizes[{dim}] is {size}", f"0 … {most}, operand's size there")
    for name in ("collapsed_slice_dims", "operand_batching_dims"):
        for dim in getattr(numbers, name):
            if sizes[dim] != 1:
                _refuse(f"slice_sizes[{dim}] is {sizes[dim]}", f"1, since {name} names that dimension")


def _check_dims(numbers: GatherDimensionNumbers, name: str, rules: str, rank: int, what: str) -> None:
    """TypeError unless the dimensions in a field are "sorted", "unique" and in "range". rules: in the order of JAX's checks."""
    dims = getattr(numbers, name)
    for rule in rules.split():
        if rule == "sorted" and any(after < before for before, after in pairwise(dims)):
            _refuse(f"{name} is {dims}", "ascending order")
        if rule == "unique" and len(set(dims)) < len(dims):
            _refuse(f"{name} is {dims}", "each dimension once")
        if rule == "range" and (bad := [dim for dim in dims if not 0 <= dim < rank]):
            legal = f"0 … {rank - 1}" if rank else "none"
            _refuse(f"{name} is {dims}", f"dimensions of {what}, which has rank {rank} ({legal}), and {bad[0]} is not one")


def _refuse(found: str, expected: str) -> NoReturn:
    raise TypeError(f"{found}; expected {expected}")
