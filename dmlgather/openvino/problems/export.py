"""From OpenVINO's operations to DirectML: the descriptors, or why there are none, and where the two differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from dmlgather.dialects import descriptors
from dmlgather.dialects.descriptors import Dim, View
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import (
    Descriptors,
    Exporter,
    gather_elements_form,
    gather_nd_form,
    needed_by_tuples,
    slice_form,
    views,
)
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding
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
    """GATHER_ELEMENTS on {batch, lead, axis, trail}, with the indices repeated along lead and trail by strides of 0."""
    first, axis = problem.batch_dims, problem.axis
    batch, lead, trail = map(prod, (data.sizes[:first], data.sizes[first:axis], data.sizes[axis + 1 :]))
    count = prod(indices.sizes[first:])
    repeated = (Dim(batch, count), Dim(lead, 0), Dim(count, 1), Dim(trail, 0))
    return descriptors.gather_elements(
        View.packed(data.name, data.data_type, (batch, lead, data.sizes[axis], trail)),
        replace(indices, dims=repeated),
        View.packed(output.name, output.data_type, (batch, lead, count, trail)),
        2,
        level,
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
)


def differences(problem: Problem, size: int | None = None) -> Iterator[Finding]:
    """The indices for which the descriptors give other elements than OpenVINO, at any level. Only Gather has such: the others
    look nothing up, or have no elements for an index out of range.

    size: of the axis; None where it is not known before the model runs.
    """
    if not isinstance(problem, OpenVINOGather):
        return
    signed = problem.indices.dtype.kind == "i"
    end = "n - 1, n being the size of the axis" if size is None else str(size - 1)
    first = "0"
    if signed and problem.version == 8:
        first = "-n" if size is None else str(-size)
    yield CODES["EXP201"].finding(
        "indices",
        expected=f"indices from {first} to {end}",
        got=f"zeros in {problem}, the nearest element in DirectML",
        remedy="mask the elements that indices out of range give, as docs/openvino.md shows, unless all are in range",
    )
    if signed and problem.version < 8:
        yield CODES["EXP202"].finding(
            "indices",
            expected="indices from 0 on",
            got=f"zeros in {problem}, an element counted from the end in DirectML from level 3_0 on",
            remedy="mask their elements with the others, or make the node a Gather-8, where they count from the end too",
        )
