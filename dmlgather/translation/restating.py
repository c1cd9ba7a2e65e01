"""A graph in ONNX's operators."""

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
from dmlgather.translation.axes import Steps, axis_walk, strided, taken_of, windows_of
from dmlgather.translation.forms import flat, gathered
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.onnx_operators import OnnxProgram, UntranslatableError

# State a problem in ONNX's operators: the table of rules, from the most natural form to the last resort.


def state(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str:
    """Add a problem to the program; the value that holds its output.

    values: of the graph, the problem's data, then its indices. UntranslatableError where ONNX cannot say it; TypeError and
    ValueError where its operators do not take these types or sizes.
    """
    return next(value for rule in RULES if (value := rule(target, problem, values)) is not None)


def _same(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """The operator itself, in the version that was asked for, if that means the same."""
    with suppress(TypeError, ValueError):
        own = target.same(problem)
        if own is not None and (own is problem or canonicalise(own.plan()) == canonicalise(problem.plan())):
            return target.reshaped(target.stated_as(own, *values), problem.output.shape)
    return None


def _view(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    if isinstance(problem, ReshapeView):
        return target.reshaped(values[0], problem.shape)
    if isinstance(problem, TransposeView):
        return target.graph.transposed("transpose", values[0], problem.order)
    if isinstance(problem, ExpandView):
        return target.graph.expanded("expand", values[0], problem.shape)
    return None


def _windows(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """With bounds in range, because libraries do not agree about others: onnx's reference evaluator takes them as NumPy does."""
    if not isinstance(problem, WindowProblem):
        return None
    return target.reshaped(windows_of(target, values[0], problem.windows), problem.output.shape)


def _without_elements(target: OnnxProgram, problem: Problem, _: Sequence[str]) -> str | None:
    """An output without elements, for which no index is checked, and one of fill values alone."""
    plan, output = plan_of(problem), problem.output
    if plan.empty and not plan.index_reach:
        return target.graph.constant(np.empty(output.shape, output.dtype))
    if plan.constant:
        fill = np.frombuffer(plan.fill, output.dtype).reshape(())
        return target.graph.expanded("fill", target.graph.constant(fill), output.shape)
    return None


def _blocks(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """DepthToSpace or SpaceToDepth, which are found by their plan."""
    own = None if len(values) > 1 else target.blocks(problem)
    return None if own is None else target.stated_as(own, *values)


def _by_axes(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """By the axes that the plan walks and looks up."""
    plan = _outermost_first(plan_of(problem))
    steps = _steps(plan)
    if not plan.lookups:
        return target.reshaped(strided(target, values[0], steps), problem.output.shape)
    walk = axis_walk(problem.data.shape, steps)
    if walk is None:
        return None
    gathering = Gathering.of(target, plan, walk, taken_of(target, values[0], walk), values[1])
    result = gathered(target, gathering)
    return None if result is None else target.reshaped(result, problem.output.shape)


def _by_positions(target: OnnxProgram, problem: Problem, values: Sequence[str]) -> str | None:
    """The last resort: positions in the flattened data."""
    plan = _outermost_first(plan_of(problem))
    every = Gathering(target, plan, values[0], values[1], (), ())
    return target.reshaped(flat(target, every, _steps(plan)), problem.output.shape)


RULES: tuple[Callable[[OnnxProgram, Problem, Sequence[str]], str | None], ...] = (
    _windows,
    _same,
    _view,
    _without_elements,
    _blocks,
    _by_axes,
    _by_positions,
)
"""In order of preference; the first that gives a value is used."""


def plan_of(problem: Problem) -> IndexPlan:
    """The plan in elements of the data's type."""
    return narrow(problem.plan(), problem.data.dtype.itemsize)


def _steps(plan: IndexPlan) -> Steps:
    lookups = tuple((lookup.limit, lookup.in_stride) for lookup in plan.lookups)
    return Steps(plan.shape, plan.in_strides, plan.in_offset, lookups)


def _outermost_first(plan: IndexPlan) -> IndexPlan:
    """The plan with its dimensions in the order in which the output's elements lie; dimensions of size 1 stay where they are."""
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


def restated(graph: IndexGraph, opset: int) -> IndexGraph:
    """A graph in ONNX's operators at an opset, with the same inputs and outputs.

    UntranslatableError for a problem that ONNX cannot say.
    """
    builder = GraphBuilder()
    target = OnnxProgram(builder, opset)
    names = output_names(graph)
    values = {}
    for name in graph.inputs:  # what a model of DirectML reads and writes is an input and an output here
        label = graph.label(name)
        values[name] = builder.input(f"{label} (before)" if label in names else label, graph.types[name])
    values |= {name: builder.constant(array, name) for name, array in graph.constants.items()}
    for step in graph.steps:
        target.step_name = step.name
        try:
            outputs = [graph.types[name] for name in step.outputs]
            values |= zip(step.outputs, _restate(target, step, [values[name] for name in step.inputs], outputs), strict=True)
        except (TypeError, ValueError) as error:
            raise UntranslatableError(f"{step.name}: {error}" if len(graph.steps) > 1 else str(error)) from error
    stated = builder.build([values[name] for name in graph.outputs]).needed()
    return _with_outputs_named(stated, names)


def _with_outputs_named(graph: IndexGraph, wanted: Sequence[str]) -> IndexGraph:
    """The graph whose outputs have these names where steps write them. Other values have none of the names."""
    made, outputs = graph.makers, dict(zip(graph.outputs, wanted, strict=True))
    names = {value: name for value, name in outputs.items() if value in made}
    for value in graph.types:
        if value in wanted and value not in names and outputs.get(value) != value:
            free = value
            while free in graph.types or free in wanted or free in names.values():
                free += "'"
            names[value] = free

    return graph.renamed(names)


def _restate(target: OnnxProgram, step: Step, inputs: list[str], outputs: Sequence[TensorType]) -> Sequence[str]:
    work = step.work
    match work:
        case Elementwise(operator, dtype):
            return [target.computed(operator, dtype, *inputs)]
        case Concatenation(axis):
            return [target.graph.concatenated(step.name, inputs, axis)]
        case Bitcast():
            given, wanted = target.type_of(inputs[0]), outputs[0]
            if given.dtype.itemsize != wanted.dtype.itemsize:
                raise UntranslatableError(
                    f"{given} is read as {wanted}: ONNX has no way to read elements as others of another size"
                )
            return [target.graph.bitcast(step.name, inputs[0], wanted.dtype, wanted.shape)]
    return [state(target, work, inputs)]
