"""Builders of SLICE, SLICE1, DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1 descriptors, and of copies for windows that overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dmlgather.dialects.descriptors.level_limits import fits, refuse, require, tensor_descs
from dmlgather.dialects.descriptors.tensor_views import Dim, View, merge
from dmlgather.dialects.windows import Window
from dmlgather.directml import (
    DepthSpaceOrder,
    DepthToSpace1OperatorDesc,
    FeatureLevel,
    Operator,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
    operator_named,
)
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.directml.support import row_at
from dmlgather.plan import Layout, blocks
from dmlgather.wording import braces

SLICE, SLICE1 = map(operator_named, ("SLICE", "SLICE1"))


def slices(data: View, output: View, windows: Sequence[Window], level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return descriptors of a slice: output[c] = data[start + step · c] in each dimension.

    If the level takes too few dimensions, return a chain. Each descriptor of the chain slices as many dimensions as possible.
    """
    # The step of a single element has no effect, but may be too large for the descriptor's field: replace it by 1.
    windows = [window if window.count > 1 else replace(window, step=1) for window in windows]
    operator = _operator(windows, level)
    if fits(operator, level, data):
        return (_slice(operator, (data, output, windows), level),)
    axes = [axis for axis, window in enumerate(windows) if window != Window.whole(data.sizes[axis])]
    descs: list[OperatorDesc] = []
    while axes or not descs:
        count, arguments = _largest_slice(operator, (data, output, windows), axes, level)
        descs.append(_slice(operator, arguments, level))
        data, axes = View.packed(data.name, data.data_type, _sliced_sizes(data, windows, axes[:count])), axes[count:]
    return tuple(descs)


def whole_copy(data: View, output: View, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return descriptors of output[c] = data[c]."""
    return slices(data, output, [Window.whole(size) for size in data.sizes], level)


_SliceArguments = tuple[View, View, Sequence[Window]]
"""Tensor to read, tensor to write, and the slice of each dimension."""


def _largest_slice(
    operator: Operator, arguments: _SliceArguments, axes: Sequence[int], level: FeatureLevel
) -> tuple[int, _SliceArguments]:
    """Return the number of dimensions in `axes` that one descriptor can slice (at least 1), and the arguments for it."""
    data, output, windows = arguments
    for count in range(len(axes), -1, -1):
        sliced = axes[:count]
        target = output if sliced == axes else View.packed(output.name, output.data_type, _sliced_sizes(data, windows, sliced))
        arguments = _merged_slice(data, target, windows, sliced)
        if fits(operator, level, arguments[0]) or count <= 1:
            break
    return count, arguments


def _sliced_sizes(data: View, windows: Sequence[Window], axes: Sequence[int]) -> list[int]:
    return [windows[axis].count if axis in axes else size for axis, size in enumerate(data.sizes)]


def _operator(windows: Sequence[Window], level: FeatureLevel) -> Operator:
    """Return SLICE1 if the level has it and the steps fit 32 bits, else SLICE, which takes only positive steps."""
    steps = [window.step for window in windows]
    narrow = all(-(2**31) <= step < 2**31 for step in steps)
    if narrow and level >= SLICE1.introduced:
        return SLICE1
    if any(step < 0 for step in steps):
        refuse(
            "EXP106",
            "steps",
            expected=f"positive steps, as SLICE takes them at level {level}"
            if narrow
            else "steps of 32 bits, as SLICE1 takes them",
            got=f"{braces(steps)} for the dimensions of data",
            remedy="gather the positions in the order of the steps"
            if narrow
            else "copy the elements one by one: with this step there are only two elements",
            newer=narrow,
        )
    return SLICE


def _merged_slice(data: View, output: View, windows: Sequence[Window], axes: Sequence[int]) -> _SliceArguments:
    """Return the arguments of a slice of the dimensions `axes`. Other dimensions are copied whole, and merged if possible."""
    read: list[Dim] = []
    written: list[Dim] = []
    merged_windows: list[Window] = []
    for previous, axis in pairwise((-1, *axes, data.rank)):
        whole, target = merge(data.dims[previous + 1 : axis], output.dims[previous + 1 : axis])
        read += (*whole, *data.dims[axis : axis + 1])
        written += (*target, *output.dims[axis : axis + 1])
        merged_windows += (*(Window.whole(dim.size) for dim in whole), *windows[axis : axis + 1])
    return replace(data, dims=tuple(read)), replace(output, dims=tuple(written)), merged_windows


def _slice(operator: Operator, arguments: _SliceArguments, level: FeatureLevel) -> OperatorDesc:
    data, output, windows = arguments
    tensors = tensor_descs(operator, level, data, output)
    windows = [Window.whole(1)] * (tensors["input_tensor"].rank - data.rank) + list(windows)
    starts, steps = tuple(window.start for window in windows), tuple(window.step for window in windows)
    if operator is SLICE:
        return SliceOperatorDesc(**tensors, offsets=starts, sizes=tuple(window.count for window in windows), strides=steps)
    spans = [(window.count - 1) * window.step for window in windows]
    return Slice1OperatorDesc(
        **tensors,
        input_window_offsets=[start + min(span, 0) for start, span in zip(starts, spans, strict=True)],
        input_window_sizes=[1 + abs(span) for span in spans],
        input_window_strides=steps,
    )


def separate_windows(
    data: View, sizes: Mapping[int, int], level: FeatureLevel
) -> tuple[tuple[OperatorDesc, ...], View, Mapping[int, Dim]]:
    """Copy `data` so that adjacent windows do not overlap. Return the descriptors, the copy, and new dimensions for it.

    `sizes`: the window sizes, by dimension of `data`. There is one new dimension for each of these dimensions. The position
    along the old dimension is the start p of a window. The position along the new dimension is the offset j in the window. Both
    together address element p + j of `data`.

    DirectML's documents allow elements to overlap only by a stride of 0. So the copy repeats `data`, once per offset or once
    per start, whichever is less. Example: windows of 2 in `data` of 5 elements, abcde. There are 2 offsets and 4 starts, so the
    copy is abcde abcde, and offset j is read from repetition j. The dimension of p has stride 1. The dimension of j has stride
    5 + 1: 5 elements to the next repetition, and 1 to the next element.
    """
    counts = [min(size, data.sizes[axis] - size + 1) for axis, size in sizes.items()]
    repeated = replace(data, dims=(*(Dim(count, 0) for count in counts), *data.dims))
    copy = View.packed(data.name, data.data_type, repeated.sizes)
    if data.span <= ELEMENT_LIMIT < copy.span:
        refuse(
            "EXP110",
            "slice_sizes",
            expected=f"at most {ELEMENT_LIMIT} elements in the copy of data for the windows",
            got=f"{copy.span}: {braces(data.sizes)}, repeated {braces(counts)} times for windows of {braces([*sizes.values()])}",
            remedy="give each element of a window its own index vector, the window's start plus the element's offset",
        )
    if not sizes:
        return (), data, {}
    dims, offsets = list(copy.dims[len(counts) :]), {}
    for (axis, size), repetition in zip(sizes.items(), copy.dims, strict=False):
        starts, along = dims[axis].size - size + 1, dims[axis].stride
        across = repetition.stride + along
        dims[axis] = Dim(starts, along if size <= starts else across)
        offsets[axis] = Dim(size, across if size <= starts else along)
    return whole_copy(repeated, copy, level), replace(copy, dims=tuple(dims)), offsets


DEPTH_TO_SPACE1, SPACE_TO_DEPTH1 = map(operator_named, ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1"))


def depth_to_space(data: View, output: View, block: int, order: DepthSpaceOrder, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return a DEPTH_TO_SPACE1, or a copy with permuted dimensions if the level does not take the type or rank."""
    require(DEPTH_TO_SPACE1, level)
    if _takes(DEPTH_TO_SPACE1, data, level):
        tensors = tensor_descs(DEPTH_TO_SPACE1, level, data, output)
        return (DepthToSpace1OperatorDesc(**tensors, block_size=block, order=order),)
    return whole_copy(*_in_blocks(data, output, block, order), level)


def space_to_depth(data: View, output: View, block: int, order: DepthSpaceOrder, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return a SPACE_TO_DEPTH1, or a copy with permuted dimensions if the level does not take the type or rank."""
    require(SPACE_TO_DEPTH1, level)
    if _takes(SPACE_TO_DEPTH1, data, level):
        tensors = tensor_descs(SPACE_TO_DEPTH1, level, data, output)
        return (SpaceToDepth1OperatorDesc(**tensors, block_size=block, order=order),)
    depth, space = _in_blocks(output, data, block, order)
    return whole_copy(space, depth, level)


def _takes(operator: Operator, data: View, level: FeatureLevel) -> bool:
    row = row_at(operator.name, "InputTensor", level)
    return row is not None and data.data_type in row.data_types and data.rank in row.dimension_counts


def _in_blocks(depth: View, space: View, block: int, order: DepthSpaceOrder) -> tuple[View, View]:
    """Reshape both tensors to equal dimensions, so that a copy does the operator's work."""
    last = order is DepthSpaceOrder.DEPTH_COLUMN_ROW
    first, second = blocks(_layout(depth), _layout(space), block, channels_last=last)
    return _with_layout(depth, first), _with_layout(space, second)


def _layout(view: View) -> Layout:
    return Layout(view.sizes, tuple(dim.stride for dim in view.dims), 0, view.span)


def _with_layout(view: View, layout: Layout) -> View:
    return replace(view, dims=tuple(map(Dim, layout.sizes, layout.strides)))
