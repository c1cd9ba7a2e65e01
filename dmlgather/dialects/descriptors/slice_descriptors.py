"""Slices of views: SLICE1 and SLICE, in several steps where a level takes too few dimensions for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from dmlgather.dialects.descriptors.level_limits import fits, refuse, tensor_descs
from dmlgather.dialects.descriptors.tensor_views import Dim, View, merge
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel, Operator, OperatorDesc, Slice1OperatorDesc, SliceOperatorDesc, operator_named
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
