"""Index expressions as DirectML descriptors: a slice, a gather of a view, or a slice and a gather of what it copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from dmlgather.dialects import descriptors
from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing
from dmlgather.dialects.descriptors import Dim, View
from dmlgather.dialects.exporter import Descriptors, slice_form, tensors_by_name, views
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel


def indexing_form(problem: AdvancedIndexing, level: FeatureLevel) -> Descriptors:
    """GATHER for one index array; GATHER_ND for several, on views whose first dimensions are those that are looked up.

    The described output has no new dimensions. Index arrays without dimensions to look up (x[True]) repeat data.
    """
    data, indices, output = views(problem)
    parts = data.dims[problem.data.rank :]
    copies, data = _windowed(problem, data, level)
    behind = problem.place + len(problem.positions)
    others = (*output.dims[: problem.place], *output.dims[behind:])
    kept = [(axis, dim) for axis, dim in zip(problem.kept, others, strict=False) if axis is not None]
    looked_up, positions = [data.dims[axis] for axis in problem.axes], output.dims[problem.place : behind]
    read, written = [data.dims[axis] for axis, _ in kept], [dim for _, dim in kept]
    alone = len(looked_up) == 1
    lead = sum(axis < problem.axes[0] for axis, _ in kept) if alone else 0
    data = replace(data, dims=(*read[:lead], *looked_up, *read[lead:], *parts))
    output = replace(output, dims=(*written[:lead], *positions, *written[lead:], *parts))
    build = descriptors.gather if alone else descriptors.gather_nd
    return (*copies, *build(data, indices, output, lead, level))


FORMS: Mapping[type[Problem], Callable[[Any, FeatureLevel], Descriptors]] = {
    BasicIndexing: slice_form,
    AdvancedIndexing: indexing_form,
}
"""The forms of index expressions, for a dialect's `Exporter`."""


def needed_by_indexing(problem: Problem) -> Mapping[str, TensorType]:
    """The tensors that must have elements: indices that look nothing up need none."""
    tensors = tensors_by_name(problem)
    if isinstance(problem, AdvancedIndexing) and not problem.axes:
        tensors["indices"] = replace(problem.indices, shape=problem.positions)
    return tensors


def _windowed(problem: AdvancedIndexing, data: View, level: FeatureLevel) -> tuple[Descriptors, View]:
    """What copies the windows of data, if they are no view of it, and the view of the windows, with the dimensions of data.

    A view begins with element 0, and its strides are not negative.
    """
    parts = data.dims[problem.data.rank :]
    if all(window.start == 0 and window.step > 0 for window in problem.taken):
        pairs = zip(problem.taken, data.dims, strict=False)
        return (), replace(data, dims=(*(Dim(window.count, window.step * dim.stride) for window, dim in pairs), *parts))
    sizes = [*(window.count for window in problem.taken), *(dim.size for dim in parts)]
    copy = View.packed(data.name, data.data_type, sizes)
    assert prod(sizes), "without elements there is no form"
    return descriptors.slices(data, copy, [*problem.taken, *(Window.whole(dim.size) for dim in parts)], level), copy
