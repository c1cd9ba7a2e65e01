"""From the views and index expressions that dialects share to DirectML: slices with other strides, gathers, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from dmlgather.dialects import descriptors
from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing
from dmlgather.dialects.descriptors import Dim, Dims, View, slices
from dmlgather.dialects.exporter import Descriptors, slice_form, tensors_by_name, views
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView, StridedView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel
from dmlgather.plan import reach


def reshape_form(problem: ReshapeView, level: FeatureLevel) -> Descriptors:
    """A copy: both tensors have data's dimensions."""
    data, output = views(problem)
    return _whole(data, replace(output, dims=data.dims), level)


def transpose_form(problem: TransposeView, level: FeatureLevel) -> Descriptors:
    """Data with its dimensions in the order of the output's."""
    data, output = views(problem)
    parts = data.dims[problem.data.rank :]
    return _whole(replace(data, dims=(*(data.dims[axis] for axis in problem.order), *parts)), output, level)


def expand_form(problem: ExpandView, level: FeatureLevel) -> Descriptors:
    """Data, repeated by strides of 0."""
    data, output = views(problem)
    new = len(problem.shape) - problem.data.rank
    dims = [Dim(size, 0) for size in output.sizes[:new]]
    for dim, size in zip(data.dims, output.sizes[new:], strict=True):
        dims.append(dim if dim.size == size else Dim(size, 0))
    return _whole(replace(data, dims=tuple(dims)), output, level)


def strided_form(problem: StridedView, level: FeatureLevel) -> Descriptors:
    """Data as one dimension, read by the view's own strides.

    DirectML's documents know no strides by which elements are shared but 0. So where windows overlap, the part of data that is
    read is repeated first, and each window lies in a repetition of its own.
    """
    data, output = views(problem)
    parts = data.dims[problem.data.rank :]
    width = parts[0].size if parts else 1
    dims = tuple(Dim(size, abs(step) * width) for size, step in zip(problem.shape, problem.strides, strict=True))
    walks = [
        Window(n - 1, n, -1) if step < 0 else Window.whole(n) for n, step in zip(problem.shape, problem.strides, strict=True)
    ]
    low, high = (place * width for place in reach(problem.shape, problem.strides, problem.offset))
    # A view begins with element 0: what lies before is left out by a window of a further dimension.
    before = (Dim(2, low),) if low else ()
    flat = View.packed(data.name, data.data_type, [data.span])
    copies: Descriptors = ()
    if _overlapping((*before, *dims)):
        shared = _overlapping(dims)
        repeated = replace(flat, dims=(*(Dim(dims[axis].size, 0) for axis in shared), *flat.dims))
        flat = View.packed(data.name, data.data_type, [*repeated.sizes[:-1], high - low + width])
        counts = map(Window.whole, repeated.sizes[:-1])
        copies = slices(repeated, flat, [*counts, Window(low, high - low + width, 1)], level)
        apart = {axis: dim.stride for axis, dim in zip(shared, flat.dims, strict=False)}
        dims = tuple(Dim(size, stride + apart.get(axis, 0)) for axis, (size, stride) in enumerate(dims))
        before = ()
    reading = slices(
        replace(flat, dims=(*before, *dims, *parts)),
        replace(output, dims=(*(Dim(1, 0) for _ in before), *output.dims)),
        [*(Window(1, 1, 1) for _ in before), *walks, *(Window.whole(dim.size) for dim in parts)],
        level,
    )
    return (*copies, *reading)


def _overlapping(dims: Dims) -> Sequence[int]:
    """The dimensions without which no element is read twice, but by strides of 0."""
    found, span = [], 0
    for axis in sorted(range(len(dims)), key=lambda axis: dims[axis].stride):
        size, step = dims[axis]
        if size > 1 and step:
            if step <= span:
                found.append(axis)
            else:
                span += (size - 1) * step
    return found


def _whole(data: View, output: View, level: FeatureLevel) -> Descriptors:
    return slices(data, output, [Window.whole(size) for size in data.sizes], level)


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


VIEW_FORMS: Mapping[type[Problem], Callable[[Any, FeatureLevel], Descriptors]] = {
    ReshapeView: reshape_form,
    TransposeView: transpose_form,
    ExpandView: expand_form,
    SliceView: slice_form,
    StridedView: strided_form,
    BasicIndexing: slice_form,
    AdvancedIndexing: indexing_form,
}
"""For the `forms` of an `Exporter`."""


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
