"""Slices of views: SLICE1 and SLICE, in several steps where a level takes too few dimensions for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from dmlgather.dialects.descriptors.level_limits import described, fits, refuse
from dmlgather.dialects.descriptors.tensor_views import Dim, View, merge
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel, Operator, OperatorDesc, Slice1OperatorDesc, SliceOperatorDesc, operator_named
from dmlgather.wording import braces

SLICE, SLICE1 = map(operator_named, ("SLICE", "SLICE1"))


def slices(data: View, output: View, windows: Sequence[Window], level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """output[c] = data[start + step · c], per dimension, as SLICE1, or as SLICE where there is none or its steps are too narrow.

    windows: one per dimension of data. More dimensions than the level takes, once those that are left whole are merged, need
    several descriptors, each of which cuts as many dimensions as it can.
    """
    # One element needs no step, and a step may be wider than a field.
    windows = [window if window.count > 1 else replace(window, step=1) for window in windows]
    operator = _slicer(windows, level)
    if fits(operator, level, data):
        return (_slice(operator, (data, output, windows), level),)
    left = [axis for axis, window in enumerate(windows) if window != Window.whole(data.sizes[axis])]
    found: list[OperatorDesc] = []
    while left or not found:
        now, step = _widest_step(operator, (data, output, windows), left, level)
        found.append(_slice(operator, step, level))
        data, left = View.packed(data.name, data.data_type, _cut(data, windows, now)), left[len(now) :]
    return tuple(found)


_Step = tuple[View, View, Sequence[Window]]
"""One descriptor's data, output and windows."""


def _widest_step(operator: Operator, step: _Step, left: Sequence[int], level: FeatureLevel) -> tuple[Sequence[int], _Step]:
    """The first of the dimensions `left` to slice, as many as fit but at least one, and the step that slices them alone."""
    data, output, windows = step
    for count in range(len(left), -1, -1):
        now = left[:count]
        target = output if now == left else View.packed(output.name, output.data_type, _cut(data, windows, now))
        step = _merged_step(data, target, windows, now)
        if fits(operator, level, step[0]) or count <= 1:
            break
    return now, step


def _cut(data: View, windows: Sequence[Window], now: Sequence[int]) -> list[int]:
    return [windows[axis].count if axis in now else size for axis, size in enumerate(data.sizes)]


def _slicer(windows: Sequence[Window], level: FeatureLevel) -> Operator:
    """SLICE1 where the level has it and its INT takes the steps, else SLICE, which only walks forwards."""
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
            remedy=f"use feature level {SLICE1.introduced} or newer, which has SLICE1"
            if narrow
            else "take the elements one by one: that many positions apart there are only two",
            level=SLICE1.introduced if narrow else None,
        )
    return SLICE


def _merged_step(data: View, output: View, windows: Sequence[Window], now: Sequence[int]) -> _Step:
    """Only the dimensions `now` sliced, and the runs between them merged."""
    inner: list[Dim] = []
    outer: list[Dim] = []
    kept: list[Window] = []
    for before, axis in pairwise((-1, *now, data.rank)):
        whole, written = merge(data.dims[before + 1 : axis], output.dims[before + 1 : axis])
        inner += (*whole, *data.dims[axis : axis + 1])
        outer += (*written, *output.dims[axis : axis + 1])
        kept += (*(Window.whole(dim.size) for dim in whole), *windows[axis : axis + 1])
    return replace(data, dims=tuple(inner)), replace(output, dims=tuple(outer)), kept


def _slice(operator: Operator, step: _Step, level: FeatureLevel) -> OperatorDesc:
    data, output, windows = step
    tensors = described(operator, level, data, output)
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
