"""PyTorch's views, pixel shuffles and roll as functions that return copies."""
# ruff: noqa: A002 - PyTorch's names of parameters

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dmlgather.backends import torch_tensors
from dmlgather.torch.problems import views, windows
from dmlgather.torch.problems.views import PixelShuffle, PixelUnshuffle
from dmlgather.torch.torch_function import TorchFunction, TorchRequest, contiguous, flattened


def _view(problem: Callable[..., Any], input: Any, out: Any, device: str | None) -> TorchRequest:
    return TorchRequest(problem, {"input": input}, None, device, out)


@TorchFunction
def select(input: Any, dim: int, index: int, *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.select: element `index` along dimension `dim`, which is removed. With dim 1, this is x[:, index].

    `input`: shape [lead…, n, trail…]. `index`: from -n to n - 1. The result has shape [lead…, trail…]. Raises IndexError, like
    PyTorch, for an index or dim out of range.

    >>> dg.torch.select(np.array([[10, 20], [30, 40]]), 1, -1).tolist()
    [20, 40]
    """
    return _view(partial(windows.select, dim=dim, index=index), input, out, device)


@TorchFunction
def narrow(input: Any, dim: int, start: int, length: int, *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.narrow: `length` elements along dimension `dim`, beginning with element `start`.

    `input`: shape [lead…, n, trail…]. `start`: from -n to n; a negative number counts from the end. The result has shape
    [lead…, length, trail…]. Raises like PyTorch: IndexError for a start or dim out of range, RuntimeError for a length that
    does not fit.

    >>> dg.torch.narrow(np.arange(5), 0, -3, 2).tolist()
    [2, 3]
    """
    return _view(partial(windows.narrow, dim=dim, start=start, length=length), input, out, device)


@TorchFunction
def slice(  # noqa: A001 - the operator's name
    input: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Any = None,
    device: str | None = None,
) -> TorchRequest:
    """Return aten::slice: x[start:end:step] along dimension `dim`. `start` and `end` are clamped to the dimension.

    `start`, `end`: negative numbers count from the end. `step`: 1 or more. Raises like PyTorch: IndexError for a dim out of
    range, RuntimeError for a step below 1.

    >>> dg.torch.slice(np.arange(10), 0, 1, -1, 3).tolist()
    [1, 4, 7]
    """
    return _view(partial(windows.slice_along, dim=dim, start=start, end=end, step=step), input, out, device)


@TorchFunction
def flip(input: Any, dims: Sequence[int], *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.flip: input with the dimensions `dims` reversed.

    Raises like PyTorch: IndexError for a dimension out of range, RuntimeError for a repeated dimension.

    >>> dg.torch.flip(np.array([[1, 2], [3, 4]]), (0, 1)).tolist()
    [[4, 3], [2, 1]]
    """
    return _view(partial(windows.flip, dims=dims), input, out, device)


@TorchFunction
def chunk(input: Any, chunks: int, dim: int = 0, *, device: str | None = None) -> TorchRequest:
    """Return torch.chunk: `input`, cut along `dim` into at most `chunks` parts of equal size. The last part may be smaller.

    Raises like PyTorch: RuntimeError for fewer than one chunk, IndexError for a dim out of range.

    >>> [part.tolist() for part in dg.torch.chunk(np.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return _view(partial(windows.chunk, chunks=chunks, dim=dim), input, None, device)


@TorchFunction
def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0, *, device: str | None = None) -> TorchRequest:
    """Return torch.split: `tensor`, cut along `dim` into a tuple of parts.

    `split_size_or_sections`: the size of all parts; the last part may be smaller. Or a list with the size of each part. Raises
    like PyTorch: RuntimeError for sizes that do not fit, IndexError for a dim out of range.

    >>> [part.tolist() for part in dg.torch.split(np.arange(5), [1, 4])]
    [[0], [1, 2, 3, 4]]
    """
    problem = partial(windows.split, split_size_or_sections=split_size_or_sections, dim=dim)
    return TorchRequest(problem, {"tensor": tensor}, None, device)


@TorchFunction
def tensor_split(
    input: Any, indices_or_sections: int | Sequence[int] | Any, dim: int = 0, *, device: str | None = None
) -> TorchRequest:
    """Return torch.tensor_split: `input`, cut along `dim` into a tuple of parts.

    `indices_or_sections`: the number of parts, or a list or tuple of the indices at which parts begin. An int64 tensor in host
    memory can replace the number (rank 0) or the list (rank 1). Raises like PyTorch: RuntimeError for fewer than one part, and
    for a tensor with another type or rank; IndexError for a dim out of range.

    >>> [part.tolist() for part in dg.torch.tensor_split(np.arange(5), (1, 3))]
    [[0], [1, 2], [3, 4]]
    """
    return _view(partial(windows.tensor_split, indices_or_sections=indices_or_sections, dim=dim), input, None, device)


@TorchFunction
def permute(input: Any, dims: Sequence[int], *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.permute: dimension i of the result is dimension dims[i] of input.

    Raises like PyTorch: RuntimeError if `dims` is not a permutation, IndexError for a dimension out of range.

    >>> dg.torch.permute(np.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return _view(partial(views.permute, dims=dims), input, out, device)


@TorchFunction
def transpose(input: Any, dim0: int, dim1: int, *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.transpose: input with two dimensions swapped. Raises IndexError, like PyTorch, for a dimension out of range.

    >>> dg.torch.transpose(np.array([[1, 2], [3, 4]]), 0, 1).tolist()
    [[1, 3], [2, 4]]
    """
    return _view(partial(views.transpose, dim0=dim0, dim1=dim1), input, out, device)


@TorchFunction
def expand(input: Any, size: Sequence[int], *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.Tensor.expand: input with dimensions of size 1 repeated, and with new dimensions in front.

    `size`: a list or tuple of sizes; -1 keeps the size of `input`. Raises RuntimeError, like PyTorch, for sizes that do not
    fit.

    >>> dg.torch.expand(np.array([[1], [2]]), (-1, 3)).tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    return _view(partial(views.expand, size=size), input, out, device)


@TorchFunction
def unfold(input: Any, dimension: int, size: int, step: int, *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.Tensor.unfold: windows of `size` elements along a dimension, in a new last dimension.

    `input`: copied first if it is not contiguous. `step`: the number of elements between the starts of two neighbouring
    windows. Raises like PyTorch: RuntimeError for a size or step that does not fit, IndexError for a dimension out of range.

    >>> dg.torch.unfold(np.arange(5), 0, 3, 2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    problem = partial(views.unfold, dimension=dimension, size=size, step=step)
    return _view(problem, contiguous(input), out, device)


@TorchFunction
def diagonal(
    input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Any = None, device: str | None = None
) -> TorchRequest:
    """Return torch.diagonal: a diagonal of the dimensions `dim1` and `dim2`, as a new last dimension.

    `input`: copied first if it is not contiguous. `offset`: the number of the diagonal; 0 for the main diagonal, positive above
    it, negative below it. Raises like PyTorch: IndexError for a dimension out of range, RuntimeError for equal dimensions.

    >>> dg.torch.diagonal(np.arange(9).reshape(3, 3), 1).tolist()
    [1, 5]
    """
    return _view(partial(views.diagonal, offset=offset, dim1=dim1, dim2=dim2), contiguous(input), out, device)


@TorchFunction
def as_strided(
    input: Any,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    *,
    out: Any = None,
    device: str | None = None,
) -> TorchRequest:
    """Return torch.as_strided: result[i…] = storage[storage_offset + i · stride].

    `storage` is the memory of `input` as one dimension. "i · stride" is the sum of index times stride over all dimensions.

    `input`: a tensor, or a contiguous array. `storage_offset`: the position of the first element in the storage; by default the
    storage offset of `input`. Raises RuntimeError, like PyTorch, for sizes, strides or an offset below 0, and for elements
    outside the storage.

    >>> dg.torch.as_strided(np.arange(6), (2, 3), (2, 1)).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    start = 0
    if torch_tensors.is_torch(input):
        start, data = input.storage_offset(), torch_tensors.storage(input)
    else:
        flags = getattr(input, "flags", None)
        if flags is not None and not flags.c_contiguous:
            raise ValueError("input is not contiguous: pass a copy (numpy.ascontiguousarray)")
        data = flattened("input", input)
    offset = start if storage_offset is None else storage_offset
    problem = partial(views.as_strided, size=size, stride=stride, storage_offset=offset)
    return TorchRequest(problem, {"input": data}, None, device, out, keyed=False)


@TorchFunction
def pixel_shuffle(input: Any, upscale_factor: int, *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.nn.functional.pixel_shuffle: output[…, c, h · r + i, w · r + j] = input[…, c · r² + i · r + j, h, w].

    `input`: shape […, channels · r², rows, columns], with r = upscale_factor. The result has shape
    […, channels, rows · r, columns · r]. Raises RuntimeError, like PyTorch, for sizes or a factor that do not fit.

    >>> dg.torch.pixel_shuffle(np.arange(8).reshape(1, 4, 1, 2), 2).tolist()
    [[[[0, 2, 1, 3], [4, 6, 5, 7]]]]
    """
    return _view(partial(PixelShuffle, upscale_factor=upscale_factor), input, out, device)


@TorchFunction
def pixel_unshuffle(input: Any, downscale_factor: int, *, out: Any = None, device: str | None = None) -> TorchRequest:
    """Return torch.nn.functional.pixel_unshuffle: output[…, c · r² + i · r + j, h, w] = input[…, c, h · r + i, w · r + j].

    `input`: shape […, channels, rows · r, columns · r], with r = downscale_factor. The result has shape
    […, channels · r², rows, columns]. Raises RuntimeError, like PyTorch, for sizes or a factor that do not fit.

    >>> dg.torch.pixel_unshuffle(np.arange(8).reshape(1, 1, 2, 4), 2).tolist()
    [[[[0, 2]], [[1, 3]], [[4, 6]], [[5, 7]]]]
    """
    return _view(partial(PixelUnshuffle, downscale_factor=downscale_factor), input, out, device)


@TorchFunction
def roll(
    input: Any,
    shifts: int | Sequence[int],
    dims: int | Sequence[int] | None = None,
    *,
    out: Any = None,
    device: str | None = None,
) -> TorchRequest:
    """Return torch.roll: along a dimension of size n, output[i] = input[(i - shift) modulo n].

    `shifts`, `dims`: integers, or sequences of equal length. Without dims, a single shift rolls the flattened input. One plan
    cannot express a roll: each rolled dimension splits the result into two parts, and `plan` returns one plan per part. Raises
    like PyTorch: RuntimeError for unequal lengths, IndexError for a dimension out of range.

    >>> dg.torch.roll(np.array([[1, 2, 3], [4, 5, 6]]), 1, 1).tolist()
    [[3, 1, 2], [6, 4, 5]]
    """
    return _view(partial(windows.roll, shifts=shifts, dims=dims), input, out, device)
