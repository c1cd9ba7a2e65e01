"""Reading of programs: graphs from operator calls, descriptors or a file, with initial values if there are any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, chain
from dmlgather.dialects.problem import Problem
from dmlgather.files import STREAMS, FileError
from dmlgather.model_formats import recognised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dmlgather.directml.dxdispatch.model_file import CheckedFile

FILES = {".json": "a DxDispatch model or a descriptor", **dict.fromkeys(STREAMS, "descriptors on lines")}


@dataclass(frozen=True)
class Program:
    """A graph to run, compare or translate. `model`: the DxDispatch model from which it was made, if any."""

    graph: IndexGraph
    model: CheckedFile | None = None

    @cached_property
    def initial(self) -> dict[str, NDArray[Any]]:
        """Initial values that the model states for inputs of the graph, by name. Raises FileError if a file cannot be read."""
        if self.model is None:
            return {}
        import numpy as np

        from dmlgather.directml.dxdispatch.writing import initial_values

        arrays = {}
        for value in self.graph.inputs:
            name, tensor = self.graph.label(value), self.graph.types[value]
            raw = initial_values(self.model, self.model.resources[name]).view(np.uint8)
            arrays[name] = raw.view(tensor.dtype).reshape(tensor.shape)
        return arrays


def read_program(source: Any, argument: str = "source") -> Program:
    """Return the program for an IndexGraph, for problems, for descriptors, or for the path of a file.

    A file has a DxDispatch model or a descriptor (.json), or one descriptor per line (.jsonl, .ndjson). `argument`: name of the
    source in messages.

    Raises TypeError for any other source, FileError for a file that cannot be used, DescriptorError for a descriptor that
    feature level 6_4 refuses, and ValueError for steps that do not fit together.
    """
    from dmlgather.directml import OperatorDesc

    match source:
        case IndexGraph():
            return Program(source)
        case Problem():
            return Program(graph_of_problem(source))
        case OperatorDesc():
            return Program(_of_descriptors([source]))
        case str() | PathLike():
            return _of_file(Path(source))
    description = f"of type {type(source).__name__}"
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        items = list(source)
        if not items:
            raise ValueError(f"{argument} is empty: expected at least one problem or descriptor")
        if all(isinstance(item, Problem) for item in items):
            return Program(chain(items))
        if all(isinstance(item, OperatorDesc) for item in items):
            return Program(_of_descriptors(items))
        description += f" and holds {', '.join(dict.fromkeys(type(item).__name__ for item in items))}"
    raise TypeError(
        f"{argument} is {description}, not a program: expected a problem, a descriptor, a list of problems or descriptors, or "
        "the path of a DxDispatch model or of descriptors; for an expression of dg.index, pass its problems(x)"
    )


def graph_of_problem(problem: Problem) -> IndexGraph:
    """Return the graph of one problem. Inputs keep their names; the output is "output"."""
    graph = GraphBuilder()
    values = [graph.input(name, tensor) for name, tensor in zip(problem.inputs, problem.tensors, strict=False)]
    return graph.build([graph.problem(problem.name, problem, *values, output="output")])


def _of_descriptors(descriptors: list[Any]) -> IndexGraph:
    from dmlgather.dialects.descriptor_graph import descriptor_graph

    return descriptor_graph(descriptors)


def _of_file(path: Path) -> Program:
    from dmlgather.dialects.descriptor_graph import stream_graph

    suffix = path.suffix.lower()
    if suffix not in FILES:
        raise FileError(unknown_file(path))
    try:
        return Program(stream_graph(path)) if suffix in STREAMS else _of_json(path)
    except FileError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def unknown_file(path: Path) -> str:
    """Return a message about a file with an unsupported suffix."""
    supported = ", ".join(f"{contents} ({suffix})" for suffix, contents in FILES.items())
    problem = recognised(path) if path.exists() else "does not exist"
    return f"{path}: {problem or f'its name does not say what it is: expected {supported}'}"


def _of_json(path: Path) -> Program:
    from dmlgather.directml.dxdispatch.model_file import check_file

    checked = check_file(path)
    if checked.ok and not (checked.kind == "model" and checked.refusals) and checked.kind in ("model", "descriptor"):
        return program_of(checked)
    first = next(iter((*checked.problems, *checked.errors, *checked.refusals)), None)
    raise FileError(str(first) if first is not None else f"{path}: is neither a DxDispatch model nor a descriptor")


def program_of(checked: CheckedFile) -> Program:
    """Return the program for a model or descriptor in which `check_file` found no error."""
    from dmlgather.dialects.descriptor_graph import model_graph

    if checked.kind == "descriptor":
        return Program(_of_descriptors([dispatchable.desc for dispatchable in checked.dispatchables.values()]))
    return Program(model_graph(checked), checked)
