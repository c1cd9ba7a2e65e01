"""A whole graph in a target's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.problem import TensorType
from dmlgather.fusion import fuse
from dmlgather.translation.stating import state
from dmlgather.translation.targets import Target, UntranslatableError


def restated_if_possible(graph: IndexGraph, make: Callable[[GraphBuilder], Target]) -> IndexGraph:
    """As `restated`. Where the target has no arithmetic, what fusing makes of the arithmetic is tried as well: a gather behind a
    clamp may be a gather that clamps.
    """
    try:
        return restated(graph, make)
    except UntranslatableError:
        if not any(isinstance(step.work, Elementwise) for step in graph.steps):
            raise
        with suppress(UntranslatableError):
            return restated(fuse(graph).graph, make)
        raise


def output_names(graph: IndexGraph) -> list[str]:
    """What users call the outputs of a graph, with a number where several have one name, or an output is an input."""
    taken, names = {graph.label(value) for value in graph.inputs if value in graph.outputs}, list[str]()
    for value in graph.outputs:
        name = wanted = graph.label(value)
        number = 1
        while name in taken:
            number += 1
            name = f"{wanted} ({number})"
        taken.add(name)
        names.append(name)
    return names


def restated(graph: IndexGraph, make: Callable[[GraphBuilder], Target]) -> IndexGraph:
    """A graph in a target's operators, with the same inputs and outputs.

    UntranslatableError, naming the first operator that is neither of the family nor a view, and for a problem that the target
    cannot say.
    """
    builder = GraphBuilder()
    target = make(builder)
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

    def named(values: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(value, value) for value in values)

    return replace(
        graph,
        inputs=named(graph.inputs),
        outputs=named(graph.outputs),
        steps=tuple(replace(step, inputs=named(step.inputs), outputs=named(step.outputs)) for step in graph.steps),
        types={names.get(value, value): tensor for value, tensor in graph.types.items()},
        constants={names.get(value, value): array for value, array in graph.constants.items()},
    )


def _restate(target: Target, step: Step, inputs: list[str], outputs: Sequence[TensorType]) -> Sequence[str]:
    work = step.work
    match work:
        case Elementwise(operator, dtype):
            return [target.computed(operator, dtype, *inputs)]
        case Concatenation(axis):
            return [target.graph.concatenated(step.name, inputs, axis)]
        case Opaque(operator):
            if operator != "bitcast" or not target.bitcasts:
                raise UntranslatableError(f"it is {operator}, which neither gathers, slices nor views")
            same = target.type_of(inputs[0]).dtype.itemsize == outputs[0].dtype.itemsize
            if not same:
                raise UntranslatableError(
                    f"{target.type_of(inputs[0])} is read as {outputs[0]}: {target.title} has no way to read elements as others "
                    "of another size"
                )
            return target.graph.opaque(step.name, operator, inputs, outputs, attributes=work.attributes)
    return [state(target, work, inputs)]
