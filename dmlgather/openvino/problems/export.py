"""Export of OpenVINO's problems to DirectML, and the indices for which the two differ."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dmlgather.dialects import descriptors
from dmlgather.dialects.descriptors import Dim, View
from dmlgather.dialects.exporter import (
    Descriptors,
    Exporter,
    IndexDifferences,
    gather_elements_form,
    gather_nd_form,
    needed_by_tuples,
    slice_form,
    views,
)
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice


def _gather(problem: OpenVINOGather, level: FeatureLevel) -> Descriptors:
    data, indices, output = views(problem)
    axis, batch = problem.axis, problem.batch_dims
    if prod(indices.sizes[:batch]) == 1:
        return descriptors.gather(data, replace(indices, dims=indices.dims[batch:]), output, axis, level)
    if axis == batch:
        tuples = replace(indices, dims=(*indices.dims, Dim(1, 1)))
        return descriptors.gather_nd(data, tuples, output, batch, level)
    return _repeated(data, indices, output, problem, level)


def _repeated(data: View, indices: View, output: View, problem: OpenVINOGather, level: FeatureLevel) -> Descriptors:
    """Return GATHER_ELEMENTS on {batch, lead, axis, trail}, with indices that strides of 0 repeat along lead and trail."""
    batch_dims, axis = problem.batch_dims, problem.axis
    batch, lead, trail = map(prod, (data.sizes[:batch_dims], data.sizes[batch_dims:axis], data.sizes[axis + 1 :]))
    count = prod(indices.sizes[batch_dims:])
    repeated = (Dim(batch, count), Dim(lead, 0), Dim(count, 1), Dim(trail, 0))
    return descriptors.gather_elements(
        View.packed(data.name, data.data_type, (batch, lead, data.sizes[axis], trail)),
        replace(indices, dims=repeated),
        View.packed(output.name, output.data_type, (batch, lead, count, trail)),
        2,
        level,
    )


def _index_differences(problem: Problem, _: None) -> IndexDifferences | None:
    if not isinstance(problem, OpenVINOGather):  # in other operations, an index out of range is an error
        return None
    signed, size = problem.indices.dtype.kind == "i", problem.data.shape[problem.axis]
    zeros = f"zeros in {problem}"
    return IndexDifferences(
        "indices",
        f"{0 if not signed or problem.version < 8 else -size} to {size - 1}",
        zeros,
        "mask the elements that indices out of range give, as docs/openvino.md shows, unless all are in range",
        zeros if signed and problem.version < 8 else None,
        "mask their elements with the others, or make the node a Gather-8, where they count from the end too",
    )


EXPORTER = Exporter(
    {
        OpenVINOGather: _gather,
        OpenVINOGatherElements: gather_elements_form,
        OpenVINOGatherND: gather_nd_form,
        OpenVINOSlice: slice_form,
        OpenVINOStridedSlice: slice_form,
    },
    lambda problem: f"OpenVINO {problem}",
    needed_by_tuples,
    index_differences=_index_differences,
)
