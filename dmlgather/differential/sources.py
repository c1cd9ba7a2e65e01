"""Programs with the initial values that their files state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.descriptor_graph import descriptor_graph, model_graph
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.programs import read_program
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file
from dmlgather.directml.dxdispatch.writing import initial_values


@dataclass(frozen=True)
class Program:
    """A program. initial: values of inputs that its file states, by the names that users know."""

    graph: IndexGraph
    initial: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def program_of(checked: CheckedFile) -> Program:
    """Return the program of a model, or of a single descriptor, without errors. FileError where initial values cannot be read."""
    if checked.kind == "descriptor":
        return Program(descriptor_graph([found.desc for found in checked.dispatchables.values()]))
    graph = model_graph(checked)
    initial = {}
    for value in graph.inputs:
        name, tensor = graph.label(value), graph.types[value]
        raw = initial_values(checked, checked.resources[name]).view(np.uint8)
        initial[name] = raw.view(tensor.dtype).reshape(tensor.shape)
    return Program(graph, initial)


def program(source: Any, argument: str = "source") -> Program:
    """Return the program that `read_program` reads, of a DxDispatch model with its initial values. Raises as that does."""
    graph = read_program(source, argument)
    if isinstance(source, str | PathLike) and Path(source).suffix.lower() == ".json":
        return program_of(check_file(Path(source)))
    return Program(graph)
