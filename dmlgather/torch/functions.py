"""PyTorch's gathers as functions: run them, describe them for DirectML, tell where the two differ."""

from __future__ import annotations

from functools import partial
from typing import Any

from dmlgather.calls.arguments import Fill
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.torch.problems.arguments import integer
from dmlgather.torch.problems.gathers import TorchEmbedding, TorchGather, TorchIndexSelect, TorchTake, TorchTakeAlongDim
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
    dim: None for `gather` of the flattened input by the flattened indices, which may be int32 too. The plan and the descriptors
    read indices that are in range. Returns the broadcast shape.

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
