"""Copies of views without lookups: SLICE1 and SLICE, in several steps where a level takes too few dimensions for one; channels as
blocks of rows and columns and back, DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1; windows side by side, read from repetitions.
"""

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
    """output[c] = data[start + step · c], per dimension, as SLICE1, or as SLICE where the level lacks it or a step is too wide.

    windows: one per dimension of data. Where the level does not take so many dimensions, even with dimensions merged that are
    copied whole, there are several descriptors, each of which slices as many dimensions as it can.
    """
    # A window of one element needs no step, and its step may be too wide for a field.
    windows = [window if window.count > 1 else replace(window, step=1) for window in windows]
    operator = _operator(windows, level)
    if fits(operator, level, data):
        return (_slice(operator, (data, output, windows), level),)
    axes = [axis for axis, window in enumerate(windows) if window != Window.whole(data.sizes[axis])]
    descs: list[OperatorDesc] = []
    while axes or not descs:
        count, step = _widest_step(operator, (data, output, windows), axes, level)
        descs.append(_slice(operator, step, level))
        data, axes = View.packed(data.name, data.data_type, _sliced_sizes(data, windows, axes[:count])), axes[count:]
    return tuple(descs)


_Step = tuple[View, View, Sequence[Window]]
"""One descriptor's data, output and windows."""


def _widest_step(operator: Operator, step: _Step, axes: Sequence[int], level: FeatureLevel) -> tuple[int, _Step]:
    """The step that slices the first of the `axes` alone, as many as fit but at least one; and how many these are."""
    data, output, windows = step
    for count in range(len(axes), -1, -1):
        now = axes[:count]
        target = output if now == axes else View.packed(output.name, output.data_type, _sliced_sizes(data, windows, now))
        step = _merged_step(data, target, windows, now)
        if fits(operator, level, step[0]) or count <= 1:
            break
    return count, step


def _sliced_sizes(data: View, windows: Sequence[Window], axes: Sequence[int]) -> list[int]:
    """The sizes of data when these axes are sliced."""
    return [windows[axis].count if axis in axes else size for axis, size in enumerate(data.sizes)]


def _operator(windows: Sequence[Window], level: FeatureLevel) -> Operator:
    """SLICE1 where the level has it and its INT holds the steps, else SLICE, which takes positive steps alone."""
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
            else "take the elements one by one: with such a step there are only two",
            newer=narrow,
        )
    return SLICE


def _merged_step(data: View, output: View, windows: Sequence[Window], axes: Sequence[int]) -> _Step:
    """The step that slices these axes alone, with the dimensions between them merged."""
    read: list[Dim] = []
    written: list[Dim] = []
    kept: list[Window] = []
    for before, axis in pairwise((-1, *axes, data.rank)):
        whole, target = merge(data.dims[before + 1 : axis], output.dims[before + 1 : axis])
        read += (*whole, *data.dims[axis : axis + 1])
        written += (*target, *output.dims[axis : axis + 1])
        kept += (*(Window.whole(dim.size) for dim in whole), *windows[axis : axis + 1])
    return replace(data, dims=tuple(read)), replace(output, dims=tuple(written)), kept


def _slice(operator: Operator, step: _Step, level: FeatureLevel) -> OperatorDesc:
    data, output, windows = step
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


def windows_apart(
    data: View, sizes: Mapping[int, int], level: FeatureLevel
) -> tuple[tuple[OperatorDesc, ...], View, Mapping[int, Dim]]:
    """The descriptors that copy data; the copy, with possible starts as dimensions; and the dimensions of offsets beside these.

    sizes: the elements of a window, by dimension of data. The copy's view has data's dimensions, and those with windows have a
    size of starts. Offset j behind start p is data's element p + j. Without windows there is no copy.

    Neighbouring windows share elements, and DirectML's documents know no strides by which elements are shared but 0. So the copy
    is data repeated by strides of 0. Offset j lies in repetition j, so that its stride is one repetition and one element. Where
    there are fewer starts than offsets, start p lies in repetition p instead.
    """
    counts = [min(size, data.sizes[axis] - size + 1) for axis, size in sizes.items()]
    repeated = replace(data, dims=(*(Dim(count, 0) for count in counts), *data.dims))
    copy = View.packed(data.name, data.data_type, repeated.sizes)
    if data.span <= ELEMENT_LIMIT < copy.span:
        refuse(
            "EXP110",
            "slice_sizes",
            expected=f"at most {ELEMENT_LIMIT} elements to read windows from",
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
    descs = slices(repeated, copy, [Window.whole(size) for size in copy.sizes], level)
    return descs, replace(copy, dims=tuple(dims)), offsets


DEPTH_TO_SPACE1, SPACE_TO_DEPTH1 = map(operator_named, ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1"))


def depth_to_space(data: View, output: View, block: int, order: DepthSpaceOrder, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Channels of data as blocks of output, as DEPTH_TO_SPACE1.

    Where its data type or a further dimension keep that from it, all of data is sliced, with the strides of a permutation.
    """
    require(DEPTH_TO_SPACE1, level)
    if _takes(DEPTH_TO_SPACE1, data, level):
        tensors = tensor_descs(DEPTH_TO_SPACE1, level, data, output)
        return (DepthToSpace1OperatorDesc(**tensors, block_size=block, order=order),)
    return _sliced_whole(*_in_blocks(data, output, block, order), level)


def space_to_depth(data: View, output: View, block: int, order: DepthSpaceOrder, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Blocks of data as channels of output, as SPACE_TO_DEPTH1; else as `depth_to_space` does."""
    require(SPACE_TO_DEPTH1, level)
    if _takes(SPACE_TO_DEPTH1, data, level):
        tensors = tensor_descs(SPACE_TO_DEPTH1, level, data, output)
        return (SpaceToDepth1OperatorDesc(**tensors, block_size=block, order=order),)
    depth, space = _in_blocks(output, data, block, order)
    return _sliced_whole(space, depth, level)


def _takes(operator: Operator, data: View, level: FeatureLevel) -> bool:
    row = row_at(operator.name, "InputTensor", level)
    return row is not None and data.data_type in row.data_types and data.rank in row.dimension_counts


def _in_blocks(depth: View, space: View, block: int, order: DepthSpaceOrder) -> tuple[View, View]:
    """Both with the dimensions of `blocks`."""
    last = order is DepthSpaceOrder.DEPTH_COLUMN_ROW
    first, second = blocks(_layout(depth), _layout(space), block, channels_last=last)
    return _with_layout(depth, first), _with_layout(space, second)


def _layout(view: View) -> Layout:
    return Layout(view.sizes, tuple(dim.stride for dim in view.dims), 0, view.span)


def _with_layout(view: View, layout: Layout) -> View:
    return replace(view, dims=tuple(map(Dim, layout.sizes, layout.strides)))


def _sliced_whole(data: View, output: View, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    return slices(data, output, [Window.whole(size) for size in data.sizes], level)
