"""DxDispatch models, descriptors and streams of descriptors as programs that can be translated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.descriptor_graph import descriptor_graph, model_graph
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_text
from dmlgather.directml.dxdispatch.source_files import SourceFiles
from dmlgather.directml.dxdispatch.writing import initial_values
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import FileError, read_text


@dataclass(frozen=True)
class TranslatableFile:
    """A program that a file holds. initial: values of inputs, by the names that users know, which the file states."""

    graph: IndexGraph
    initial: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def of_checked(checked: CheckedFile) -> TranslatableFile:
    """A model, or a single descriptor, without errors. FileError where initial values cannot be read."""
    if checked.kind == "descriptor":
        return TranslatableFile(descriptor_graph([found.desc for found in checked.dispatchables.values()]))
    graph = model_graph(checked)
    initial = {}
    for value in graph.inputs:
        name, tensor = graph.label(value), graph.types[value]
        raw = initial_values(checked, checked.resources[name]).view(np.uint8)
        initial[name] = raw.view(tensor.dtype).reshape(tensor.shape)
    return TranslatableFile(graph, initial)


def of_stream(path: Path, level: FeatureLevel) -> TranslatableFile:
    """The descriptors of a stream side by side, equal lines once. The tensors of the descriptor of line 3 are called
    "InputTensor 3" and so on.

    FileError, with the line, for one that cannot be understood or breaks a rule at `level`.
    """
    parts = []
    for number, checked in _lines(path, level):
        problem = next(iter((*checked.problems, *checked.errors, *checked.refusals)), None)
        if problem is not None:
            raise FileError(str(problem))
        (found,) = checked.dispatchables.values()
        parts.append(_numbered(descriptor_graph([found.desc]), number))
    if not parts:
        raise FileError(f"{path}: the file is empty: no descriptors")
    return TranslatableFile(
        IndexGraph(
            tuple(name for part in parts for name in part.inputs),
            tuple(name for part in parts for name in part.outputs),
            tuple(step for part in parts for step in part.steps),
            {name: tensor for part in parts for name, tensor in part.types.items()},
            {name: array for part in parts for name, array in part.constants.items()},
        )
    )


def _lines(path: Path, level: FeatureLevel) -> Iterator[tuple[int, CheckedFile]]:
    """Each line, checked by itself, with the number of the first of equal ones."""
    try:
        text = read_text(path)
    except FileError as error:
        raise FileError(f"{path} {error}") from None
    first: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            first.setdefault(line, number)
    for line, number in first.items():
        yield number, check_text(f"{path}, line {number}", line, SourceFiles(path.parent, allow_outside=False), level)


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
