"""GATHER and GATHER_ELEMENTS: declaration, lowering, documented pseudocode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml.descriptors import GatherElementsOperatorDesc, GatherOperatorDesc
from dmlgather.directml.operators.operator import Layouts, Operator, lookup, plan, position
from dmlgather.directml.rules.gather import GATHER_ELEMENTS_RULES, GATHER_RULES
from dmlgather.directml.shapes import gather_batch, gather_output
from dmlgather.directml.types import FeatureLevel
from dmlgather.plan import IndexPlan


def lower_gather(desc: GatherOperatorDesc, layouts: Layouts) -> IndexPlan:
    """One lookup on Axis; index dimensions and batch dimensions move it."""
    data, indices = layouts["input_tensor"], layouts["indices_tensor"]
    rank, axis, real = len(data.sizes), desc.axis, desc.index_dimensions
    moves_indices = {with_input: indices.strides[dimension] for with_input, dimension in gather_batch(desc)}
    steps = [(data.strides[dim], moves_indices.get(dim, 0)) for dim in range(axis)]
    steps += [(0, indices.strides[dim]) for dim in range(rank - real, rank)]
    steps += [(data.strides[dim], 0) for dim in range(axis + 1, rank)]
    # Aligned with the output's last dimension: dimensions that are removed or prepended have size 1.
    steps = [(0, 0)] * (rank - len(steps)) + steps[max(len(steps) - rank, 0) :]
    in_strides, index_strides = zip(*steps, strict=True)
    return plan(desc, layouts, in_strides, lookups=[lookup(desc, layouts, axis, index_strides)])


def gather_reference(desc: GatherOperatorDesc, data: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """output[lead…, i…, trail…] = input[lead…, indices[i…], trail…]; leading 1s as needed. Source: [G].

    Leading index dimensions that are not 1 are batch dimensions, paired with the first dimensions of the input that are not 1.
    """
    axis, real = desc.axis, desc.index_dimensions
    batch = _without_leading_ones(indices.shape[: indices.ndim - real])
    batch_start = data.ndim - len(_without_leading_ones(data.shape))
    unaligned = data.shape[:axis] + indices.shape[indices.ndim - real :] + data.shape[axis + 1 :]
    output = np.empty(unaligned, data.dtype)
    for c in np.ndindex(unaligned):
        lead, i, trail = c[:axis], c[axis : axis + real], c[axis + real :]
        leading = (0,) * (indices.ndim - real - len(batch)) + lead[batch_start : batch_start + len(batch)]
        output[c] = data[(*lead, position(indices[leading + i], data.shape[axis]), *trail)]
    return output.reshape(desc.output_tensor.sizes)


def lower_gather_elements(desc: GatherElementsOperatorDesc, layouts: Layouts) -> IndexPlan:
    """One lookup on Axis that moves along every dimension."""
    in_strides = list(layouts["input_tensor"].strides)
    in_strides[desc.axis] = 0
    return plan(desc, layouts, in_strides, lookups=[lookup(desc, layouts, desc.axis, layouts["indices_tensor"].strides)])


def gather_elements_reference(desc: GatherElementsOperatorDesc, data: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """output[c] = input[c with c[Axis] replaced by indices[c]]. Source: [GE]."""
    output = np.empty(indices.shape, data.dtype)
    for c in np.ndindex(indices.shape):
        output[c] = data[(*c[: desc.axis], position(indices[c], data.shape[desc.axis]), *c[desc.axis + 1 :])]
    return output


def _without_leading_ones(sizes: tuple[int, ...]) -> tuple[int, ...]:
    while sizes and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


GATHER = Operator(
    name="GATHER",
    value=67,
    desc=GatherOperatorDesc,
    introduced=FeatureLevel.LEVEL_1_0,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_RULES,
    output_sizes=gather_output,
    lower=lower_gather,
    lookup_axes=lambda desc: (desc.axis,),
    reference=gather_reference,
)

GATHER_ELEMENTS = Operator(
    name="GATHER_ELEMENTS",
    value=107,
    desc=GatherElementsOperatorDesc,
    introduced=FeatureLevel.LEVEL_2_1,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_ELEMENTS_RULES,
    output_sizes=lambda desc: desc.indices_tensor.sizes,
    lower=lower_gather_elements,
    lookup_axes=lambda desc: (desc.axis,),
    reference=gather_elements_reference,
)
