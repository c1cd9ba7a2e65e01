"""Operator descriptors from arrays: the tensors' types and sizes are read, the output and the counts follow from them.

Each descriptor class has an `of`, which states its arguments and calls a function here. They infer and never judge: a descriptor
that breaks a rule is made all the same, and `validate` reports it. What leaves nothing to infer is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dmlgather.directml.arguments import INT, UINT, indices_of, integer, integers, packed, tensor_of
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DepthSpaceOrder
from dmlgather.wording import braces, counted

if TYPE_CHECKING:
    from dmlgather.directml.descriptors import OperatorDesc

D = TypeVar("D", bound="OperatorDesc")

_BLOCK_RANK = 4
_FROM_THE_FRONT = "positions count from the front"


def gather(kind: type[D], data: Any, indices: Any, *, axis: Any, index_dimensions: Any, **stated: Any) -> D:
    """GATHER. stated: output and dimension_count, here and below."""
    source, ids = tensor_of("data", data), indices_of(indices)
    at = _axis(axis, source)
    real = _count("index_dimensions", index_dimensions, ids.rank, "indices")
    return _described(
        kind,
        {"input_tensor": source, "indices_tensor": ids},
        lambda missing: {"axis": at + missing, "index_dimensions": real},
        rank=source.rank - 1 + real,
        **stated,
    )


def gather_elements(kind: type[D], data: Any, indices: Any, *, axis: Any, **stated: Any) -> D:
    """GATHER_ELEMENTS."""
    source, ids = tensor_of("data", data), indices_of(indices)
    at = _axis(axis, source)
    return _described(
        kind, {"input_tensor": source, "indices_tensor": ids}, lambda missing: {"axis": at + missing}, rank=ids.rank, **stated
    )


def gather_nd(kind: type[D], data: Any, indices: Any, *, counts: Mapping[str, Any], **stated: Any) -> D:
    """GATHER_ND and GATHER_ND1. counts: the fields of that name, as the caller states them."""
    source, ids = tensor_of("data", data), indices_of(indices)
    if not source.rank or not ids.rank:
        raise ValueError(
            f"data has sizes {braces(source.sizes)} and indices has {braces(ids.sizes)}: expected at least one dimension each; "
            "index tuples lie along the last one of indices"
        )
    of_input = _count("input_dimension_count", counts["input_dimension_count"], source.rank, "data", least=1)
    of_indices = _count("indices_dimension_count", counts["indices_dimension_count"], ids.rank, "indices", least=1)
    fields = {"input_dimension_count": of_input, "indices_dimension_count": of_indices}
    left, components = of_input, ids.sizes[-1]
    if (name := "batch_dimension_count") in counts:
        most = min(of_input, of_indices) - 1
        fields[name] = integer(name, counts[name], (0, most), "each tensor has a dimension that is no batch")
        left -= fields[name]
    if components > left:
        raise ValueError(
            f"indices {braces(ids.sizes)} has tuples of {counted(components, 'position')} along its last dimension, but data "
            f"{braces(source.sizes)} has only {counted(left, 'dimension')} to index: expected at most {left}"
        )
    return _described(
        kind,
        {"input_tensor": source, "indices_tensor": ids},
        lambda _: fields,
        rank=of_indices - 1 + left - components,
        **stated,
    )


def slices(kind: type[D], data: Any, *, offsets: Any, sizes: Any, strides: Any, **stated: Any) -> D:
    """SLICE."""
    source = tensor_of("data", data)
    starts = _entries("offsets", offsets, source, default=0, reason=_FROM_THE_FRONT)
    steps = _entries("strides", strides, source, reason="Slice1OperatorDesc walks backwards")
    if sizes is None:
        _check_steps("strides", steps)
        counts = tuple(-(-left // step) for left, step in zip(_left("offsets", starts, source), steps, strict=True))
    else:
        counts = _entries("sizes", sizes, source)
    return _described(
        kind,
        {"input_tensor": source},
        lambda missing: {
            "offsets": (0,) * missing + starts,
            "sizes": (1,) * missing + counts,
            "strides": (1,) * missing + steps,
        },
        rank=source.rank,
        **stated,
    )


def windows(kind: type[D], data: Any, *, offsets: Any, sizes: Any, strides: Any, **stated: Any) -> D:
    """SLICE1."""
    source = tensor_of("data", data)
    starts = _entries("input_window_offsets", offsets, source, default=0, reason=_FROM_THE_FRONT)
    steps = _entries("input_window_strides", strides, source, limits=INT)
    _check_steps("input_window_strides", steps)
    counts = _left("input_window_offsets", starts, source) if sizes is None else _entries("input_window_sizes", sizes, source)
    return _described(
        kind,
        {"input_tensor": source},
        lambda missing: {
            "input_window_offsets": (0,) * missing + starts,
            "input_window_sizes": (1,) * missing + counts,
            "input_window_strides": (1,) * missing + steps,
        },
        rank=source.rank,
        smaller=True,
        **stated,
    )


def blocks(kind: type[D], data: Any, *, block_size: Any, order: Any, output: Any) -> D:
    """DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1."""
    source = tensor_of("data", data)
    if source.rank > _BLOCK_RANK:
        raise ValueError(
            f"data {braces(source.sizes)} has {source.rank} dimensions, expected {{batch, channels, height, width}}, or fewer, "
            "in front of which 1s are put: reshape it"
        )
    fields = {"block_size": integer("block_size", block_size, (1, 2**32 - 1)), "order": DepthSpaceOrder.parse(order)}
    return _described(
        kind, {"input_tensor": source}, lambda _: fields, output=output, rank=_BLOCK_RANK, dimension_count=_BLOCK_RANK
    )


def _axis(axis: Any, data: BufferTensorDesc) -> int:
    """The axis of `data` counted from the front. ValueError for none of its dimensions."""
    if not data.rank:
        raise ValueError("data has no dimensions, and so no axis that is indexed: reshape it to one dimension")
    return integer("axis", axis, (-data.rank, data.rank - 1), f"data is {braces(data.sizes)}") % data.rank


def _count(name: str, given: Any, rank: int, what: str, least: int = 0) -> int:
    """A number of dimensions of the tensor `what`, all `rank` of them for None. ValueError outside least … rank."""
    return rank if given is None else integer(name, given, (least, rank), f"{what} has {counted(rank, 'dimension')}")


def _entries(
    name: str,
    given: Any,
    data: BufferTensorDesc,
    *,
    default: int = 1,
    limits: tuple[int, int] = UINT,
    reason: str = "",
) -> tuple[int, ...]:
    """One integer for each dimension of `data`, `default` for None. ValueError for another number of them."""
    if given is None:
        return (default,) * data.rank
    found = integers(name, given, limits, reason)
    if len(found) != data.rank:
        raise ValueError(
            f"{name} has {counted(len(found), 'entry')}, but data {braces(data.sizes)} has {counted(data.rank, 'dimension')}: "
            "state one entry for each"
        )
    return found


def _left(name: str, offsets: Sequence[int], data: BufferTensorDesc) -> tuple[int, ...]:
    """How many elements each dimension has from its offset on. ValueError for an offset behind the last element."""
    for axis, (offset, size) in enumerate(zip(offsets, data.sizes, strict=True)):
        integer(f"{name}[{axis}]", offset, (0, max(size - 1, 0)), f"dimension {axis} of data has size {size}")
    return tuple(size - offset for size, offset in zip(data.sizes, offsets, strict=True))


def _check_steps(name: str, steps: Sequence[int]) -> None:
    """ValueError for a step of 0."""
    for axis, step in enumerate(steps):
        if step == 0:
            raise ValueError(f"{name}[{axis}] is 0, from which no size of the output follows: use 1 to copy every element")


def _described(
    kind: type[D],
    inputs: Mapping[str, BufferTensorDesc],
    fields: Callable[[int], Mapping[str, Any]],
    *,
    rank: int,
    output: Any,
    dimension_count: Any,
    smaller: bool = False,
) -> D:
    """The descriptor of the inputs, with leading 1s in front of all tensors' sizes until they have equally many.

    inputs: by field. fields: the other fields, from the number of 1s before the sizes of InputTensor. rank: of the output, before
    1s are put there. output: what the caller says of it, None for a packed tensor. dimension_count: of all tensors; None for as
    many as they need. smaller: whether the output may be smaller than what follows from the fields.

    TypeError for an output of another data type, ValueError for one of other sizes and for too small a dimension_count.
    """
    data = inputs["input_tensor"]
    stated = None if output is None else tensor_of("output", output)
    least = max(1, *(tensor.rank for tensor in (*inputs.values(), stated or data)))
    if dimension_count is None:
        rank = max(rank, least)
    else:
        rank = integer("dimension_count", dimension_count, (least, max(least, 8)), f"a tensor has {counted(least, 'dimension')}")
    padded = {field: _padded(tensor, rank) for field, tensor in inputs.items()}
    desc = kind(**{**padded, "output_tensor": padded["input_tensor"], **fields(rank - data.rank)})
    sizes = kind.operator.output_sizes(desc)
    if sizes is None:
        raise ValueError(f"dimension_count is {rank}, but the output has more dimensions: leave it out or raise it")
    target = packed("output", sizes, data.data_type) if stated is None else _padded(stated, rank)
    if target.data_type is not data.data_type:
        raise TypeError(f"output has data type {target.data_type}, expected {data.data_type}, as data has: nothing is converted")
    if not all(map(operator.le if smaller else operator.eq, target.sizes, sizes)):
        raise ValueError(
            f"output has sizes {braces(target.sizes)}, expected {braces(sizes)}{' or less' if smaller else ''}, which follows "
            "from the other arguments: correct them, or leave output out"
        )
    return desc.model_copy(update={"output_tensor": target})


def _padded(tensor: BufferTensorDesc, rank: int) -> BufferTensorDesc:
    """The tensor with leading 1s in front of its sizes until they are `rank`; their strides are 0."""
    missing = rank - tensor.rank
    if not missing:
        return tensor
    sizes = (1,) * missing + tensor.sizes
    strides = None if tensor.strides is None else (0,) * missing + tensor.strides
    count = tensor.dimension_count + missing
    return tensor.model_copy(update={"dimension_count": count, "sizes": sizes, "strides": strides})
