"""Operator descriptors from arrays: the tensors' types and sizes are read, the output and the counts follow from them.

Each descriptor class has an `of`, which states its arguments and calls a function here. They infer and never judge: a descriptor
that breaks a rule is made all the same, and `validate` reports it. What leaves nothing to infer is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DataType, DepthSpaceOrder
from dmlgather.wording import braces, counted

if TYPE_CHECKING:
    from dmlgather.directml.descriptors import OperatorDesc


# What callers pass where a tensor is described: arrays and the like, and exact integers within limits.

UINT = (0, 2**32 - 1)
"""The limits of a UINT, both included."""

INT = (-(2**31), 2**31 - 1)
"""The limits of an INT, both included."""


def packed(name: str, sizes: Sequence[int], data_type: DataType) -> BufferTensorDesc:
    """A packed tensor. TypeError and ValueError for other sizes than a UINT holds."""
    return BufferTensorDesc(data_type=data_type, sizes=integers(f"{name}.sizes", sizes, UINT, "split a tensor that is larger"))


def tensor_of(name: str, given: Any) -> BufferTensorDesc:
    """The packed tensor descriptor of an array, of anything with `shape` and `dtype`, or of a pair (sizes, type); a
    BufferTensorDesc as it is. TypeError for anything else and for types that DirectML lacks, ValueError for other sizes.
    """
    if isinstance(given, BufferTensorDesc):
        return given
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        sizes, data_type = given.shape, given.dtype
    elif isinstance(given, tuple) and len(given) == 2:
        sizes, data_type = given
        if not isinstance(sizes, Iterable):
            raise TypeError(
                f"{name} is {given!r}: a tuple of two is read as a pair (sizes, type), and its sizes are of type "
                f"{type(sizes).__name__}, expected a list of integers; write ({given!r}, 'float32') for these sizes"
            )
    elif hasattr(given, "__dlpack__"):
        import numpy as np

        array = np.from_dlpack(given)  # in host memory: arrays of GPUs have shape and dtype
        sizes, data_type = array.shape, array.dtype
    else:
        raise TypeError(
            f"{name} is of type {type(given).__name__}, expected an array, a BufferTensorDesc or a pair (sizes, type): "
            "wrap Python values with numpy.asarray(values, dtype=…)"
        )
    try:
        found = DataType.parse(data_type)
    except ValueError as error:
        raise TypeError(f"{name}: {error}") from None
    return packed(name, sizes, found)


def indices_of(given: Any) -> BufferTensorDesc:
    """`tensor_of` for indices. TypeError for types other than integers."""
    found = tensor_of("indices", given)
    if found.data_type.index_type is None:
        raise TypeError(f"indices has data type {found.data_type}, expected integers: convert with .astype('int64')")
    return found


def integer(name: str, value: Any, limits: tuple[int, int] = UINT, reason: str = "") -> int:
    """`value` as a Python integer. TypeError for anything else, ValueError outside `limits`, both included, for a `reason`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer") from None
    low, high = limits
    if not low <= found <= high:
        shown = found if found.bit_length() <= 64 else f"an integer of {found.bit_length()} bits"
        raise ValueError(f"{name} is {shown}, expected {low} … {high}" + (f": {reason}" if reason else ""))
    return found


def integers(name: str, values: Any, limits: tuple[int, int], reason: str) -> tuple[int, ...]:
    """`values` as Python integers. TypeError and ValueError as `integer`, naming the entry."""
    try:
        entries = tuple(values)
    except TypeError:
        raise TypeError(f"{name} is of type {type(values).__name__}, expected a list of integers") from None
    return tuple(integer(f"{name}[{number}]", value, limits, reason) for number, value in enumerate(entries))


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
