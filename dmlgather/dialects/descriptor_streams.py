"""Streams of descriptors, one on each line, as graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dmlgather.dialects.descriptor_graph import descriptor_graph
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.directml import OperatorDesc
from dmlgather.directml.dxdispatch.descriptor_lines import check_lines_file
from dmlgather.directml.dxdispatch.foreign import OTHER
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.located import FileProblem, LocatedFinding
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import FileError

LEVEL = FeatureLevel.LEVEL_6_4
"""At which the descriptors are checked."""


def stream_graph(path: Path) -> IndexGraph:
    """The graph of a stream. FileError, with the line, for one that `checked_stream` leaves out."""
    checked, graph = checked_stream(path)
    for item in sorted(left_out(checked), key=lambda item: item.line or 0):
        if isinstance(item, LocatedFinding) and item.code == OTHER:
            raise FileError(f"{item.place}: {item.got} is no operator of this family: leave it out")
        raise FileError(str(item))
    return graph


def checked_stream(path: Path) -> tuple[CheckedFile, IndexGraph]:
    """What `check` finds in a stream, and the graph of the descriptors that are legal at feature level 6_4, side by side, equal
    lines once. The tensors of the descriptor of line 3 are called "InputTensor 3" and so on.
    """
    legal: dict[int, OperatorDesc] = {}
    checked = check_lines_file(path, LEVEL, legal)
    parts = [_numbered(descriptor_graph([desc]), number) for number, desc in legal.items()]
    return checked, IndexGraph(
        tuple(name for part in parts for name in part.inputs),
        tuple(name for part in parts for name in part.outputs),
        tuple(step for part in parts for step in part.steps),
        {name: tensor for part in parts for name, tensor in part.types.items()},
        {name: array for part in parts for name, array in part.constants.items()},
    )


def left_out(checked: CheckedFile) -> list[FileProblem | LocatedFinding]:
    """Why lines of a stream are not in its graph."""
    return [*checked.problems, *checked.errors, *(finding for finding in checked.findings if finding.code == OTHER)]


def _numbered(graph: IndexGraph, number: int) -> IndexGraph:
    """The graph with a number behind the names of its values and steps."""

    def named(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{value} {number}" for value in values)

    return IndexGraph(
        named(graph.inputs),
        named(graph.outputs),
        tuple(
            replace(step, name=f"line {number}: {step.name}", inputs=named(step.inputs), outputs=named(step.outputs))
            for step in graph.steps
        ),
        {f"{name} {number}": tensor for name, tensor in graph.types.items()},
        {f"{name} {number}": array for name, array in graph.constants.items()},
    )
