"""Streams of descriptors, one on each line, as graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dmlgather.dialects.descriptor_graph import descriptor_graph
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_text
from dmlgather.directml.dxdispatch.source_files import SourceFiles
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import FileError, read_text

LEVEL = FeatureLevel.LEVEL_6_4
"""At which the descriptors are checked."""


def stream_graph(path: Path) -> IndexGraph:
    """The descriptors of a stream side by side, equal lines once. The tensors of the descriptor of line 3 are called
    "InputTensor 3" and so on.

    FileError, with the line, for one that cannot be understood or breaks a rule at feature level 6_4.
    """
    parts = []
    for number, checked in _lines(path):
        problem = next(iter((*checked.problems, *checked.errors, *checked.refusals)), None)
        if problem is not None:
            raise FileError(str(problem))
        (found,) = checked.dispatchables.values()
        parts.append(_numbered(descriptor_graph([found.desc]), number))
    if not parts:
        raise FileError(f"{path}: the file is empty: no descriptors")
    return IndexGraph(
        tuple(name for part in parts for name in part.inputs),
        tuple(name for part in parts for name in part.outputs),
        tuple(step for part in parts for step in part.steps),
        {name: tensor for part in parts for name, tensor in part.types.items()},
        {name: array for part in parts for name, array in part.constants.items()},
    )


def _lines(path: Path) -> Iterator[tuple[int, CheckedFile]]:
    """Each line, checked by itself, with the number of the first of equal ones."""
    try:
        text = read_text(path)
    except FileError as error:
        raise FileError(f"{path} {error}") from None
    first: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            first.setdefault(line, number)
    for line, number in first.items():
        yield number, check_text(f"{path}, line {number}", line, SourceFiles(path.parent, allow_outside=False), LEVEL)


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
