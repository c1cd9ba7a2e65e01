"""Building of operator descriptors from arrays, for the class method `of` of each descriptor.

OutputTensor and the counts of dimensions are inferred. DirectML's rules are not checked, because `validate` does this.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pydantic import BaseModel

from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DataType, DepthSpaceOrder, type_name
from dmlgather.wording import braces, closest, counted

if TYPE_CHECKING:
    from dmlgather.directml.descriptors import OperatorDesc


UINT = (0, 2**32 - 1)

INT = (-(2**31), 2**31 - 1)


def packed(name: str, sizes: Sequence[int], data_type: DataType) -> BufferTensorDesc:
    """Return the descriptor of a packed tensor. Raises TypeError or ValueError for a wrong size."""
    return BufferTensorDesc(data_type=data_type, sizes=integers(f"{name}.sizes", sizes, UINT, "split a larger tensor"))


def tensor_of(name: str, given: Any) -> BufferTensorDesc:
    """Return a packed tensor descriptor for an array or a pair (sizes, type). A BufferTensorDesc is returned unchanged.

    Raises TypeError for other objects and for a type that DirectML lacks, ValueError for a size that does not fit a UINT.
    """
    if isinstance(given, BufferTensorDesc):
        return given
    if hasattr(given, "mask") and hasattr(given, "filled"):
        raise TypeError(f"{name} is a masked array, whose mask would be lost: pass {name}.filled(value)")
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

        array = np.from_dlpack(given)  # in host memory: arrays on GPUs have `shape` and `dtype`, and were read above
        sizes, data_type = array.shape, array.dtype
    else:
        raise TypeError(
            f"{name} is of type {type(given).__name__}, expected an array, a BufferTensorDesc or a pair (sizes, type): "
            "wrap Python values with numpy.asarray(values, dtype=…)"
        )
    try:
        parsed_type = DataType.parse(data_type)
    except ValueError as error:
        raise TypeError(f"{name}: {error}") from None
    return packed(name, sizes, parsed_type)


MASK_AS_INDICES = "indices has type bool, expected integers: numpy.flatnonzero(mask) gives the indices of a mask"


def indices_of(given: Any) -> BufferTensorDesc:
    """Return a tensor descriptor like `tensor_of`. Raises TypeError if the data type is no integer type."""
    tensor = tensor_of("indices", given)
    if type_name(given[1] if isinstance(given, tuple) else getattr(given, "dtype", None)) in ("bool", "bool_"):
        raise TypeError(MASK_AS_INDICES)
    if tensor.data_type.index_type is None:
        raise TypeError(f"indices has data type {tensor.data_type}, expected integers: convert with .astype('int64')")
    return tensor


def integer(name: str, value: Any, limits: tuple[int, int] = UINT, reason: str = "") -> int:
    """Return an integer as a Python int. Raises TypeError for other types, ValueError outside `limits` (both included)."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer") from None
    low, high = limits
    if not low <= number <= high:
        shown = number if number.bit_length() <= 64 else f"an integer of {number.bit_length()} bits"
        raise ValueError(f"{name} is {shown}, expected {low} … {high}" + (f": {reason}" if reason else ""))
    return number


def integers(name: str, values: Any, limits: tuple[int, int], reason: str) -> tuple[int, ...]:
    """Return a sequence of integers as Python ints, each checked as in `integer`."""
    try:
        entries = tuple(values)
    except TypeError:
        raise TypeError(f"{name} is of type {type(values).__name__}, expected a list of integers") from None
    return tuple(integer(f"{name}[{number}]", value, limits, reason) for number, value in enumerate(entries))


P = ParamSpec("P")
R = TypeVar("R")


def suggesting(of: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method `of`, so that the TypeError for a misspelt keyword suggests a similar one."""
    code = of.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(of)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for word in kwargs:
            if word not in names:
                similar = closest(word, names, 0.75) or next((name for name in names if name.endswith(f"_{word}")), None)
                remedy = f"did you mean {similar}?" if similar else f"the arguments are {', '.join(names)}"
                raise TypeError(f"{word} is no argument of {of.__qualname__}; {remedy}")
        return of(*args, **kwargs)

    return checked


D = TypeVar("D", bound="OperatorDesc")

_BLOCK_RANK = 4


def gather_nd(kind: type[D], data: Any, indices: Any, *, counts: Mapping[str, Any], **stated: Any) -> D:
    """Return a GATHER_ND or GATHER_ND1 descriptor.

    `counts`: the values of input_dimension_count, indices_dimension_count and, for GATHER_ND1, batch_dimension_count. None
    stands for all dimensions.
    `stated`: the keyword arguments `output` and `dimension_count`; see OperatorDesc.
    """
    source, ids = tensor_of("data", data), indices_of(indices)
    if not source.rank or not ids.rank:
        raise ValueError(
            f"data has sizes {braces(source.sizes)} and indices has {braces(ids.sizes)}: expected at least one dimension each; "
            "the last dimension of indices holds the tuples"
        )
    input_count = count_of("input_dimension_count", counts["input_dimension_count"], source.rank, "data", least=1)
    indices_count = count_of("indices_dimension_count", counts["indices_dimension_count"], ids.rank, "indices", least=1)
    fields = {"input_dimension_count": input_count, "indices_dimension_count": indices_count}
    indexable, components = input_count, ids.sizes[-1]
    if (name := "batch_dimension_count") in counts:
        most = min(input_count, indices_count) - 1
        fields[name] = integer(name, counts[name], (0, most), "each tensor needs a dimension that is no batch dimension")
        indexable -= fields[name]
    if components > indexable:
        raise ValueError(
            f"indices {braces(ids.sizes)} has tuples of {counted(components, 'position')} along its last dimension, but data "
            f"{braces(source.sizes)} has only {counted(indexable, 'dimension')} to index: expected at most {indexable}"
        )
    return padded_descriptor(
        kind,
        {"input_tensor": source, "indices_tensor": ids},
        lambda _: fields,
        rank=indices_count - 1 + indexable - components,
        **stated,
    )


def blocks(kind: type[D], data: Any, *, block_size: Any, order: Any, output: Any) -> D:
    """Return a DEPTH_TO_SPACE1 or SPACE_TO_DEPTH1 descriptor."""
    source = tensor_of("data", data)
    if source.rank > _BLOCK_RANK:
        raise ValueError(
            f"data {braces(source.sizes)} has {source.rank} dimensions, expected {{batch, channels, height, width}}, or fewer, "
            "which get leading 1s: reshape it"
        )
    fields = {"block_size": integer("block_size", block_size, (1, 2**32 - 1)), "order": DepthSpaceOrder.parse(order)}
    return padded_descriptor(
        kind, {"input_tensor": source}, lambda _: fields, output=output, rank=_BLOCK_RANK, dimension_count=_BLOCK_RANK
    )


def axis_of(axis: Any, data: BufferTensorDesc) -> int:
    """Return an axis of `data`, counted from the front. Raises ValueError if there is no such axis."""
    if not data.rank:
        raise ValueError("data has no dimensions, so it has no axis to index: reshape it to one dimension")
    return integer("axis", axis, (-data.rank, data.rank - 1), f"data is {braces(data.sizes)}") % data.rank


def count_of(name: str, given: Any, rank: int, what: str, least: int = 0) -> int:
    """Return `given` as an int, or `rank` for None. Raises ValueError outside `least` … `rank`."""
    return rank if given is None else integer(name, given, (least, rank), f"{what} has {counted(rank, 'dimension')}")


def entries(
    name: str,
    given: Any,
    data: BufferTensorDesc,
    *,
    default: int = 1,
    limits: tuple[int, int] = UINT,
    reason: str = "",
) -> tuple[int, ...]:
    """Return an argument with one integer for each dimension of `data`, such as the offsets of a slice.

    Raises ValueError for a wrong number of integers, or an integer outside `limits` (both included).
    """
    if given is None:
        return (default,) * data.rank
    entries = integers(name, given, limits, reason)
    if len(entries) != data.rank:
        raise ValueError(
            f"{name} has {counted(len(entries), 'entry')}, but data {braces(data.sizes)} has {counted(data.rank, 'dimension')}: "
            "state one entry for each"
        )
    return entries


def remaining(name: str, offsets: Sequence[int], data: BufferTensorDesc) -> tuple[int, ...]:
    """Return the number of elements from each offset to the end. Raises ValueError for an offset outside its dimension."""
    for axis, (offset, size) in enumerate(zip(offsets, data.sizes, strict=True)):
        integer(f"{name}[{axis}]", offset, (0, max(size - 1, 0)), f"dimension {axis} of data has size {size}")
    return tuple(size - offset for size, offset in zip(data.sizes, offsets, strict=True))


def check_steps(name: str, steps: Sequence[int]) -> None:
    """Raise ValueError for a step of 0."""
    for axis, step in enumerate(steps):
        if step == 0:
            raise ValueError(f"{name}[{axis}] is 0, which defines no output size: use 1 to copy every element")


def padded_descriptor(
    kind: type[D],
    inputs: Mapping[str, BufferTensorDesc],
    fields: Callable[[int], Mapping[str, Any]],
    *,
    rank: int,
    output: Any,
    dimension_count: Any,
    smaller: bool = False,
) -> D:
    """Return a descriptor with all tensors padded by leading sizes of 1 to the same number of dimensions.

    `fields`: a function that takes the number of leading 1s added to InputTensor, and returns the other fields.
    `rank`: rank of the output before padding.
    `dimension_count`: None for the smallest possible number.
    `smaller`: True if the output may be smaller than the inferred sizes.

    Raises TypeError if data and output have different types, ValueError if the output or `dimension_count` does not fit.
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
        raise TypeError(
            f"output has data type {target.data_type}, expected {data.data_type}, the type of data: elements are not converted"
        )
    if not all(map(operator.le if smaller else operator.eq, target.sizes, sizes)):
        raise ValueError(
            f"output has sizes {braces(target.sizes)}, expected {braces(sizes)}{' or less' if smaller else ''}, which follow "
            "from the other arguments: correct these arguments, or leave output out"
        )
    return BaseModel.model_copy(desc, update={"output_tensor": target})  # validated already


def _padded(tensor: BufferTensorDesc, rank: int) -> BufferTensorDesc:
    padding = rank - tensor.rank
    if not padding:
        return tensor
    sizes = (1,) * padding + tensor.sizes
    strides = None if tensor.strides is None else (0,) * padding + tensor.strides
    count = tensor.dimension_count + padding
    return BaseModel.model_copy(tensor, update={"dimension_count": count, "sizes": sizes, "strides": strides})
