"""From a problem with data and indices to a plan: what the dialects' lowerings share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.problem import Problem
from dmlgather.plan import IndexPlan, IndexType, Layout, build, lookup


def index_type(dtype: np.dtype[Any]) -> IndexType:
    """The index type of an integer data type."""
    return IndexType[dtype.name.upper()]


def gathering(
    problem: Problem,
    layouts: Sequence[Layout],
    in_strides: Sequence[int],
    index_strides: Sequence[int],
    *,
    component_stride: int = 0,
    in_offset: int = 0,
) -> IndexPlan:
    """The plan whose k-th lookup, on the k-th of the problem's axes, reads `component_stride` · k elements into the indices.

    layouts: of data, indices and output. in_strides, index_strides: per output dimension. in_offset: from data's first element.
    """
    data, indices, output = layouts
    kind = index_type(problem.tensors[1].dtype)
    lookups = [
        lookup(data, indices, axis, index_strides, kind, component=number * component_stride, wraps=problem.wraps)
        for number, axis in enumerate(problem.lookup_axes)
    ]
    width = problem.data.dtype.itemsize
    return build(data, output, in_strides, width, in_offset=in_offset, lookups=lookups, indices=indices, index_type=kind)


def gather(problem: Problem, layouts: Sequence[Layout], axis: int, batch_dims: int) -> IndexPlan:
    """output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…], with `axis` behind b… and lead…."""
    data, indices, _ = layouts
    lead, trail = data.strides[:axis], data.strides[axis + 1 :]
    batch, moved = indices.strides[:batch_dims], indices.strides[batch_dims:]
    in_strides = (*lead, *(0 for _ in moved), *trail)
    index_strides = (*batch, *(0 for _ in lead[batch_dims:]), *moved, *(0 for _ in trail))
    return gathering(problem, layouts, in_strides, index_strides)
