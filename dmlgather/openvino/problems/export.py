"""Export of OpenVINO's operations to DirectML descriptors."""

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
    # GATHER_ELEMENTS on {batches, lead, axis, trail}. Strides of 0 repeat the indices along lead and trail.
    batches, lead, trail = map(prod, (data.sizes[:batch], data.sizes[batch:axis], data.sizes[axis + 1 :]))
    count = prod(indices.sizes[batch:])
    data = View.packed(data.name, data.data_type, (batches, lead, data.sizes[axis], trail))
    indices = replace(indices, dims=(Dim(batches, count), Dim(lead, 0), Dim(count, 1), Dim(trail, 0)))
    output = View.packed(output.name, output.data_type, (batches, lead, count, trail))
    return descriptors.gather_elements(data, indices, output, 2, level)


def _index_differences(problem: Problem, _: None) -> IndexDifferences | None:
    """Return the texts of the warnings about indices out of range (EXP201) and negative indices (EXP202).

    Returns None for operations where an index out of range is an error.
    """
    if not isinstance(problem, OpenVINOGather):  # in other operations, an index out of range is an error
        return None
    signed, size = problem.indices.dtype.kind == "i", problem.data.shape[problem.axis]
    zeros = f"zeros in {problem}"
    return IndexDifferences(
        "indices",
        f"{0 if not signed or problem.version < 8 else -size} to {size - 1}",
        zeros,
        "unless all indices are in range, mask the output where an index is out of range, as docs/openvino.md shows",
        zeros if signed and problem.version < 8 else None,
        "also mask the output where an index is negative, or make the node a Gather-8, where negative indices count from the end",
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
