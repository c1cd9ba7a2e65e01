"""PyTorch's gathers and index expressions as functions: run them, describe them for DirectML, tell where the two differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dmlgather.backends import arrays as memory
from dmlgather.backends import torch_tensors
from dmlgather.backends.devices import CPU
from dmlgather.calls.arguments import Fill, type_of
from dmlgather.dialects.advanced_indexing import POSITIONS, Entry, Mask, stacked, stacked_type
from dmlgather.dialects.element_types import is_type, numpy_type
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.torch.problems import gathers
from dmlgather.torch.problems.arguments import integer, is_integer
from dmlgather.torch.problems.gathers import (
    INDEX_TYPES,
    TorchEmbedding,
    TorchGather,
    TorchIndexSelect,
    TorchTake,
    TorchTakeAlongDim,
)
from dmlgather.torch.torch_function import TorchFunction, TorchRequest, flattened


@TorchFunction
def index_select(
    input: Any,  # noqa: A002 - PyTorch's name, here and below
    dim: int,
    index: Any,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """torch.index_select: output[lead…, i, trail…] = input[lead…, index[i], trail…], x[:, ids] for dim 1.

    input: shape [lead…, size, trail…], any type of PyTorch's but complex32. dim: the dimension of `size`. index: int32 or int64,
    shape [i] or []. Negative indices are out of range. Returns shape [lead…, i, trail…].

    Raises what PyTorch raises: IndexError for an index out of range (RuntimeError for dim 1 of several, and where input has no
    elements), for another dim, and for an index of several dimensions; RuntimeError for an index of another type.

    >>> dg.torch.index_select(np.array([[10, 20, 30], [40, 50, 60]]), 1, np.array([2, 0])).tolist()
    [[30, 10], [60, 40]]
    """
    return TorchRequest(partial(TorchIndexSelect, dim=dim), {"input": input, "index": index}, out_of_bounds, device, out)


@TorchFunction
def gather(
    input: Any,  # noqa: A002
    dim: int,
    index: Any,
    *,
    sparse_grad: bool = False,  # noqa: ARG001 - of gradients, which are not recorded
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """torch.gather: output[c…] = input[c… with the coordinate along `dim` replaced by index[c…]].

    input: shape [n…]. index: int32 or int64, as many dimensions, off `dim` no larger than input. Negative indices are out of
    range. sparse_grad is ignored. Returns the shape of index.

    Raises what PyTorch raises: RuntimeError for an index out of range or of another type, and for shapes that do not fit;
    IndexError for another dim.

    >>> dg.torch.gather(np.array([[10, 20], [30, 40]]), 1, np.array([[1, 0, 1], [0, 0, 1]])).tolist()
    [[20, 10, 20], [30, 30, 40]]
    """
    return TorchRequest(partial(TorchGather, dim=dim), {"input": input, "index": index}, out_of_bounds, device, out)


@TorchFunction
def take(
    input: Any,  # noqa: A002
    index: Any,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """torch.take: output[i…] = input.reshape(-1)[index[i…]].

    input: of any shape; it is copied if it is not contiguous. index: int64, of any shape; negative ones count from the end.
    Returns the shape of index.

    Raises what PyTorch raises: IndexError for an index out of range, RuntimeError for an index of another type.

    >>> dg.torch.take(np.array([[10, 20], [30, 40]]), np.array([3, -4])).tolist()
    [40, 10]
    """
    return TorchRequest(TorchTake, {"input": flattened("input", input), "index": index}, out_of_bounds, device, out)


@TorchFunction
def take_along_dim(
    input: Any,  # noqa: A002
    indices: Any,
    dim: int | None = None,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """torch.take_along_dim: gather along `dim`, with input and indices broadcast to each other in the other dimensions.

    input, indices: as many dimensions; off `dim` equal sizes, or 1. indices: int64. As in PyTorch, indices count modulo the size
    along `dim`, so that none is out of range; with a policy in `out_of_bounds`, negative ones count from the end once.
    dim: None for `gather` of the flattened input by the flattened indices, which may be int32 too. No plan takes remainders: with
    `dim`, a call has a plan if it has a policy, and no descriptor. Returns the broadcast shape.

    Raises what PyTorch raises: RuntimeError for shapes that do not fit and an index of another type, IndexError for another dim.

    >>> dg.torch.take_along_dim(np.array([[10, 20, 30], [40, 50, 60]]), np.array([[-1, 5]]), 1).tolist()
    [[30, 30], [60, 60]]
    """
    if dim is None:
        arrays = {"input": flattened("input", input), "indices": flattened("indices", indices)}
        return TorchRequest(_gather_of_flat, arrays, out_of_bounds, device, out)
    problem, arrays = partial(TorchTakeAlongDim, dim=dim), {"input": input, "indices": indices}
    return TorchRequest(problem, arrays, out_of_bounds, device, out, modulo=out_of_bounds is None)


def _gather_of_flat(data: TensorType, indices: TensorType) -> Problem:
    return TorchGather(data, indices, 0)


@TorchFunction
def embedding(  # noqa: PLR0917 - PyTorch's own signature
    input: Any,  # noqa: A002
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,  # noqa: ARG001 - of max_norm
    scale_grad_by_freq: bool = False,  # noqa: ARG001 - of gradients, which are not recorded
    sparse: bool = False,  # noqa: ARG001 - likewise
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """torch.nn.functional.embedding: output[i…, column] = weight[input[i…], column].

    input: the indices, int32 or int64, of any shape; negative ones are out of range. weight: shape [rows, columns]. padding_idx,
    scale_grad_by_freq and sparse change gradients alone: padding_idx is checked, the others are ignored. Returns shape
    [i…, columns].

    Raises what PyTorch raises: IndexError for an index out of range (RuntimeError where weight has no elements), RuntimeError for
    another type or a weight of other than two dimensions, AssertionError for a padding_idx out of range. ValueError for a
    max_norm, which would change the values of weight.

    >>> dg.torch.embedding(np.array([[2, 0]]), np.array([[1, 2], [3, 4], [5, 6]])).tolist()
    [[[5, 6], [1, 2]]]
    """
    if max_norm is not None:
        raise ValueError(f"max_norm is {max_norm}, which changes rows of weight before they are read: scale these first")

    def problem(data: TensorType, indices: TensorType) -> Problem:
        if padding_idx is not None:
            row = integer("padding_idx", padding_idx)
            if row and not data.shape:
                raise IndexError(f"weight is {data}, which has no rows: embedding takes two dimensions, [rows, columns]")
            rows = data.shape[0] if data.shape else 0
            if row and not -rows <= row < rows:
                raise AssertionError(f"padding_idx is {row}, but weight has {rows} rows: expected {-rows} … {rows - 1}")
        return TorchEmbedding(data, indices)

    return TorchRequest(problem, {"weight": weight, "input": input}, out_of_bounds, device, out)


# x[…] of a tensor as a function: what stands between the brackets is an argument.


LONGEST_SEQUENCE = 31
"""Entries of a list that PyTorch takes for a tuple where one of them is no number."""


@TorchFunction
def index(
    input: Any,  # noqa: A002 - PyTorch's name
    indices: Any,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """x[indices]: a tensor by an index expression, which is copied where PyTorch gives a view.

    indices: what stands between the brackets, one entry or a tuple of them: integers, slices with steps of 1 or more, `...`,
    None, lists, index tensors of int32 or int64, and masks of bool or uint8, whose values are read. `numpy.s_[:, ids]` spells
    it. An index tensor may be a pair (shape, dtype) where only a plan or a descriptor is wanted. Negative indices count from the
    end.

    Raises what PyTorch raises: IndexError for an index out of range, for a mask of another size, for tensors that cannot be
    broadcast and for other entries; ValueError for a step below 1; TypeError for bounds that are no integers.

    >>> dg.torch.index(np.array([[10, 20, 30], [40, 50, 60]]), np.s_[:, [2, 0]]).tolist()
    [[30, 10], [60, 40]]
    """
    written = [_read(number, item) for number, item in enumerate(_listed(indices))]
    entries = [entry for entry, _ in written]
    arrays = [array for _, found in written for array in found]

    def problem(data: TensorType, *_: TensorType) -> Problem:
        return gathers.index(data, entries)

    given = {"input": input}
    if problem_looks_up(entries):
        given["indices"] = _stacked(input, entries, arrays)
    return TorchRequest(problem, given, out_of_bounds, device, out, keyed=False)


def problem_looks_up(entries: Sequence[Entry]) -> bool:
    """Whether an expression has an index tensor, or a mask that is not simply a new dimension."""
    masks = [entry for entry in entries if isinstance(entry, Mask)]
    tensors = any(isinstance(entry, TensorType) for entry in entries)
    return tensors or any(mask.shape or not mask.count for mask in masks)


def _listed(indices: Any) -> Sequence[Any]:
    """The entries. As in PyTorch, a list is a tuple where one of its entries is neither a number nor a bool."""
    if isinstance(indices, tuple):
        return (indices,) if _is_placeholder(indices) else indices
    short = isinstance(indices, list) and len(indices) <= LONGEST_SEQUENCE
    return indices if short and any(map(_is_no_number, indices)) else (indices,)


def _is_no_number(item: Any) -> bool:
    return item is None or item is ... or isinstance(item, slice | list | tuple) or hasattr(item, "shape")


def _is_placeholder(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], tuple) and is_type(item[1])


def _read(number: int, item: Any) -> tuple[Entry, tuple[Any, ...]]:
    """An entry, and the index arrays that it is; of a placeholder, its type."""
    if item is None or item is ...:
        return item, ()
    if isinstance(item, slice):
        return slice(*(_bound(number, bound) for bound in (item.start, item.stop, item.step))), ()
    byte = torch_tensors.is_torch(item) and numpy_type(item.dtype) == np.uint8  # a mask, also without dimensions
    if is_integer(item) and not byte:
        return integer(f"entry {number}", item), ()
    if _is_placeholder(item):
        found = type_of(f"entry {number}", item)
        _check_type(number, found.dtype)
        return found, (found,)
    if isinstance(item, np.bool):
        raise IndexError(f"entry {number} is {item!r}, expected Python's bool, or a tensor of bools")
    if isinstance(item, str | bytes):
        raise TypeError(f"entry {number} is {item!r}, expected an integer, a slice, ..., None, a list or a tensor")
    array = item if hasattr(item, "shape") and hasattr(item, "dtype") else _converted(number, item)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.dtype != np.uint8:
        array = array.astype(POSITIONS, copy=False)  # as PyTorch, which takes fewer types of its own
    dtype = numpy_type(array.dtype)
    if dtype.kind == "b" or dtype == np.uint8:
        return _mask(array)
    _check_type(number, dtype)
    return TensorType(tuple(array.shape), dtype), (array,)


def _bound(number: int, value: Any) -> Any:
    """A bound of a slice as Python's integer. TypeError for what is none."""
    if value is None:
        return None
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"entry {number} has the bound {value!r}: bounds and steps must be integers or left out") from None


def _check_type(number: int, dtype: np.dtype[Any]) -> None:
    if dtype.name not in INDEX_TYPES:
        raise IndexError(f"entry {number} has type {dtype}, but an index tensor has int32, int64, bool or uint8")


def _converted(number: int, item: Any) -> np.ndarray[Any, Any]:
    """A list, tuple or range of integers or bools as an array. IndexError for anything else."""
    if not isinstance(item, list | tuple | range | bool):
        raise IndexError(
            f"entry {number} is {item!r}, expected an integer, a slice, ..., None, a list, or a tensor of integers or bools"
        )
    array = np.asarray(item)  # ValueError for lists of unequal lengths
    if array.size and array.dtype.kind not in "biu":
        raise IndexError(f"entry {number} is {item!r}, expected integers or bools")
    return array if array.size else array.astype(POSITIONS)


def _mask(array: Any) -> tuple[Mask, tuple[Any, ...]]:
    """A mask, and the index arrays that it stands for."""
    if torch_tensors.is_torch(array):
        found = array.nonzero(as_tuple=True) if array.dim() else ()
        count = len(found[0]) if found else int(bool(array))
    else:
        found = array.nonzero() if array.ndim else ()
        count = len(found[0]) if found else int(bool(array))
    return Mask(tuple(array.shape), count), found


def _stacked(data: Any, entries: Sequence[Entry], arrays: Sequence[Any]) -> Any:
    """The array that the problem's `indices` is, beside data; where one is a placeholder, its type."""
    if any(isinstance(array, TensorType) for array in arrays):
        return stacked_type(entries)
    if not torch_tensors.is_torch(data) and not any(map(torch_tensors.is_torch, arrays)):
        placed, there = memory.together(arrays, memory.home_of(data) if hasattr(data, "__dlpack_device__") else CPU)
        with there.current():
            found = stacked(entries, placed)
        return memory.move(found, memory.home_of(found), there)
    torch = sys.modules["torch"]
    wanted = stacked_type(entries)
    place = data.device if torch_tensors.is_torch(data) else "cpu"
    positions = wanted.shape if len(arrays) == 1 else wanted.shape[:-1]
    spread = [torch.as_tensor(array, device=place).expand(positions) for array in arrays]
    if not spread:
        return torch.empty(wanted.shape, dtype=torch.int64, device=place)
    dtype = getattr(torch, wanted.dtype.name)
    return spread[0].to(dtype) if len(spread) == 1 else torch.stack([each.to(dtype) for each in spread], -1)
