"""Programs of DirectML's descriptors in files, with the initial values that they state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.descriptor_graph import descriptor_graph, model_graph
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.writing import initial_values


@dataclass(frozen=True)
class FileProgram:
    """A program that a file holds. initial: values of inputs that the file states, by the names that users know."""

    graph: IndexGraph
    initial: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def program_of(checked: CheckedFile) -> FileProgram:
    """Return the program of a model, or of a single descriptor, without errors. FileError where initial values cannot be read."""
    if checked.kind == "descriptor":
        return FileProgram(descriptor_graph([found.desc for found in checked.dispatchables.values()]))
    graph = model_graph(checked)
    initial = {}
    for value in graph.inputs:
        name, tensor = graph.label(value), graph.types[value]
        raw = initial_values(checked, checked.resources[name]).view(np.uint8)
        initial[name] = raw.view(tensor.dtype).reshape(tensor.shape)
    return FileProgram(graph, initial)
