"""PyTorch's gathers and index expressions as functions on tensors."""
# ruff: noqa: A002 - PyTorch's names of parameters

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
    input: Any, dim: int, index: Any, *, out: Any = None, out_of_bounds: str | Fill | None = None, device: str | None = None
) -> TorchRequest:
    """Return torch.index_select: output[lead…, i, trail…] = input[lead…, index[i], trail…]. With dim 1, this is x[:, index].

    `input`: shape [lead…, n, trail…], any type of PyTorch except complex32. `dim`: the dimension of size n. `index`: int32 or
    int64, shape [i] or []. Negative indices are out of range. The result has shape [lead…, i, trail…].

    Raises like PyTorch: IndexError for an index or `dim` out of range, and if `index` has several dimensions; RuntimeError if
    `index` has another type. If `input` has several dimensions, an index out of range raises RuntimeError in two cases: `dim`
    is 1, or `input` is empty.

    >>> dg.torch.index_select(np.array([[10, 20, 30], [40, 50, 60]]), 1, np.array([2, 0])).tolist()
    [[30, 10], [60, 40]]
    """
    return TorchRequest(partial(TorchIndexSelect, dim=dim), {"input": input, "index": index}, out_of_bounds, device, out)


@TorchFunction
def gather(
    input: Any,
    dim: int,
    index: Any,
    *,
    sparse_grad: bool = False,  # noqa: ARG001 - for gradients, which are not recorded
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """Return torch.gather: output[c] = input[c with c[dim] replaced by index[c]].

    `input`: shape [n…]. `index`: int32 or int64, with the rank of `input`. Except along `dim`, no dimension of `index` is
    larger than in `input`. Negative indices are out of range. `sparse_grad` is ignored. The result has the shape of `index`.

    Raises like PyTorch: RuntimeError for an index out of range, if `index` has another type, and for shapes that do not fit;
    IndexError for a dim out of range.

    >>> dg.torch.gather(np.array([[10, 20], [30, 40]]), 1, np.array([[1, 0, 1], [0, 0, 1]])).tolist()
    [[20, 10, 20], [30, 30, 40]]
    """
    return TorchRequest(partial(TorchGather, dim=dim), {"input": input, "index": index}, out_of_bounds, device, out)


@TorchFunction
def take(
    input: Any, index: Any, *, out: Any = None, out_of_bounds: str | Fill | None = None, device: str | None = None
) -> TorchRequest:
    """Return torch.take: output[i…] = input.reshape(-1)[index[i…]].

    `input`: any shape; it is copied if it is not contiguous. `index`: int64, any shape; negative indices count from the end.
    The result has the shape of `index`.

    Raises like PyTorch: IndexError for an index out of range, RuntimeError if `index` has another type.

    >>> dg.torch.take(np.array([[10, 20], [30, 40]]), np.array([3, -4])).tolist()
    [40, 10]
    """
    return TorchRequest(TorchTake, {"input": flattened("input", input), "index": index}, out_of_bounds, device, out)


@TorchFunction
def take_along_dim(
    input: Any,
    indices: Any,
    dim: int | None = None,
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """Return torch.take_along_dim: like gather along `dim`, but `input` and `indices` are broadcast in the other dimensions.

    `input`, `indices`: tensors of equal rank; except along `dim`, sizes are equal, or 1. `indices`: int64. As in PyTorch,
    indices are taken modulo the size of dimension `dim`, so no index is out of range. If `out_of_bounds` is given, its rule
    applies instead, and negative indices count from the end. `dim`: an integer. None means `gather` on the flattened `input`
    and `indices`; then `indices` may also be int32. The result has the broadcast shape.

    A plan cannot compute remainders. So if `dim` is an integer, the method `plan` needs `out_of_bounds`, and there is no
    DirectML descriptor.

    Raises like PyTorch: RuntimeError for shapes that do not fit, and if `indices` has another type; IndexError for a dim out of
    range.

    >>> dg.torch.take_along_dim(np.array([[10, 20, 30], [40, 50, 60]]), np.array([[-1, 5]]), 1).tolist()
    [[30, 30], [60, 60]]
    """
    if dim is None:
        arrays = {"input": flattened("input", input), "indices": flattened("indices", indices)}
        return TorchRequest(partial(TorchGather, dim=0), arrays, out_of_bounds, device, out)
    problem, arrays = partial(TorchTakeAlongDim, dim=dim), {"input": input, "indices": indices}
    return TorchRequest(problem, arrays, out_of_bounds, device, out, modulo=out_of_bounds is None)


@TorchFunction
def embedding(  # noqa: PLR0917 - PyTorch's own signature
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,  # noqa: ARG001 - for max_norm
    scale_grad_by_freq: bool = False,  # noqa: ARG001 - for gradients, which are not recorded
    sparse: bool = False,  # noqa: ARG001 - for gradients
    *,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> TorchRequest:
    """Return torch.nn.functional.embedding: output[i…, column] = weight[input[i…], column].

    `input`: the indices, int32 or int64, shape [i…]; negative indices are out of range. `weight`: shape [rows, columns].
    `padding_idx`, `scale_grad_by_freq` and `sparse` only affect gradients. `padding_idx` is checked; `scale_grad_by_freq` and
    `sparse` are ignored. The result has shape [i…, columns].

    Raises like PyTorch: IndexError for an index out of range (RuntimeError if `weight` is empty), RuntimeError if `input` has
    another type or `weight` another rank, AssertionError for a `padding_idx` out of range. Raises ValueError if `max_norm` is
    given, because it would change the values of `weight`.

    >>> dg.torch.embedding(np.array([[2, 0]]), np.array([[1, 2], [3, 4], [5, 6]])).tolist()
    [[[5, 6], [1, 2]]]
    """
    if max_norm is not None:
        raise ValueError(
            f"max_norm is {max_norm}, which would change rows of weight: scale the rows first, and leave max_norm out"
        )

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


LONGEST_SEQUENCE = 31
"""PyTorch's limit: it takes a longer list as one index tensor, not as a tuple of entries."""


@TorchFunction
def index(
    input: Any, indices: Any, *, out: Any = None, out_of_bounds: str | Fill | None = None, device: str | None = None
) -> TorchRequest:
    """Return x[indices] as a copy.

    `indices`: an entry or a tuple of entries. Entries are integers, slices with steps of 1 or more, `...`, None, lists, index
    tensors of int32 or int64, and masks of bool or uint8. The host waits for a mask on a GPU, because the result's shape
    depends on its values. `numpy.s_[:, ids]` makes a tuple of entries. For plans and descriptors, a pair (shape, dtype) can
    replace an index tensor. Negative indices count from the end.

    Raises like PyTorch: IndexError for an index out of range, a mask with other sizes than `input`, index tensors that cannot
    be broadcast, and an entry of another kind; ValueError for a step below 1; TypeError for slices that do not consist of
    integers.

    >>> dg.torch.index(np.array([[10, 20, 30], [40, 50, 60]]), np.s_[:, [2, 0]]).tolist()
    [[30, 10], [60, 40]]
    """
    parsed = [_read(number, item) for number, item in enumerate(_entries(indices))]
    entries = [entry for entry, _ in parsed]
    index_arrays = [array for _, arrays in parsed for array in arrays]

    def problem(data: TensorType, *_: TensorType) -> Problem:
        return gathers.index(data, entries)

    arguments = {"input": input}
    masks = [entry for entry in entries if isinstance(entry, Mask)]
    # The entry True is a mask without indices: it only adds a dimension.
    if any(isinstance(entry, TensorType) for entry in entries) or any(mask.shape or not mask.count for mask in masks):
        arguments["indices"] = _stacked(input, entries, index_arrays)
    return TorchRequest(problem, arguments, out_of_bounds, device, out, keyed=False)


def _entries(indices: Any) -> Sequence[Any]:
    """Return the argument `indices` of `index` as a sequence of entries.

    Like PyTorch, take a short list as several entries if it contains something other than numbers and bools.
    """
    if isinstance(indices, tuple):
        return (indices,) if _is_placeholder(indices) else indices
    if not isinstance(indices, list) or len(indices) > LONGEST_SEQUENCE:
        return (indices,)
    kinds = (slice, list, tuple, type(None), type(...))
    return indices if any(isinstance(item, kinds) or hasattr(item, "shape") for item in indices) else (indices,)


def _is_placeholder(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], tuple) and is_type(item[1])


def _read(number: int, item: Any) -> tuple[Entry, tuple[Any, ...]]:
    """Parse the entry at position `number`. Return the entry, with a type in place of an array, and its index arrays.

    For a pair (shape, dtype), return the type twice: as the entry, and in place of its index array.
    """
    if item is None or item is ...:
        return item, ()
    if isinstance(item, slice):
        return slice(*(_bound(number, bound) for bound in (item.start, item.stop, item.step))), ()
    is_byte_mask = torch_tensors.is_torch(item) and numpy_type(item.dtype) == np.uint8  # even of rank 0
    if is_integer(item) and not is_byte_mask:
        return integer(f"entry {number}", item), ()
    if _is_placeholder(item):
        placeholder = type_of(f"entry {number}", item)
        _check_type(number, placeholder.dtype)
        return placeholder, (placeholder,)
    if isinstance(item, np.bool):
        raise IndexError(f"entry {number} is {item!r}, expected Python's bool, or a tensor of bools")
    if isinstance(item, str | bytes):
        raise TypeError(f"entry {number} is {item!r}, expected an integer, a slice, ..., None, a list or a tensor")
    array = item if hasattr(item, "shape") and hasattr(item, "dtype") else _converted(number, item)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.dtype != np.uint8:
        array = array.astype(POSITIONS, copy=False)  # as in PyTorch, NumPy arrays may have any integer type
    dtype = numpy_type(array.dtype)
    if dtype.kind == "b" or dtype == np.uint8:
        return _mask(array)
    _check_type(number, dtype)
    return TensorType(tuple(array.shape), dtype), (array,)


def _bound(number: int, value: Any) -> Any:
    """Return the start, stop or step of a slice as an integer, or None."""
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
    if not isinstance(item, list | tuple | range | bool):
        raise IndexError(
            f"entry {number} is {item!r}, expected an integer, a slice, ..., None, a list, or a tensor of integers or bools"
        )
    array = np.asarray(item)  # ValueError for lists of unequal lengths
    if array.size and array.dtype.kind not in "biu":
        raise IndexError(f"entry {number} is {item!r}, expected integers or bools")
    return array if array.size else array.astype(POSITIONS)


def _mask(array: Any) -> tuple[Mask, tuple[Any, ...]]:
    if torch_tensors.is_torch(array):
        index_arrays = array.nonzero(as_tuple=True) if array.dim() else ()
    else:
        index_arrays = array.nonzero() if array.ndim else ()
    count = len(index_arrays[0]) if index_arrays else int(bool(array))
    return Mask(tuple(array.shape), count), index_arrays


def _stacked(data: Any, entries: Sequence[Entry], arrays: Sequence[Any]) -> Any:
    """Combine index arrays to one index tensor on the device of `data`. If an array is only a type, return only a type."""
    if any(isinstance(array, TensorType) for array in arrays):
        return stacked_type(entries)
    if not torch_tensors.is_torch(data) and not any(map(torch_tensors.is_torch, arrays)):
        moved, home = memory.together(arrays, memory.home_of(data) if hasattr(data, "__dlpack_device__") else CPU)
        with home.current():
            indices = stacked(entries, moved)
        return memory.move(indices, memory.home_of(indices), home)
    torch = sys.modules["torch"]
    result = stacked_type(entries)
    device = data.device if torch_tensors.is_torch(data) else "cpu"
    shape = result.shape if len(arrays) == 1 else result.shape[:-1]
    tensors = [torch.as_tensor(array, device=device).expand(shape) for array in arrays]
    if not tensors:
        return torch.empty(result.shape, dtype=torch.int64, device=device)
    dtype = getattr(torch, result.dtype.name)
    return tensors[0].to(dtype) if len(tensors) == 1 else torch.stack([tensor.to(dtype) for tensor in tensors], -1)
