"""Export of views (reshape, transpose, …) and index expressions to DirectML, as slices of strided tensors and as gathers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from dmlgather.dialects import descriptors
from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing
from dmlgather.dialects.descriptors import Dim, Dims, View, slices, whole_copy
from dmlgather.dialects.exporter import Descriptors, slice_form, tensors_by_name, views
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView, StridedView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel
from dmlgather.plan import reach


def reshape_form(problem: ReshapeView, level: FeatureLevel) -> Descriptors:
    """Return descriptors that copy `data`. A reshape moves no element."""
    data, output = views(problem)
    return whole_copy(data, replace(output, dims=data.dims), level)


def transpose_form(problem: TransposeView, level: FeatureLevel) -> Descriptors:
    """Return descriptors that copy `data` with permuted dimensions."""
    data, output = views(problem)
    parts = data.dims[problem.data.rank :]
    return whole_copy(replace(data, dims=(*(data.dims[axis] for axis in problem.order), *parts)), output, level)


def expand_form(problem: ExpandView, level: FeatureLevel) -> Descriptors:
    """Return descriptors that copy `data` repeatedly, with strides of 0."""
    data, output = views(problem)
    new = len(problem.shape) - problem.data.rank
    dims = [Dim(size, 0) for size in output.sizes[:new]]
    for dim, size in zip(data.dims, output.sizes[new:], strict=True):
        dims.append(dim if dim.size == size else Dim(size, 0))
    return whole_copy(replace(data, dims=tuple(dims)), output, level)


def strided_form(problem: StridedView, level: FeatureLevel) -> Descriptors:
    """Return descriptors that copy a strided view of `data`.

    DirectML's documents allow elements to overlap only by a stride of 0. So overlapping windows need two copies. The first copy
    repeats the elements, once per window. The second copy reads each window from its own repetition.
    """
    data, output = views(problem)
    parts = data.dims[problem.data.rank :]
    width = parts[0].size if parts else 1
    dims = tuple(Dim(size, abs(step) * width) for size, step in zip(problem.shape, problem.strides, strict=True))
    directed = [
        Window(n - 1, n, -1) if step < 0 else Window.whole(n) for n, step in zip(problem.shape, problem.strides, strict=True)
    ]
    low, high = (element * width for element in reach(problem.shape, problem.strides, problem.offset))
    # A View starts at element 0. To start at element `low`, add a dimension of size 2 and stride `low`, and take its index 1.
    offset = (Dim(2, low),) if low else ()
    flat = View.packed(data.name, data.data_type, [data.span])
    copies: Descriptors = ()
    if _overlapping((*offset, *dims)):
        overlapping = _overlapping(dims)
        repeated = replace(flat, dims=(*(Dim(dims[axis].size, 0) for axis in overlapping), *flat.dims))
        flat = View.packed(data.name, data.data_type, [*repeated.sizes[:-1], high - low + width])
        counts = map(Window.whole, repeated.sizes[:-1])
        copies = slices(repeated, flat, [*counts, Window(low, high - low + width, 1)], level)
        distances = {axis: dim.stride for axis, dim in zip(overlapping, flat.dims, strict=False)}
        dims = tuple(Dim(size, stride + distances.get(axis, 0)) for axis, (size, stride) in enumerate(dims))
        offset = ()
    reading = slices(
        replace(flat, dims=(*offset, *dims, *parts)),
        replace(output, dims=(*(Dim(1, 0) for _ in offset), *output.dims)),
        [*(Window(1, 1, 1) for _ in offset), *directed, *(Window.whole(dim.size) for dim in parts)],
        level,
    )
    return (*copies, *reading)


def _overlapping(dims: Dims) -> Sequence[int]:
    """Return the dimensions along which neighbouring positions share elements of the buffer."""
    axes, span = [], 0
    for axis in sorted(range(len(dims)), key=lambda axis: dims[axis].stride):
        size, step = dims[axis]
        if size > 1 and step:
            if step <= span:  # not larger than the extent of all dimensions with smaller strides
                axes.append(axis)
            else:
                span += (size - 1) * step
    return axes


def indexing_form(problem: AdvancedIndexing, level: FeatureLevel) -> Descriptors:
    """Return a GATHER for one index array, or a GATHER_ND for several, perhaps after slices of `data`.

    GATHER_ND indexes the first dimensions, so the indexed dimensions are moved to the front. The output has no new
    dimensions of size 1.
    """
    data, indices, output = views(problem)
    parts = data.dims[problem.data.rank :]
    copies, data = _windowed(problem, data, level)
    after = problem.place + len(problem.positions)
    others = (*output.dims[: problem.place], *output.dims[after:])
    kept = [(axis, dim) for axis, dim in zip(problem.kept, others, strict=False) if axis is not None]
    indexed, positions = [data.dims[axis] for axis in problem.axes], output.dims[problem.place : after]
    read, written = [data.dims[axis] for axis, _ in kept], [dim for _, dim in kept]
    single = len(indexed) == 1
    lead = sum(axis < problem.axes[0] for axis, _ in kept) if single else 0
    data = replace(data, dims=(*read[:lead], *indexed, *read[lead:], *parts))
    output = replace(output, dims=(*written[:lead], *positions, *written[lead:], *parts))
    build = descriptors.gather if single else descriptors.gather_nd
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


def needed_by_indexing(problem: Problem) -> Mapping[str, TensorType]:
    """Return the tensors that must not be empty. Without indexed axes, the last (empty) dimension of indices is dropped."""
    tensors = tensors_by_name(problem)
    if isinstance(problem, AdvancedIndexing) and not problem.axes:
        tensors["indices"] = replace(problem.indices, shape=problem.positions)
    return tensors


def _windowed(problem: AdvancedIndexing, data: View, level: FeatureLevel) -> tuple[Descriptors, View]:
    """Apply the slices of an index expression. Return the descriptors of a copy, and the sliced data.

    Nothing is copied if all slices start at 0 and have positive steps.
    """
    parts = data.dims[problem.data.rank :]
    if all(window.start == 0 and window.step > 0 for window in problem.taken):
        pairs = zip(problem.taken, data.dims, strict=False)
        return (), replace(data, dims=(*(Dim(window.count, window.step * dim.stride) for window, dim in pairs), *parts))
    sizes = [*(window.count for window in problem.taken), *(dim.size for dim in parts)]
    copy = View.packed(data.name, data.data_type, sizes)
    assert prod(sizes), "without elements there is no form"
    return slices(data, copy, [*problem.taken, *(Window.whole(dim.size) for dim in parts)], level), copy
