"""The rules DML1xx, which check a single tensor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from dmlgather.directml.rules.rule import Fault, Rule, TensorCase
from dmlgather.directml.support import ONE_TO_EIGHT, row_at
from dmlgather.directml.tensor import BASE_ALIGNMENT, SIZE_GRANULE, rounded_up
from dmlgather.directml.types import DataType, FeatureLevel, TensorFlags
from dmlgather.plan import overlaps
from dmlgather.wording import alternatives, braces, counted

ELEMENT_LIMIT = 2**32 - 1
"""Element limit of a tensor. DirectML counts elements with 32 bits."""

MEMORY_LIMIT = 2**48
"""Memory that today's processors can address, in bytes."""

_LARGER_STRIDES = "each stride larger than the span of the dimensions with smaller strides"
_NO_OVERLAP = f"leave Strides out for a packed output, or make {_LARGER_STRIDES}"


def split_remedy(elements: int) -> str:
    """Return advice for a tensor of more than ELEMENT_LIMIT elements."""
    if elements > MEMORY_LIMIT:
        return "correct the sizes: no memory holds so many elements"
    return "split the tensor along a dimension and run the operator once per part"


def _stated_count(case: TensorCase) -> Iterator[Fault]:
    stated, actual = case.tensor.dimension_count, case.tensor.rank
    if stated != actual and not {stated, actual} & {*ONE_TO_EIGHT}:
        yield Fault(
            f"{case.name}.DimensionCount",
            expected=f"{ONE_TO_EIGHT[0]} … {ONE_TO_EIGHT[-1]}, the number of Sizes",
            got=f"{stated}, and {counted(actual, 'entry')} in Sizes",
            remedy="set DimensionCount and Sizes; this looks like memory that was never set",
        )
    elif stated != actual:
        yield Fault(
            f"{case.name}.DimensionCount",
            expected=f"{actual}, the number of Sizes",
            got=str(stated),
            remedy=f"set DimensionCount to {actual} or leave it out",
        )


def _count_range(case: TensorCase) -> Iterator[Fault]:
    if case.tensor.rank not in ONE_TO_EIGHT:
        yield Fault(
            f"{case.name}.DimensionCount",
            expected=f"{ONE_TO_EIGHT[0]} … {ONE_TO_EIGHT[-1]}",
            got=str(case.tensor.rank),
            remedy="describe a scalar as {1}" if case.tensor.rank == 0 else "merge adjacent dimensions that are packed",
        )


def _sizes_positive(case: TensorCase) -> Iterator[Fault]:
    if 0 not in case.tensor.sizes:
        return
    # A tensor with more than eight sizes already breaks DML102, so at most eight are listed here.
    zeros = (axis for axis, size in enumerate(case.tensor.sizes) if size == 0)
    for axis in islice(zeros, len(ONE_TO_EIGHT)):
        yield Fault(
            f"{case.name}.Sizes[{axis}]",
            expected="at least 1",
            got="0",
            remedy="do not run the operator where a tensor has no elements: DirectML cannot describe an empty tensor",
        )


def _strides_length(case: TensorCase) -> Iterator[Fault]:
    strides = case.tensor.strides
    if strides is not None and len(strides) != case.tensor.rank:
        yield Fault(
            f"{case.name}.Strides",
            expected=f"{counted(case.tensor.rank, 'entry')}, one per dimension",
            got=counted(len(strides), "entry"),
            remedy="state one stride per dimension, or leave Strides out for a packed tensor",
        )


def _whole_bytes(case: TensorCase) -> Iterator[Fault]:
    data_type = case.tensor.data_type
    if not data_type.whole_bytes:
        row = case.row or row_at(case.operator, case.name, max(FeatureLevel))
        assert row is not None
        yield Fault(
            f"{case.name}.DataType",
            expected=f"{alternatives(row.data_types)} ({case.operator} from level {row.level})",
            got=data_type.name,
            remedy="state which of these types the elements have"
            if data_type is DataType.UNKNOWN
            else "use one of these types; two 4-bit elements that are always moved together can be one UINT8",
            source=row.source,
        )


def _total_size(case: TensorCase) -> Iterator[Fault]:
    stated, minimum = case.tensor.total_tensor_size_in_bytes, case.tensor.minimum_bytes
    if stated is not None and stated < minimum:
        element = counted(case.tensor.data_type.bytes, "byte")
        yield Fault(
            f"{case.name}.TotalTensorSizeInBytes",
            expected=f"at least {minimum}: {counted(case.tensor.span, 'element')} of {element}, rounded up to {SIZE_GRANULE}",
            got=str(stated),
            remedy=f"set TotalTensorSizeInBytes to {minimum} or leave it out",
        )


def _total_granule(case: TensorCase) -> Iterator[Fault]:
    stated = case.tensor.total_tensor_size_in_bytes
    if stated is not None and stated % SIZE_GRANULE:
        yield Fault(
            f"{case.name}.TotalTensorSizeInBytes",
            expected=f"a multiple of {SIZE_GRANULE} (the minimum here is {case.tensor.minimum_bytes})",
            got=str(stated),
            remedy=f"set TotalTensorSizeInBytes to {rounded_up(stated)}",
        )


def _element_limit(case: TensorCase) -> Iterator[Fault]:
    span, elements = case.tensor.span, case.tensor.elements
    if span > ELEMENT_LIMIT:
        what, got = ("Sizes" if case.tensor.strides is None else "Strides"), f"{span} from the first to the last"
    elif case.is_output and elements > ELEMENT_LIMIT:
        what, got = "Sizes", f"{elements}, the product of {braces(case.tensor.sizes)}"
    else:
        return
    yield Fault(
        f"{case.name}.{what}",
        expected=f"at most {ELEMENT_LIMIT} elements",
        got=got,
        remedy=split_remedy(max(span, elements)),
    )


def _broadcast_limit(case: TensorCase) -> Iterator[Fault]:
    if not case.is_output and case.tensor.elements > ELEMENT_LIMIT:
        yield Fault(
            f"{case.name}.Sizes",
            expected=f"at most {ELEMENT_LIMIT} elements",
            got=f"{case.tensor.elements}, the product of {braces(case.tensor.sizes)}, over {case.tensor.span} addressed ones",
            remedy="split the broadcast dimension: the documented limit is on elements, not on addresses",
        )


def _alignment(case: TensorCase) -> Iterator[Fault]:
    value, element = case.tensor.guaranteed_base_offset_alignment, case.tensor.data_type.bytes
    if value and (value & (value - 1) or value < element):
        power = max(BASE_ALIGNMENT, 1 << (value.bit_length() - 1))
        yield Fault(
            f"{case.name}.GuaranteedBaseOffsetAlignment",
            expected=f"0, or a power of two no smaller than {element}, the bytes of {case.tensor.data_type.name}",
            got=str(value),
            remedy=f"set it to {power} if every binding's offset is a multiple of that, else to 0",
        )


def _weak_alignment(case: TensorCase) -> Iterator[Fault]:
    value = case.tensor.guaranteed_base_offset_alignment
    if 0 < value < BASE_ALIGNMENT:
        yield Fault(
            f"{case.name}.GuaranteedBaseOffsetAlignment",
            expected=f"0, or at least {BASE_ALIGNMENT}",
            got=str(value),
            remedy=f"set it to 0: a binding's offset is a multiple of {BASE_ALIGNMENT} in any case",
        )


def _output_owned(case: TensorCase) -> Iterator[Fault]:
    if case.is_output and case.tensor.flags & TensorFlags.OWNED_BY_DML:
        yield Fault(f"{case.name}.Flags", expected="NONE", got="OWNED_BY_DML", remedy="set Flags of an output to NONE")


def _input_owned(case: TensorCase) -> Iterator[Fault]:
    if not case.is_output and case.tensor.flags & TensorFlags.OWNED_BY_DML:
        yield Fault(
            f"{case.name}.Flags",
            expected="NONE for a tensor that is bound at each execution",
            got="OWNED_BY_DML",
            remedy=f"bind {case.name} when the operator is initialised and never at execution, or set Flags to NONE",
        )


def _shared_address(case: TensorCase) -> Iterator[Fault]:
    if not case.is_output or not _overlaps(case.tensor.sizes, case.tensor.element_strides):
        return
    sizes, strides = case.tensor.sizes, case.tensor.element_strides
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if size > 1 and stride == 0:
            yield Fault(
                f"{case.name}.Strides[{axis}]",
                expected=f"at least 1 in a dimension of size {size}",
                got="0",
                remedy=f"leave Strides out for a packed output, or give dimension {axis} a stride for its {size} elements",
            )
            return
    first, second, address = _collision(sizes, strides)
    yield Fault(
        f"{case.name}.Strides",
        expected=f"an address of its own for each of the {case.tensor.elements} elements",
        got=f"{braces(strides)} for sizes {braces(sizes)}: elements {first} and {second} both lie at {address}",
        remedy=_NO_OVERLAP,
    )


def _undecided_address(case: TensorCase) -> Iterator[Fault]:
    sizes, strides = case.tensor.sizes, case.tensor.element_strides
    if case.is_output and _overlaps(sizes, strides) is None:
        yield Fault(
            f"{case.name}.Strides",
            expected=f"{_LARGER_STRIDES} (more than 2^20 elements are not compared one by one)",
            got=f"{braces(strides)} for sizes {braces(sizes)}, {case.tensor.elements} elements",
            remedy=_NO_OVERLAP,
        )


@lru_cache(maxsize=16)
def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool | None:
    return overlaps(sizes, strides)


def _collision(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the coordinates of two elements with the same address, and this address. There must be such elements."""
    import numpy as np

    addresses = np.zeros((), np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        addresses = addresses[..., None] + np.arange(size, dtype=np.int64) * stride
    flat = addresses.reshape(-1)
    order = np.argsort(flat, kind="stable")
    at = int(np.flatnonzero(np.diff(flat[order]) == 0)[0])
    first, second = (tuple(int(c) for c in np.unravel_index(int(order[at + step]), sizes)) for step in (0, 1))
    return first, second, int(flat[order[at]])


_SHAPE = ("DML102", "DML103", "DML104")

TENSOR_RULES = (
    Rule("DML101", _stated_count),
    Rule("DML102", _count_range, needs=("DML101",)),
    Rule("DML103", _sizes_positive),
    Rule("DML104", _strides_length, needs=("DML101",), about="strides"),
    Rule("DML105", _whole_bytes),
    Rule("DML108", _element_limit, needs=_SHAPE),
    Rule("DML109", _broadcast_limit, needs=("DML108",)),
    Rule("DML106", _total_size, needs=(*_SHAPE, "DML105"), about="total_tensor_size_in_bytes"),
    Rule("DML107", _total_granule, needs=("DML106",), about="total_tensor_size_in_bytes"),
    Rule("DML110", _alignment, needs=("DML105",), about="guaranteed_base_offset_alignment"),
    Rule("DML111", _weak_alignment, needs=("DML110",), about="guaranteed_base_offset_alignment"),
    Rule("DML112", _output_owned, about="flags"),
    Rule("DML113", _input_owned, about="flags"),
    Rule("DML114", _shared_address, needs=("DML108",), about="strides"),
    Rule("DML115", _undecided_address, needs=("DML108",), about="strides"),
)
