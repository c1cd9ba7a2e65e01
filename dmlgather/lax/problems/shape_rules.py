"""The shape rules of jax.lax.gather, in JAX's order: the first that does not hold is a TypeError with the field and its values.

Two are stricter than JAX's: a batching dimension's slice size is 1, where JAX takes 0 and each of its backends does as it likes;
and what JAX lets pass here to refuse it in its compiler is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dmlgather.lax.problems.dimension_numbers import GatherDimensionNumbers


def check_shapes(
    operand: tuple[int, ...], indices: tuple[int, ...], numbers: GatherDimensionNumbers, sizes: tuple[int, ...]
) -> None:
    """TypeError for shapes, dimension numbers and slice sizes that do not go together.

    operand, indices: their shapes; sizes: slice_sizes.
    """
    if not indices:
        _refuse("start_indices has rank 0", "rank 1 or more, index vectors along its last dimension")
    _check_offsets(numbers, len(indices))
    _check_start_index_map(numbers, operand, indices)
    _check_collapsed_and_batching(numbers, operand)
    _check_indices_batching(numbers, operand, indices)
    _check_sizes(numbers, operand, indices, sizes)


def _check_offsets(numbers: GatherDimensionNumbers, index_rank: int) -> None:
    dims = numbers.offset_dims
    _check_sorted("offset_dims", dims)
    _check_unique("offset_dims", dims)
    _check_range("offset_dims", dims, len(dims) + index_rank - 1, "the result")


def _check_start_index_map(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int]) -> None:
    dims = numbers.start_index_map
    if len(dims) != indices[-1]:
        _refuse(
            f"start_index_map is {dims}", f"{indices[-1]} entries, one per component of start_indices, shape {tuple(indices)}"
        )
    _check_range("start_index_map", dims, len(operand), "operand")
    _check_unique("start_index_map", dims)


def _check_collapsed_and_batching(numbers: GatherDimensionNumbers, operand: Sequence[int]) -> None:
    collapsed, batching = numbers.collapsed_slice_dims, numbers.operand_batching_dims
    _check_sorted("collapsed_slice_dims", collapsed)
    _check_range("collapsed_slice_dims", collapsed, len(operand), "operand")
    _check_unique("collapsed_slice_dims", collapsed)
    _check_unique("operand_batching_dims", batching)
    _check_sorted("operand_batching_dims", batching)
    _check_range("operand_batching_dims", batching, len(operand), "operand")
    for name, dims in (("collapsed_slice_dims", collapsed), ("start_index_map", numbers.start_index_map)):
        if not set(dims).isdisjoint(batching):
            _refuse(f"{name} is {dims} and operand_batching_dims {batching}", "no dimension in both")


def _check_indices_batching(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int]) -> None:
    ours, theirs = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    _check_unique("start_indices_batching_dims", theirs)
    _check_range("start_indices_batching_dims", theirs, len(indices), "start_indices")
    if len(indices) - 1 in theirs:
        _refuse(f"start_indices_batching_dims is {theirs}", f"none to be {len(indices) - 1}, which holds the index vectors")
    if len(ours) != len(theirs):
        _refuse(f"operand_batching_dims is {ours} and start_indices_batching_dims {theirs}", "equally many")
    for mine, other in zip(ours, theirs, strict=True):
        if operand[mine] != indices[other]:
            _refuse(
                f"batching dimension {mine} of operand has size {operand[mine]} and {other} of start_indices {indices[other]}",
                "equal sizes",
            )


def _check_sizes(numbers: GatherDimensionNumbers, operand: Sequence[int], indices: Sequence[int], sizes: tuple[int, ...]) -> None:
    if len(sizes) != len(operand):
        _refuse(f"slice_sizes is {sizes}", f"{len(operand)} entries, one per dimension of operand")
    kept, collapsed, batching = numbers.offset_dims, numbers.collapsed_slice_dims, numbers.operand_batching_dims
    if len(sizes) != len(kept) + len(collapsed) + len(batching):
        _refuse(
            f"slice_sizes is {sizes}, offset_dims {kept}, collapsed_slice_dims {collapsed}, operand_batching_dims {batching}",
            f"the last three to have {len(sizes)} entries together: each dimension of operand is kept, collapsed or batching",
        )
    # Where there are no indices and no window has elements to take, JAX lets its size pass.
    windows = [size for dimension, size in enumerate(sizes) if dimension not in (*collapsed, *batching)]
    nothing = 0 in indices and 0 in (*indices[:-1], *windows)
    for dimension, (size, most) in enumerate(zip(sizes, operand, strict=True)):
        if size < 0 or (size > most and not nothing):
            _refuse(f"slice_sizes[{dimension}] is {size}", f"0 … {most}, operand's size there")
    for dimension in collapsed:
        if sizes[dimension] != 1:
            _refuse(f"slice_sizes[{dimension}] is {sizes[dimension]}", "1, since collapsed_slice_dims names that dimension")
    for dimension in batching:
        if sizes[dimension] != 1:
            _refuse(f"slice_sizes[{dimension}] is {sizes[dimension]}", "1, since operand_batching_dims names that dimension")


def _check_sorted(name: str, dims: tuple[int, ...]) -> None:
    if any(after < before for before, after in pairwise(dims)):
        _refuse(f"{name} is {dims}", "ascending order")


def _check_unique(name: str, dims: tuple[int, ...]) -> None:
    if len(set(dims)) < len(dims):
        _refuse(f"{name} is {dims}", "each dimension once")


def _check_range(name: str, dims: tuple[int, ...], rank: int, what: str) -> None:
    for dimension in dims:
        if not 0 <= dimension < rank:
            legal = f"0 … {rank - 1}" if rank else "none"
            _refuse(f"{name} is {dims}", f"dimensions of {what}, which has rank {rank} ({legal}), and {dimension} is not one")


def _refuse(found: str, expected: str) -> None:
    raise TypeError(f"{found}; expected {expected}")
