"""Translation of graphs to ONNX's operators. Each problem is tried in several ways, which `RULES` lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Bitcast, Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.dialects.windows import WindowProblem
from dmlgather.differential.matching import output_names
from dmlgather.plan import IndexPlan, canonicalise, narrow
from dmlgather.translation.axes import AccessPattern, map_to_axes, read_window, sliced, strided_copy
from dmlgather.translation.forms import gather_by_axes, gather_by_positions
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.onnx_operators import OnnxProgram, UntranslatableError


def translate_problem(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str:
    """Add ONNX operators for a problem, by the first way in `RULES` that fits. Raises TypeError or ValueError if none fits."""
    return next(value for rule in RULES if (value := rule(target, problem, values)) is not None)


def _same_operator(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """Add the operator of the problem, if it is an ONNX operator with the same result at this opset."""
    with suppress(TypeError, ValueError):
        own = target.at_opset(problem)
        if own is not None and (own is problem or canonicalise(own.plan()) == canonicalise(problem.plan())):
            return target.reshaped(target.add(own, *values), problem.output.shape)
    return None


def _view(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    if isinstance(problem, ReshapeView):
        return target.reshaped(values[0], problem.shape)
    if isinstance(problem, TransposeView):
        return target.graph.transposed("transpose", values[0], problem.order)
    if isinstance(problem, ExpandView):
        return target.graph.expanded("expand", values[0], problem.shape)
    return None


def _slice(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """Add a Slice with clamped bounds. For bounds out of range, onnx's reference evaluator follows NumPy instead of ONNX."""
    if not isinstance(problem, WindowProblem):
        return None
    return target.reshaped(sliced(target, values[0], problem.windows), problem.output.shape)


def _constant(target: OnnxProgram, problem: Problem, _: Sequence[str]) -> str | None:
    """Add a constant if the output has only fill values, or if it is empty and no index must be checked."""
    plan, output = _element_plan(problem), problem.output
    if plan.empty and not plan.index_reach:
        return target.graph.constant(np.empty(output.shape, output.dtype))
    if plan.constant:
        fill = np.frombuffer(plan.fill, output.dtype).reshape(())
        return target.graph.expanded("fill", target.graph.constant(fill), output.shape)
    return None


def _depth_space(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    own = None if len(values) > 1 else target.block_operator(problem)
    return None if own is None else target.add(own, *values)


def _by_axes(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """Add a strided copy or a gather, if each dimension and each index moves along one axis of the data."""
    plan = _outermost_first(_element_plan(problem))
    access = _access_pattern(plan)
    if not plan.lookups:
        return target.reshaped(strided_copy(target, values[0], access), problem.output.shape)
    axis_map = map_to_axes(problem.data.shape, access)
    if axis_map is None:
        return None
    gathering = Gathering.of(target, plan, axis_map, read_window(target, values[0], axis_map), values[1])
    result = gather_by_axes(target, gathering)
    return None if result is None else target.reshaped(result, problem.output.shape)


def _by_positions(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """Add a gather at computed positions in the flattened data (the last resort)."""
    plan = _outermost_first(_element_plan(problem))
    gathering = Gathering(target, plan, values[0], values[1], (), ())
    return target.reshaped(gather_by_positions(target, gathering, _access_pattern(plan)), problem.output.shape)


RULES: tuple[Callable[[OnnxProgram, Problem, Sequence[str]], str | None], ...] = (
    _slice,
    _same_operator,
    _view,
    _constant,
    _depth_space,
    _by_axes,
    _by_positions,
)
"""Ways to translate a problem, in order of preference. Each returns None if it does not fit."""


def _element_plan(problem: Problem) -> IndexPlan:
    """Return the problem's plan, with the element size of the problem's data type."""
    return narrow(problem.plan(), problem.data.dtype.itemsize)


def _access_pattern(plan: IndexPlan) -> AccessPattern:
    lookups = tuple((lookup.limit, lookup.in_stride) for lookup in plan.lookups)
    return AccessPattern(plan.shape, plan.in_strides, plan.in_offset, lookups)


def _outermost_first(plan: IndexPlan) -> IndexPlan:
    """Sort the plan's dimensions by output stride, largest first."""
    order = sorted(range(plan.rank), key=lambda axis: -plan.out_strides[axis])
    return replace(
        plan,
        shape=tuple(plan.shape[axis] for axis in order),
        out_strides=tuple(plan.out_strides[axis] for axis in order),
        in_strides=tuple(plan.in_strides[axis] for axis in order),
        lookups=tuple(
            replace(lookup, index_strides=tuple(lookup.index_strides[axis] for axis in order)) for lookup in plan.lookups
        ),
    )


def to_onnx_operators(graph: IndexGraph, opset: int) -> IndexGraph:
    """Translate a graph to ONNX's operators. Raises UntranslatableError if a step has no equivalent."""
    builder = GraphBuilder()
    target = OnnxProgram(builder, opset)
    names = output_names(graph)
    values = {}
    for name in graph.inputs:  # a DxDispatch model may read and write a buffer: it is an input and an output of the ONNX model
        label = graph.label(name)
        values[name] = builder.input(f"{label} (before)" if label in names else label, graph.types[name])
    values |= {name: builder.constant(array, name) for name, array in graph.constants.items()}
    for step in graph.steps:
        target.step_name = step.name
        try:
            outputs = [graph.types[name] for name in step.outputs]
            inputs = [values[name] for name in step.inputs]
            values |= zip(step.outputs, _translate_step(target, step, inputs, outputs), strict=True)
        except (TypeError, ValueError) as error:
            raise UntranslatableError(f"{step.name}: {error}" if len(graph.steps) > 1 else str(error)) from error
    translated = builder.build([values[name] for name in graph.outputs]).needed()
    return _rename_outputs(translated, names)


def _rename_outputs(graph: IndexGraph, new_names: Sequence[str]) -> IndexGraph:
    """Give new names to the outputs that are neither inputs nor constants. Rename other values that have such a name."""
    makers, outputs = graph.makers, dict(zip(graph.outputs, new_names, strict=True))
    names = {value: name for value, name in outputs.items() if value in makers}
    for value in graph.types:
        if value in new_names and value not in names and outputs.get(value) != value:
            unused = value
            while unused in graph.types or unused in new_names or unused in names.values():
                unused += "'"
            names[value] = unused

    return graph.renamed(names)


def _translate_step(target: OnnxProgram, step: Step, inputs: list[str], outputs: Sequence[TensorType]) -> Sequence[str]:
    work = step.work
    match work:
        case Elementwise(operator, dtype):
            return [target.compute(operator, dtype, *inputs)]
        case Concatenation(axis):
            return [target.graph.concatenated(step.name, inputs, axis)]
        case Bitcast():
            source, output = target.type_of(inputs[0]), outputs[0]
            if source.dtype.itemsize != output.dtype.itemsize:
                raise UntranslatableError(
                    f"{source} is read as {output}: ONNX cannot reinterpret elements as a type of another size"
                )
            return [target.graph.bitcast(step.name, inputs[0], output.dtype, output.shape)]
    return [translate_problem(target, work, inputs)]
