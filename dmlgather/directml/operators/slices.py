"""SLICE and SLICE1: their declarations, rules, plans, and Microsoft's pseudocode in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dmlgather.directml.descriptors import OperatorDesc, Slice1OperatorDesc, SliceOperatorDesc
from dmlgather.directml.operators.operator import Layouts, Operator, plan
from dmlgather.directml.rules.rule import DescriptorCase, Fault, Rule
from dmlgather.directml.rules.shared import RANKS, SIZES, compare_sizes
from dmlgather.directml.shapes import slice1_output
from dmlgather.directml.types import FeatureLevel
from dmlgather.plan import IndexPlan
from dmlgather.wording import alternatives, braces, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

AnySlice = SliceOperatorDesc | Slice1OperatorDesc


def _arrays(desc: AnySlice) -> dict[str, tuple[int, ...]]:
    if isinstance(desc, SliceOperatorDesc):
        return {"Offsets": desc.offsets, "Sizes": desc.sizes, "Strides": desc.strides}
    return {
        "InputWindowOffsets": desc.input_window_offsets,
        "InputWindowSizes": desc.input_window_sizes,
        "InputWindowStrides": desc.input_window_strides,
    }


def _array_lengths(case: DescriptorCase[AnySlice]) -> Iterator[Fault]:
    count = case.desc.dimension_count
    for field, entries in _arrays(case.desc).items():
        if len(entries) != count:
            yield Fault(
                field,
                expected=f"{counted(count, 'entry')}, the slice's DimensionCount",
                got=counted(len(entries), "entry"),
                remedy=f"state one entry of {field} per dimension, or correct DimensionCount",
            )


def _tensors_count(case: DescriptorCase[AnySlice]) -> Iterator[Fault]:
    count, rank = case.desc.dimension_count, case.desc.input_tensor.rank
    if count != rank:
        arrays = ", ".join(_arrays(case.desc))
        yield Fault(
            "DimensionCount",
            expected=f"{rank}, as in InputTensor and OutputTensor",
            got=str(count),
            remedy=f"give {arrays} {counted(rank, 'entry')} and set DimensionCount to {rank}, or leave DimensionCount out",
        )


def _nonzero_strides(case: DescriptorCase[AnySlice]) -> Iterator[Fault]:
    field, strides = list(_arrays(case.desc).items())[-1]
    legal = "at least 1" if isinstance(case.desc, SliceOperatorDesc) else "a positive or negative step"
    for axis, stride in enumerate(strides):
        if stride == 0:
            yield Fault(
                f"{field}[{axis}]",
                expected=legal,
                got="0",
                remedy="use 1 to copy one element; to repeat an element, give InputTensor a stride of 0",
            )


def _slice_sizes(case: DescriptorCase[SliceOperatorDesc]) -> Iterator[Fault]:
    output = case.desc.output_tensor.sizes
    if len(case.desc.sizes) != len(output):
        return  # DML601 or DML602 reports it
    remedy = f"set Sizes to {braces(output)}, or OutputTensor.Sizes to {braces(case.desc.sizes)}"
    yield from compare_sizes("Sizes", output, case.desc.sizes, "OutputTensor's sizes", remedy)


def _slice_reads(case: DescriptorCase[SliceOperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    for axis, limit in enumerate(desc.input_tensor.sizes):
        offset, size, stride = desc.offsets[axis], desc.sizes[axis], desc.strides[axis]
        last = offset + (size - 1) * stride
        if size and last >= limit:
            step = max(0, -(-(limit - offset) // stride))
            yield Fault(
                f"Sizes[{axis}]" if step else f"Offsets[{axis}]",
                expected=f"positions 0 … {limit - 1} in dimension {axis} of InputTensor",
                got=f"{offset} + {size - 1}·{stride} = {last} at the end; the first one outside is {offset + step * stride}, "
                f"for element {step} of the output",
                remedy=_inside(axis, limit, step, (offset, size, stride)),
            )


def _inside(axis: int, limit: int, step: int, entry: tuple[int, int, int]) -> str:
    """Return advice for a slice that leaves dimension `axis`: other values of its offset, stride or size.

    `step`: number of elements that are inside now.
    `entry`: offset, size and stride.

    Example: (offset, size, stride) is (2, 4, 3), and `limit` is 10. The last position is 2 + 3·3 = 11. With a stride of (9 - 2)
    div 3 = 2, it is 8. With an offset of 9 - 3·3 = 0, it is 9.
    """
    offset, size, stride = entry
    values = []
    if size > 1 and (most := (limit - 1 - offset) // (size - 1)) >= 1:
        values.append(f"Strides[{axis}] to {most}")
    if (most := limit - 1 - (size - 1) * stride) >= 0:
        values.append(f"Offsets[{axis}] to {most}")
    if step:
        values.append(f"Sizes[{axis}] and OutputTensor.Sizes[{axis}] to {step}")
    return f"lower {alternatives(values)}" if values else f"choose Offsets, Sizes and Strides inside size {limit}"


def _window_empty(case: DescriptorCase[Slice1OperatorDesc]) -> Iterator[Fault]:
    for axis, size in enumerate(case.desc.input_window_sizes):
        if size == 0:
            yield Fault(
                f"InputWindowSizes[{axis}]",
                expected="at least 1",
                got="0",
                remedy="do not run the operator where nothing is copied: DirectML cannot describe an empty tensor",
            )


def _window_inside(case: DescriptorCase[Slice1OperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    for axis, limit in enumerate(desc.input_tensor.sizes):
        offset, size = desc.input_window_offsets[axis], desc.input_window_sizes[axis]
        if offset + size > limit:
            inside = f"lower InputWindowSizes[{axis}] to {limit - offset}" if offset < limit else "lower the offset"
            yield Fault(
                f"InputWindowSizes[{axis}]" if offset < limit else f"InputWindowOffsets[{axis}]",
                expected=f"offset + size at most {limit}, InputTensor.Sizes[{axis}]",
                got=f"{offset} + {size} = {offset + size}; the first position outside is {max(offset, limit)}",
                remedy=inside,
            )


def _window_yields(case: DescriptorCase[Slice1OperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    for axis, most in enumerate(slice1_output(desc)):
        output = desc.output_tensor.sizes[axis]
        if output > most:
            offset, size = desc.input_window_offsets[axis], desc.input_window_sizes[axis]
            stride = abs(desc.input_window_strides[axis])
            values = [f"OutputTensor.Sizes[{axis}] to {most} or less"]
            if (step := (size - 1) // (output - 1)) >= 1:
                values.append(f"InputWindowStrides[{axis}] to {step} or -{step}")
            if offset + (needed := 1 + (output - 1) * stride) <= desc.input_tensor.sizes[axis]:
                values.append(f"InputWindowSizes[{axis}] to {needed}")
            yield Fault(
                f"OutputTensor.Sizes[{axis}]",
                expected=f"1 … {most}: 1 + ({size} - 1) div {stride}",
                got=str(output),
                remedy=f"set {alternatives(values)}",
            )


_FORM = (*SIZES, "DML602")
"""`Rule.needs` of rules that compare offsets, sizes or strides with the tensors."""

_COMMON = (
    Rule("DML601", _array_lengths),
    Rule("DML602", _tensors_count, needs=(*RANKS, "DML601")),
    Rule("DML603", _nonzero_strides),
)

SLICE_RULES = (
    *_COMMON,
    Rule("DML604", _slice_sizes, needs=SIZES),
    Rule("DML605", _slice_reads, needs=(*_FORM, "DML603")),
)

SLICE1_RULES = (
    *_COMMON,
    Rule("DML606", _window_empty),
    Rule("DML607", _window_inside, needs=(*_FORM, "DML606")),
    Rule("DML608", _window_yields, needs=(*_FORM, "DML603", "DML606")),
)


def _strided(desc: OperatorDesc, layouts: Layouts, starts: Sequence[int], steps: Sequence[int]) -> IndexPlan:
    strides = layouts["input_tensor"].strides
    in_offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return plan(desc, layouts, [step * stride for step, stride in zip(steps, strides, strict=True)], in_offset)


def lower_slice(desc: SliceOperatorDesc, layouts: Layouts) -> IndexPlan:
    """Return the plan of a SLICE."""
    return _strided(desc, layouts, desc.offsets, desc.strides)


def slice_reference(desc: SliceOperatorDesc, data: NDArray[Any]) -> NDArray[Any]:
    """Compute output[c] = input[Offsets + Strides·c] in NumPy. Source: [S] in `SOURCES`."""
    import numpy as np

    output = np.empty(desc.sizes, data.dtype)
    for c in np.ndindex(desc.sizes):
        output[c] = data[tuple(o + s * x for o, s, x in zip(desc.offsets, desc.strides, c, strict=True))]
    return output


def lower_slice1(desc: Slice1OperatorDesc, layouts: Layouts) -> IndexPlan:
    """Return the plan of a SLICE1. With a negative stride, it starts at the end of the window."""
    windows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    starts = [offset if stride > 0 else offset + size - 1 for offset, size, stride in windows]
    return _strided(desc, layouts, starts, desc.input_window_strides)


def slice1_reference(desc: Slice1OperatorDesc, data: NDArray[Any]) -> NDArray[Any]:
    """Compute output[c] = window[|stride|·c] in NumPy. Negative strides reverse the window. Source: [S1] in `SOURCES`."""
    import numpy as np

    window = data
    for axis, (offset, size) in enumerate(zip(desc.input_window_offsets, desc.input_window_sizes, strict=True)):
        window = window.take(range(offset, offset + size), axis)
    for axis, stride in enumerate(desc.input_window_strides):
        window = np.flip(window, axis) if stride < 0 else window
    output = np.empty(desc.output_tensor.sizes, data.dtype)
    for c in np.ndindex(output.shape):
        output[c] = window[tuple(abs(stride) * x for stride, x in zip(desc.input_window_strides, c, strict=True))]
    return output


SLICE = Operator(
    name="SLICE",
    value=60,
    desc=SliceOperatorDesc,
    introduced=FeatureLevel.LEVEL_1_0,
    inputs=("input_tensor",),
    rules=SLICE_RULES,
    output_sizes=lambda desc: desc.sizes,
    lower=lower_slice,
    reference=slice_reference,
)

SLICE1 = Operator(
    name="SLICE1",
    value=111,
    desc=Slice1OperatorDesc,
    introduced=FeatureLevel.LEVEL_2_1,
    inputs=("input_tensor",),
    rules=SLICE1_RULES,
    output_sizes=slice1_output,
    lower=lower_slice1,
    reference=slice1_reference,
)
