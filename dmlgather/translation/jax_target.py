"""JAX: problems as `lax.gather`, `lax.slice` and `lax.rev`, and a function of a graph of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dmlgather.dialects.index_graph import ELEMENTWISE, Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.lax.problems.gather import INTEGERS, GatherDimensionNumbers, LaxGather
from dmlgather.lax.problems.slice import DynamicSlice, LaxSlice, Rev
from dmlgather.plan import OutOfBounds
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.targets import IndexRule, Target

INDEX_TYPES = ("int32", "int64", *(name for name in INTEGERS if name not in ("int32", "int64")))


class JaxTarget(Target):
    """A program in JAX's primitives."""

    title = "JAX"
    bitcasts = True
    raises = False

    @property
    def axis_rule(self) -> IndexRule:
        return self.rule_for(OutOfBounds.CLAMP)

    @staticmethod
    def rule_for(policy: OutOfBounds) -> IndexRule:
        """That of `lax.gather` in the mode for a policy: "fill" for FILL, else "clip"."""
        fills = policy is OutOfBounds.FILL
        return IndexRule(OutOfBounds.FILL if fills else OutOfBounds.CLAMP, wraps=False, types=INDEX_TYPES)

    def position_type(self, elements: int) -> np.dtype[np.signedinteger]:
        return np.dtype(np.int32 if elements < 2**31 else np.int64)  # JAX has no int64 unless it is enabled

    def stated_as(self, own: Problem, *inputs: str) -> str:
        if isinstance(own, LaxGather) and own.out_of_bounds is OutOfBounds.FILL:
            data, indices = inputs
            inputs = data, self._narrowed(own, indices)
        return super().stated_as(own, *inputs)

    def same(self, problem: Problem) -> Problem | None:
        return problem if isinstance(problem, LaxGather | DynamicSlice | LaxSlice | Rev) else None

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        tensor = self.type_of(value)
        backwards = tuple(axis for axis, window in enumerate(windows) if window.step < 0 and window.count > 1)
        spans = [max(window.count - 1, 0) * window.step for window in windows]
        starts = [window.start + min(span, 0) for window, span in zip(windows, spans, strict=True)]
        ends = [
            start + abs(span) + 1 if window.count else start for window, start, span in zip(windows, starts, spans, strict=True)
        ]
        whole = all(not start and end == size for start, end, size in zip(starts, ends, tensor.shape, strict=True))
        if not whole or any(abs(window.step) > 1 for window in windows):
            steps = tuple(abs(window.step) for window in windows)
            value = self.stated_as(LaxSlice(tensor, tuple(starts), tuple(ends), None if set(steps) <= {1} else steps), value)
        return self.stated_as(Rev(self.type_of(value), backwards), value) if backwards else value

    def along_axis(self, data: str, indices: str, axis: int) -> str:
        """Of positions that are in range."""
        tensor, places = self.type_of(data), self.type_of(indices)
        kept = [dim for dim in range(tensor.rank) if dim != axis]
        offsets = tuple(dim if dim < axis else dim + places.rank - 1 for dim in kept)
        numbers = GatherDimensionNumbers(offsets, (axis,), (axis,))
        sizes = tuple(1 if dim == axis else size for dim, size in enumerate(tensor.shape))
        vectors = self.reshaped(indices, (*places.shape, 1))
        return self.stated_as(LaxGather(tensor, self.type_of(vectors), numbers, sizes, OutOfBounds.CLAMP), data, vectors)

    def gathered(self, gathering: Gathering) -> str | None:
        plan, moved = gathering.plan, gathering.index_dims
        if any(number is not None and dim in moved for dim, number in zip(gathering.walked, gathering.looked_up, strict=True)):
            return None
        fills = plan.out_of_bounds is OutOfBounds.FILL
        tuples = gathering.tuples(self.rule_for(plan.out_of_bounds))
        numbers, written = lax_numbers(gathering, tuples.order)
        own = LaxGather(
            self.type_of(gathering.data),
            self.type_of(tuples.value),
            numbers,
            slice_sizes(gathering),
            OutOfBounds.FILL if fills else OutOfBounds.CLAMP,
            plan.fill if fills else b"",
        )
        return gathering.finished(self.stated_as(own, gathering.data, tuples.value), written)

    def _narrowed(self, own: LaxGather, indices: str) -> str:
        """Indices that stay out of range as 32-bit integers, which JAX makes of them in mode "fill" unless a size needs more."""
        dtype = own.indices.dtype
        limits = [own.data.shape[axis] - size + 1 for axis, size in zip(own.lookup_axes, own.lookup_windows, strict=True)]
        if np.can_cast(dtype, np.int32) or not limits or max(limits) >= 2**31:
            return indices
        if dtype.kind == "i":
            indices = self.computed("maximum", dtype, indices, self.number(-1, dtype))
        return self.computed("minimum", dtype, indices, self.number(limits, dtype))


def lax_numbers(gathering: Gathering, order: Sequence[int]) -> tuple[GatherDimensionNumbers, list[int]]:
    """The dimension numbers of a gather by index vectors of shape [index_dims…, components], and the dimensions of its result.

    order: the lookup of each component. Dimensions of windows have the order of the data's axes.
    """
    moved, walked = gathering.index_dims, gathering.walked
    windows = [dim for dim in walked if dim is not None and dim not in moved]
    every = sorted((*moved, *windows))
    offsets = tuple(place for place, dim in enumerate(every) if dim in windows)
    inside, outside = iter(windows), iter(moved)
    written = [next(inside if dim in windows else outside) for dim in every]
    batching = [(axis, moved.index(dim)) for axis, dim in enumerate(walked) if dim in gathering.batch and dim is not None]
    numbers = GatherDimensionNumbers(
        offset_dims=offsets,
        collapsed_slice_dims=tuple(axis for axis, dim in enumerate(walked) if dim is None),
        start_index_map=tuple(gathering.looked_up.index(number) for number in order),
        operand_batching_dims=tuple(axis for axis, _ in batching),
        start_indices_batching_dims=tuple(place for _, place in batching),
    )
    return numbers, written


def slice_sizes(gathering: Gathering) -> tuple[int, ...]:
    """The sizes of a window, by axis of the data."""
    batch = gathering.batch
    return tuple(1 if dim is None or dim in batch else gathering.sizes[dim] for dim in gathering.walked)


# A function on JAX's arrays of a graph whose problems are JAX's.


MODES = {OutOfBounds.CLAMP: "clip", OutOfBounds.PROMISE: "promise_in_bounds", OutOfBounds.FILL: "fill"}


def jax_function(graph: IndexGraph) -> Callable[..., Any]:
    """A function of the graph's inputs. It returns its output, or a tuple of several; it can be traced and jitted."""

    def translated(*arrays: Any) -> Any:
        jnp: Any = import_module("jax.numpy")
        values = dict(zip(graph.inputs, _checked(graph, [jnp.asarray(array) for array in arrays]), strict=True))
        values |= {name: jnp.asarray(array) for name, array in graph.constants.items()}
        for step in graph.steps:
            values[step.outputs[0]] = _value(step, [values[name] for name in step.inputs])
        found = tuple(values[name] for name in graph.outputs)
        return found[0] if len(found) == 1 else found

    return translated


def _checked(graph: IndexGraph, arrays: Sequence[Any]) -> Sequence[Any]:
    """The arguments. TypeError for another number of them, ValueError for another shape, TypeError for another type."""
    if len(arrays) != len(graph.inputs):
        raise TypeError(
            f"the translated function takes {len(graph.inputs)} arrays ({', '.join(graph.inputs)}), got {len(arrays)}"
        )
    for name, array in zip(graph.inputs, arrays, strict=True):
        tensor = graph.types[name]
        if tuple(array.shape) != tensor.shape:
            raise ValueError(f"{name} has shape {list(array.shape)}, but the function was made for {tensor}")
        if array.dtype != tensor.dtype:
            wide = tensor.dtype.itemsize == 8 and array.dtype.itemsize == 4
            way = "; enable it: jax.config.update('jax_enable_x64', True)" if wide else ""
            raise TypeError(f"{name} has type {array.dtype}, but the function was made for {tensor}{way}")
    return arrays


def _value(step: Step, inputs: Sequence[Any]) -> Any:
    jax: Any = import_module("jax")
    work = step.work
    if isinstance(work, Elementwise):
        if work.operator == "cast":
            return inputs[0].astype(work.dtype)
        return getattr(jax.numpy, ELEMENTWISE[work.operator].__name__)(*inputs)
    if isinstance(work, Concatenation):
        return jax.lax.concatenate(inputs, work.axis)
    if isinstance(work, Opaque):
        assert work.operator == "bitcast", "no other is restated"
        return jax.lax.bitcast_convert_type(inputs[0], dict(work.attributes)["to"])  # type: ignore[call-overload] # pairs
    return _PRIMITIVES[type(work)](jax, work, inputs)


def _gather(jax: Any, problem: LaxGather, inputs: Sequence[Any]) -> Any:
    own = problem.numbers
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=own.offset_dims,
        collapsed_slice_dims=own.collapsed_slice_dims,
        start_index_map=own.start_index_map,
        operand_batching_dims=own.operand_batching_dims,
        start_indices_batching_dims=own.start_indices_batching_dims,
    )
    fill = np.frombuffer(problem.fill, problem.data.dtype)[0] if problem.fill else None
    return jax.lax.gather(*inputs, numbers, problem.slice_sizes, mode=MODES[problem.out_of_bounds], fill_value=fill)


def _dynamic_slice(jax: Any, problem: DynamicSlice, inputs: Sequence[Any]) -> Any:
    operand, starts = inputs
    each = [starts[axis] for axis in range(problem.data.rank)]
    return jax.lax.dynamic_slice(operand, each, problem.slice_sizes, allow_negative_indices=False)


_PRIMITIVES: Mapping[type[Problem], Callable[[Any, Any, Sequence[Any]], Any]] = {
    ReshapeView: lambda jax, view, inputs: jax.lax.reshape(inputs[0], view.shape),
    TransposeView: lambda jax, view, inputs: jax.lax.transpose(inputs[0], view.order),
    ExpandView: lambda jax, view, inputs: jax.numpy.broadcast_to(inputs[0], view.shape),
    LaxGather: _gather,
    DynamicSlice: _dynamic_slice,
    LaxSlice: lambda jax, problem, inputs: jax.lax.slice(
        inputs[0], problem.start_indices, problem.limit_indices, problem.strides
    ),
    Rev: lambda jax, problem, inputs: jax.lax.rev(inputs[0], problem.dimensions),
}
"""The primitive of each kind of problem that `JaxTarget` states."""
