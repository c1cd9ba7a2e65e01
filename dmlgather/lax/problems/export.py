"""From JAX's problems to DirectML: the descriptors that do them, or why there are none, and where the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects import descriptors, exporter
from dmlgather.dialects.descriptors import Dim, Dims, InexpressibleError, View
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import Descriptors, Exporter
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.windows import Window, WindowProblem
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.lax.problems.slice import DynamicSlice, LaxSlice, Rev
from dmlgather.plan import OutOfBounds

NAMES = {"data": "operand", "indices": "start_indices", "batch_dims": "operand_batching_dims", "steps": "dimensions"}
"""What JAX calls what other dialects share. Only rev steps backwards."""

Form = Callable[[Any, FeatureLevel], Descriptors]


def limits(problem: LaxGather) -> tuple[int, ...]:
    """How many places a window can start at, per component of an index vector."""
    return tuple(problem.data.shape[axis] - problem.slice_sizes[axis] + 1 for axis in problem.lookup_axes)


def at(problem: LaxGather, starts: NDArray[Any]) -> LaxSlice | None:
    """The slice that a gather of one window is whose start is known; None for more windows, and for one that the mode fills."""
    if prod(problem.indices.shape[:-1]) != 1:
        return None
    found = [0] * problem.data.rank
    for axis, start, limit in zip(problem.lookup_axes, starts.reshape(-1).tolist(), limits(problem), strict=True):
        found[axis] = min(max(start, 0), limit - 1)
        if problem.out_of_bounds is OutOfBounds.FILL and found[axis] != start:
            return None
    ends = tuple(start + size for start, size in zip(found, problem.slice_sizes, strict=True))
    return LaxSlice(problem.data, tuple(found), ends)


def in_bounds(problem: LaxGather, starts: NDArray[Any]) -> bool:
    """Whether every window starts where it lies inside operand."""
    most = np.array(limits(problem), object)
    return bool(((starts >= 0) & (starts < most)).all())


def _in_jax_names(form: Form) -> Form:
    @wraps(form)
    def named(problem: Any, level: FeatureLevel) -> Descriptors:
        try:
            return form(problem, level)
        except InexpressibleError as refusal:
            finding = refusal.finding
            path = NAMES.get(finding.path, finding.path)
            raise InexpressibleError(finding.model_copy(update={"path": path})) from None

    return named


def _views(problem: Problem) -> list[View]:
    return [replace(view, name=NAMES.get(view.name, view.name)) for view in exporter.views(problem)]


def _gather(problem: LaxGather, level: FeatureLevel) -> Descriptors:
    _check_windows(problem)
    case = _Permuted(problem)
    if len(case.axes) == 1 and not case.batches:
        return case.gather(level)
    if len(case.axes) == 1 and len(case.positions) <= 1 and not case.windows:
        return case.gather_elements(level)
    return case.gather_nd(level)


def _check_windows(problem: LaxGather) -> None:
    for axis, limit in zip(problem.lookup_axes, limits(problem), strict=True):
        size = problem.slice_sizes[axis]
        if size > 1 and limit > 1:
            raise InexpressibleError(
                CODES["EXP110"].finding(
                    f"slice_sizes[{axis}]",
                    expected=f"1, or all {problem.data.shape[axis]} elements of that dimension",
                    got=str(size),
                    remedy="give every element of a window an index vector of its own, the window's start plus the offset, which "
                    "is GATHER_ND1; or, for one window whose start is known and in bounds, say so by `constants`: that is SLICE1",
                )
            )


class _Permuted:
    """The dimensions of a gather by what they are for, each as one walk of operand, start_indices and result.

    Windows are of one element or whole, so a dimension of operand is looked up or walked, never both: one that is looked up
    though its window is whole has but one place to start at, and stands for that as a dimension of size 1.
    """

    def __init__(self, problem: LaxGather) -> None:
        self.data, self.indices, self.output = _views(problem)
        self.parts = self.data.dims[problem.data.rank :]
        numbers, sizes = problem.numbers, problem.slice_sizes
        written = dict(zip(problem.sources, self.output.dims, strict=False))
        pairs = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
        if prod(problem.data.shape[ours] for ours, _ in pairs) == 1:
            pairs = []
        self.batch_axes = tuple(ours for ours, _ in pairs)
        self.batches = [(self.data.dims[ours], self.indices.dims[theirs], written["indices", theirs]) for ours, theirs in pairs]
        self.moved = [
            (self.indices.dims[dimension], written["indices", dimension])
            for dimension in range(problem.indices.rank - 1)
            if dimension not in numbers.start_indices_batching_dims
        ]
        self.positions = [walks for walks in self.moved if walks[0].size > 1]
        self.windows = {
            axis: (Dim(sizes[axis], self.data.dims[axis].stride), written["window", axis])
            for axis in problem.windowed
            if sizes[axis] > 1
        }
        starts = limits(problem)
        # A view begins with component 0, so that those that cannot matter are left out from the end only.
        count = max((number + 1 for number, limit in enumerate(starts) if limit > 1), default=0)
        self.axes = problem.lookup_axes[:count]
        self.looked_up = [
            self.data.dims[axis] if limit > 1 else Dim(1, 0) for axis, limit in zip(self.axes, starts, strict=False)
        ]

    def gather(self, level: FeatureLevel) -> Descriptors:
        """One component and no batch: dimensions before the axis and behind it stay there."""
        (axis,) = self.axes
        lead = [walks for at, walks in self.windows.items() if at < axis]
        trail = [walks for at, walks in self.windows.items() if at >= axis]
        moved = _side(self.moved, 1)
        return descriptors.gather(
            self._data((*_side(lead, 0), *self.looked_up, *_side(trail, 0))),
            replace(self.indices, dims=_side(self.moved, 0)),
            self._output((*_side(lead, 1), *moved, *_side(trail, 1))),
            len(lead),
            level,
        )

    def gather_elements(self, level: FeatureLevel) -> Descriptors:
        """One component, a batch, and at most one dimension of positions beside it, which takes the axis's place."""
        (axis,) = self.axes
        batches = dict(zip(self.batch_axes, self.batches, strict=True))
        along, to = self.positions[0] if self.positions else (Dim(1, 0), Dim(1, 0))
        order = sorted((*batches, axis))
        walks = [batches.get(at, (self.looked_up[0], along, to)) for at in order]
        repeated = tuple(Dim(dim.size, 0) for dim in self.parts)
        return descriptors.gather_elements(
            self._data(_side(walks, 0)),
            replace(self.indices, dims=(*_side(walks, 1), *repeated)),
            self._output(_side(walks, 2)),
            order.index(axis),
            level,
        )

    def gather_nd(self, level: FeatureLevel) -> Descriptors:
        """Everything else: batches, then positions, then windows."""
        windows = list(self.windows.values())
        components = Dim(len(self.axes), 1)
        return descriptors.gather_nd(
            self._data((*_side(self.batches, 0), *self.looked_up, *_side(windows, 0))),
            replace(self.indices, dims=(*_side(self.batches, 1), *_side(self.moved, 0), components)),
            self._output((*_side(self.batches, 2), *_side(self.moved, 1), *_side(windows, 1))),
            len(self.batches),
            level,
        )

    def _data(self, dims: Dims) -> View:
        return replace(self.data, dims=(*dims, *self.parts))

    def _output(self, dims: Dims) -> View:
        return replace(self.output, dims=(*dims, *self.parts))


def _side(walks: Sequence[tuple[Dim, ...]], side: int) -> Dims:
    """What one of the tensors does in several walks."""
    return tuple(walk[side] for walk in walks)


def _dynamic_slice(problem: DynamicSlice, level: FeatureLevel) -> Descriptors:
    return _gather(problem.gather, level)


def _windows(problem: WindowProblem, level: FeatureLevel) -> Descriptors:
    data, output = _views(problem)
    parts = [Window.whole(dim.size) for dim in data.dims[problem.data.rank :]]
    return descriptors.slices(data, output, [*problem.windows, *parts], level)


def _needed(problem: Problem) -> Mapping[str, TensorType]:
    """Which tensors must have elements: index vectors without components need none."""
    tensors = {NAMES.get(name, name): tensor for name, tensor in exporter.tensors_by_name(problem).items()}
    if indices := tensors.get("start_indices"):
        tensors["start_indices"] = replace(indices, shape=indices.shape[:-1])
    return tensors


_FORMS: Mapping[type[Problem], Form] = {
    LaxGather: _in_jax_names(_gather),
    DynamicSlice: _in_jax_names(_dynamic_slice),
    LaxSlice: _in_jax_names(_windows),
    Rev: _in_jax_names(_windows),
}

EXPORTER = Exporter(_FORMS, lambda problem: f"JAX lax.{problem.name}", _needed)
express, lowest = EXPORTER.express, EXPORTER.lowest


def differences(problem: Problem) -> Iterator[Finding]:
    """Which starts read other elements in what is expressed than in JAX, whatever the level.

    Under promise_in_bounds there are none outside, and nothing to differ.
    """
    gather = problem.gather if isinstance(problem, DynamicSlice) else problem
    if not isinstance(gather, LaxGather) or not gather.lookup_axes or gather.out_of_bounds is OutOfBounds.PROMISE:
        return
    filled = gather.out_of_bounds is OutOfBounds.FILL
    last = [limit - 1 for limit in limits(gather)]
    if filled:
        yield CODES["EXP201"].finding(
            "start_indices",
            expected=f"starts from 0 to {_per_component(last)}",
            got='the fill value in JAX\'s mode "fill", the nearest element in DirectML',
            remedy="compare the starts with 0 and the last one before they are bound, and select the fill value where one of a "
            "vector's components lies outside (ELEMENT_WISE_IF on the output); leave that out where all are known to lie inside",
        )
    if gather.indices.dtype.kind == "i" and any(last):
        theirs = "the fill value" if filled else 'element 0 in JAX\'s mode "clip"'
        yield CODES["EXP202"].finding(
            "start_indices",
            expected="starts from 0 on",
            got=f"{theirs}, an element counted from the end in DirectML from level 3_0 on",
            remedy="mask negative starts with the others"
            if filled
            else "raise negative starts to 0 before they are bound (ELEMENT_WISE_CLIP); leave that out where there are none",
        )


def _per_component(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{list(values)} (per component)"
