"""What the steps of a program do, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.dialects.windows import Window, WindowProblem
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.translation.clamps import clamps, is_bound
from dmlgather.translation.jax_form import MODES

VIEWS: dict[type[Problem], Callable[[Any], str]] = {
    ReshapeView: lambda view: f"reshape to {list(view.shape)}",
    TransposeView: lambda view: f"transpose to the dimensions {list(view.order)}",
    ExpandView: lambda view: f"expand to {list(view.shape)}",
}

STATED = ("axis", "batch_dims", "blocksize", "mode")
"""What is told of a problem's attributes."""


def in_words(graph: IndexGraph) -> Iterator[str]:
    """Each step: "Gather-13 (axis 1)"; two that clamp together once: "clamp to -5 … 4"."""
    clamped = clamps(graph)
    for step in graph.steps:
        first = clamped.get(step.outputs[0])
        if first is not None:
            yield f"clamp to {_shown(graph, first.inputs[1])} … {_shown(graph, step.inputs[1])}"
        elif step not in clamped.values():
            yield _step(graph, step)


def _step(graph: IndexGraph, step: Step) -> str:
    work = step.work
    match work:
        case Problem():
            stated = VIEWS.get(type(work))
            return operator_of(work) + _attributes(work) if stated is None else stated(work)
        case Elementwise():
            if work.operator == "cast":
                return f"convert to {work.dtype}"
            if is_bound(graph, step, "minimum", "maximum"):
                bound = "most" if work.operator == "minimum" else "least"
                return f"clamp to at {bound} {_shown(graph, step.inputs[1])}"
            if work.operator == "where" and step.inputs[2] in graph.constants:
                return f"select, else {_shown(graph, step.inputs[2])}"
            numbers = [_shown(graph, name) for name in step.inputs if name in graph.constants]
            return f"{work.operator} with {' and '.join(numbers)}" if numbers else work.operator
        case Concatenation():
            return f"concatenate along axis {work.axis}"
        case Opaque():
            return work.operator


def operator_of(problem: Problem) -> str:
    """The operator with its version where it has one: "Gather-13"."""
    version = getattr(problem, "version", None)
    return problem.name if version is None else str(version) if not isinstance(version, int) else str(problem)


def _attributes(problem: Problem) -> str:
    if isinstance(problem, WindowProblem):
        return f" [{', '.join(map(_window, problem.windows, problem.data.shape))}]"
    stated = [f"{name} {getattr(problem, name)}" for name in STATED if hasattr(problem, name)]
    if isinstance(problem, LaxGather):
        stated.append(f"mode '{MODES[problem.out_of_bounds]}'")
    return f" ({', '.join(stated)})" if stated else ""


def _window(window: Window, size: int) -> str:
    """As NumPy writes it."""
    if window == Window.whole(size):
        return ":"
    end = window.start + (window.count - 1) * window.step + (1 if window.step > 0 else -1) if window.count else window.start
    return f"{window.start}:{end if end >= 0 else ''}" + (f":{window.step}" if window.step != 1 else "")


def _shown(graph: IndexGraph, name: str) -> str:
    array = graph.constants[name]
    return str(array.item() if array.size == 1 else array.tolist()) if array.size <= 8 else f"{array.size} numbers"
