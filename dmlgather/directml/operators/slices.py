"""SLICE and SLICE1: declaration, lowering, documented pseudocode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml.descriptors import OperatorDesc, Slice1OperatorDesc, SliceOperatorDesc
from dmlgather.directml.operators.operator import Layouts, Operator, plan
from dmlgather.directml.rules.slices import SLICE1_RULES, SLICE_RULES
from dmlgather.directml.shapes import slice1_output
from dmlgather.directml.types import FeatureLevel
from dmlgather.plan import IndexPlan


def _walk(desc: OperatorDesc, layouts: Layouts, starts: Sequence[int], steps: Sequence[int]) -> IndexPlan:
    strides = layouts["input_tensor"].strides
    in_offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return plan(desc, layouts, [step * stride for step, stride in zip(steps, strides, strict=True)], in_offset)


def lower_slice(desc: SliceOperatorDesc, layouts: Layouts) -> IndexPlan:
    """Starts at Offsets, with steps of Strides."""
    return _walk(desc, layouts, desc.offsets, desc.strides)


def slice_reference(desc: SliceOperatorDesc, data: NDArray[Any]) -> NDArray[Any]:
    """output[c] = input[Offsets + Strides·c]. Source: [S]."""
    output = np.empty(desc.sizes, data.dtype)
    for c in np.ndindex(desc.sizes):
        output[c] = data[tuple(o + s * x for o, s, x in zip(desc.offsets, desc.strides, c, strict=True))]
    return output


def lower_slice1(desc: Slice1OperatorDesc, layouts: Layouts) -> IndexPlan:
    """Starts at each window's first element, or at its last where the stride is negative."""
    windows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    starts = [offset if stride > 0 else offset + size - 1 for offset, size, stride in windows]
    return _walk(desc, layouts, starts, desc.input_window_strides)


def slice1_reference(desc: Slice1OperatorDesc, data: NDArray[Any]) -> NDArray[Any]:
    """output[c] = window[|stride|·c], where the window is reversed along dimensions with negative strides. Source: [S1]."""
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
