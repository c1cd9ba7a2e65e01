"""Export of jax.lax.gather to DirectML descriptors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects import descriptors
from dmlgather.dialects.descriptors import Dim, Dims, View
from dmlgather.dialects.exporter import Descriptors, Exporter, IndexDifferences, slice_form, tensors_by_name, views
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.plan import OutOfBounds

NAMES = {"data": "operand", "indices": "start_indices", "batch_dims": "operand_batching_dims"}
"""JAX's names of inputs and attributes, for messages."""


def limits(problem: LaxGather) -> tuple[int, ...]:
    """Return, for each component of an index vector, the number of starts that keep the window in bounds.

    Example: a window of size 2 in a dimension of size 5 has the 4 starts 0 … 3.
    """
    return tuple(problem.data.shape[axis] - problem.slice_sizes[axis] + 1 for axis in problem.lookup_axes)


def with_known_starts(problem: LaxGather, starts: NDArray[Any] | None) -> LaxGather | SliceView:
    """Return the slice that equals the gather, if there is only one window and its start is known. Otherwise return the gather.

    A gather in mode "fill" with a window out of bounds stays a gather, because a slice cannot fill.
    """
    if starts is None or prod(problem.indices.shape[:-1]) != 1:
        return problem
    first = [0] * problem.data.rank
    for axis, start, limit in zip(problem.lookup_axes, starts.reshape(-1).tolist(), limits(problem), strict=True):
        first[axis] = min(max(start, 0), limit - 1)
        if problem.out_of_bounds is OutOfBounds.FILL and first[axis] != start:
            return problem
    windows = (Window(start, size, 1) for start, size in zip(first, problem.slice_sizes, strict=True))
    return SliceView(problem.data, tuple(windows))


def _gather(problem: LaxGather, level: FeatureLevel) -> Descriptors:
    dims = _GatherDims(problem, level)
    if len(dims.axes) == 1 and not dims.batches:
        return (*dims.copies, *dims.gather(level))
    if len(dims.axes) == 1 and sum(indices.size > 1 for indices, _ in dims.positions) <= 1 and not dims.windows:
        return dims.gather_elements(level)
    return (*dims.copies, *dims.gather_nd(level))


class _GatherDims:
    """The dimensions of a gather's tensors, grouped by role. The methods make the descriptors.

    A dimension that several tensors share is a tuple with one Dim per tensor.

    - `batches`: the batching dimensions of operand, start_indices and output, by dimension of operand.
    - `positions`: all other dimensions of start_indices except the last, and the corresponding dimensions of the output.
    - `windows`: the window's dimensions in operand and output, by dimension of operand.
    - `indexed`: the dimensions of operand that are indexed by index vectors.

    If a window has several elements along an indexed dimension, the dimension is split in two: one for the start and one for
    the position in the window. A window as large as the dimension has only one start. Smaller windows overlap in operand. For
    these, the descriptors `copies` first write a copy of operand that has both dimensions.
    """

    def __init__(self, problem: LaxGather, level: FeatureLevel) -> None:
        numbers, sizes, starts = problem.numbers, problem.slice_sizes, limits(problem)
        partial = {axis: sizes[axis] for axis, limit in zip(problem.lookup_axes, starts, strict=True) if sizes[axis] > 1 < limit}
        operand, self.indices, self.output = views(problem)
        self.copies, self.data, offsets = descriptors.separate_windows(operand, partial, level)
        self.parts = self.data.dims[problem.data.rank :]
        written = dict(zip(problem.sources, self.output.dims, strict=False))
        pairs = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
        if prod(problem.data.shape[axis] for axis, _ in pairs) == 1:
            pairs = []
        self.batches = {axis: (self.data.dims[axis], self.indices.dims[dim], written["indices", dim]) for axis, dim in pairs}
        self.positions = [
            (self.indices.dims[dim], written["indices", dim])
            for dim in range(problem.indices.rank - 1)
            if dim not in numbers.start_indices_batching_dims
        ]
        self.windows = {
            axis: (offsets.get(axis, Dim(sizes[axis], self.data.dims[axis].stride)), written["window", axis])
            for axis in problem.windowed
            if sizes[axis] > 1
        }
        # Leave out trailing components that can only be 0. Leading ones stay, because a View starts at component 0.
        count = max((number + 1 for number, limit in enumerate(starts) if limit > 1), default=0)
        self.axes = problem.lookup_axes[:count]
        self.indexed = [self.data.dims[axis] if limit > 1 else Dim(1, 0) for axis, limit in zip(self.axes, starts, strict=False)]

    def gather(self, level: FeatureLevel) -> Descriptors:
        """Return a GATHER descriptor.

        Index vectors must have one component, and there must be no batching dimensions.
        """
        (axis,) = self.axes
        lead = [dims for window_axis, dims in self.windows.items() if window_axis < axis]
        trail = [dims for window_axis, dims in self.windows.items() if window_axis >= axis]
        return descriptors.gather(
            self._with_parts(self.data, (*_of(0, lead), *self.indexed, *_of(0, trail))),
            replace(self.indices, dims=_of(0, self.positions)),
            self._with_parts(self.output, (*_of(1, lead), *_of(1, self.positions), *_of(1, trail))),
            len(lead),
            level,
        )

    def gather_elements(self, level: FeatureLevel) -> Descriptors:
        """Return a GATHER_ELEMENTS descriptor.

        Index vectors must have one component, and at most one dimension in `positions` may be larger than 1.
        """
        (axis,) = self.axes
        position = next((dims for dims in self.positions if dims[0].size > 1), (Dim(1, 0), Dim(1, 0)))
        by_axis = dict(sorted({**self.batches, axis: (self.indexed[0], *position)}.items()))
        dims = list(by_axis.values())
        repeated = tuple(Dim(dim.size, 0) for dim in self.parts)
        return descriptors.gather_elements(
            self._with_parts(self.data, _of(0, dims)),
            replace(self.indices, dims=(*_of(1, dims), *repeated)),
            self._with_parts(self.output, _of(2, dims)),
            list(by_axis).index(axis),
            level,
        )

    def gather_nd(self, level: FeatureLevel) -> Descriptors:
        """Return a GATHER_ND descriptor. It can express every gather."""
        batches, windows = list(self.batches.values()), list(self.windows.values())
        components = Dim(len(self.axes), 1)
        return descriptors.gather_nd(
            self._with_parts(self.data, (*_of(0, batches), *self.indexed, *_of(0, windows))),
            replace(self.indices, dims=(*_of(1, batches), *_of(0, self.positions), components)),
            self._with_parts(self.output, (*_of(2, batches), *_of(1, self.positions), *_of(1, windows))),
            len(batches),
            level,
        )

    def _with_parts(self, view: View, dims: Dims) -> View:
        """Return the view with these dimensions. A dimension for the words of a wide element is added if necessary.

        Example: a complex128 is two UINT64 in DirectML, so its view has one more dimension, of size 2.
        """
        return replace(view, dims=(*dims, *self.parts))


def _of(tensor: int, dims: Sequence[tuple[Dim, ...]]) -> Dims:
    return tuple(dim[tensor] for dim in dims)


def _required(problem: Problem) -> Mapping[str, TensorType]:
    """Return the tensors that must not be empty. If index vectors have no components, start_indices may be empty."""
    tensors = tensors_by_name(problem)
    if indices := tensors.get("indices"):
        tensors["indices"] = replace(indices, shape=indices.shape[:-1])
    return tensors


def _index_differences(problem: LaxGather, starts: NDArray[Any] | None) -> IndexDifferences | None:
    """Return the texts of the warnings about starts out of bounds (EXP201) and negative starts (EXP202).

    Returns None if DirectML gives JAX's result for all starts.
    """
    if with_known_starts(problem, starts) is not problem:
        return None
    if not problem.lookup_axes or problem.out_of_bounds is OutOfBounds.PROMISE:
        return None
    if starts is not None and ((starts >= 0) & (starts < np.array(limits(problem), object))).all():
        return None
    filled, last = problem.out_of_bounds is OutOfBounds.FILL, [limit - 1 for limit in limits(problem)]
    can_be_negative = problem.indices.dtype.kind == "i" and any(last)
    return IndexDifferences(
        "start_indices",
        f"0 to {last[0] if len(last) == 1 else f'{last} (per component)'}",
        'the fill value in JAX\'s mode "fill"' if filled else None,
        "unless all starts are in bounds, compare them with 0 and the last valid start before you bind them, and select the fill "
        "value where a component is out of bounds (ELEMENT_WISE_IF on the output)",
        None if not can_be_negative else "the fill value" if filled else 'element 0 in JAX\'s mode "clip"',
        "also select the fill value where a start is negative"
        if filled
        else "if starts may be negative, raise them to 0 before you bind them (ELEMENT_WISE_CLIP)",
        "starts",
    )


EXPORTER = Exporter(
    {LaxGather: _gather, SliceView: slice_form},
    lambda problem: f"JAX lax.{problem.name}",
    _required,
    NAMES,
    _index_differences,
)
