"""A function on JAX's arrays of a graph whose problems are JAX's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dmlgather.dialects.index_graph import ELEMENTWISE, Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.lax.problems.slice import DynamicSlice, LaxSlice, Rev
from dmlgather.plan import OutOfBounds

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
