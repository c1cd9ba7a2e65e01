"""GATHER_ND and GATHER_ND1: declaration, lowering, documented pseudocode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml.descriptors import GatherND1OperatorDesc, GatherNDOperatorDesc
from dmlgather.directml.operators.operator import Layouts, Operator, lookup, plan, position
from dmlgather.directml.rules.gather_nd import GATHER_ND1_RULES, GATHER_ND_RULES
from dmlgather.directml.shapes import batch_count, first_indexed, gather_nd_output, tuple_size
from dmlgather.directml.types import FeatureLevel
from dmlgather.plan import IndexPlan


def indexed_axes(desc: GatherNDOperatorDesc) -> tuple[int, ...]:
    """The InputTensor dimensions that a tuple's components index."""
    return tuple(range(first_indexed(desc), first_indexed(desc) + tuple_size(desc)))


def lower_gather_nd(desc: GatherNDOperatorDesc, layouts: Layouts) -> IndexPlan:
    """One lookup per tuple component; batch dimensions move the input and the indices together."""
    data, indices = layouts["input_tensor"], layouts["indices_tensor"]
    rank, axes = len(data.sizes), indexed_axes(desc)
    first_batch, first_index = rank - desc.input_dimension_count, rank - desc.indices_dimension_count
    steps = [(0, indices.strides[dim]) for dim in range(first_index, rank - 1)]
    for step in range(batch_count(desc)):
        steps[step] = (data.strides[first_batch + step], indices.strides[first_index + step])
    steps += [(data.strides[dim], 0) for dim in range(first_indexed(desc) + tuple_size(desc), rank)]
    steps = [(0, 0)] * (rank - len(steps)) + steps
    in_strides, index_strides = zip(*steps, strict=True)
    lookups = [lookup(desc, layouts, axis, index_strides, component * indices.strides[-1]) for component, axis in enumerate(axes)]
    return plan(desc, layouts, in_strides, lookups=lookups)


def gather_nd_reference(desc: GatherNDOperatorDesc, data: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """output[b…, i…, trail…] = input[b…, indices[b…, i…, 0], indices[b…, i…, 1], …, trail…]. Source: [GN], [GN1].

    Only the last InputDimensionCount and IndicesDimensionCount dimensions are used; b is empty for GATHER_ND.
    """
    sizes: tuple[int, ...] = data.shape[data.ndim - desc.input_dimension_count :]
    tuples: tuple[int, ...] = indices.shape[indices.ndim - desc.indices_dimension_count : -1]
    components: int = indices.shape[-1]
    batch = desc.batch_dimension_count if isinstance(desc, GatherND1OperatorDesc) else 0
    used_data, used_indices = data.reshape(sizes), indices.reshape((*tuples, components))
    output = np.empty(tuples + sizes[batch + components :], data.dtype)
    for c in np.ndindex(tuples):
        found = tuple(position(used_indices[(*c, k)], sizes[batch + k]) for k in range(components))
        output[c] = used_data[c[:batch] + found]
    return output.reshape(desc.output_tensor.sizes)


GATHER_ND = Operator(
    name="GATHER_ND",
    value=108,
    desc=GatherNDOperatorDesc,
    introduced=FeatureLevel.LEVEL_2_1,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_ND_RULES,
    output_sizes=gather_nd_output,
    lower=lower_gather_nd,
    lookup_axes=indexed_axes,
    reference=gather_nd_reference,
)

GATHER_ND1 = Operator(
    name="GATHER_ND1",
    value=140,
    desc=GatherND1OperatorDesc,
    introduced=FeatureLevel.LEVEL_3_0,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_ND1_RULES,
    output_sizes=gather_nd_output,
    lower=lower_gather_nd,
    lookup_axes=indexed_axes,
    reference=gather_nd_reference,
)
