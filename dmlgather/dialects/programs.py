"""What users call a program: problems, descriptors, and files that hold descriptors; as a graph, with initial values."""

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
"""What files hold, by their suffixes."""


@dataclass(frozen=True)
class Program:
    """A program. model: the DxDispatch model that it was read from."""

    graph: IndexGraph
    model: CheckedFile | None = None

    @cached_property
    def initial(self) -> dict[str, NDArray[Any]]:
        """Values of inputs that its file states, by the names that users know. FileError where they cannot be read."""
        if self.model is None:
            return {}
        import numpy as np

        from dmlgather.directml.dxdispatch.writing import initial_values

        found = {}
        for value in self.graph.inputs:
            name, tensor = self.graph.label(value), self.graph.types[value]
            raw = initial_values(self.model, self.model.resources[name]).view(np.uint8)
            found[name] = raw.view(tensor.dtype).reshape(tensor.shape)
        return found


def read_program(source: Any, argument: str = "source") -> Program:
    """Return a program.

    source: a problem, whose graph has the problem's names of the inputs and one output "output"; problems, of which each reads
    what the one before it wrote (`chain`); a descriptor, or descriptors in a row (`descriptor_graph`); the path of a DxDispatch
    model or a descriptor (.json), or of descriptors on lines (.jsonl, .ndjson); an IndexGraph. argument: what messages call it.

    TypeError for anything else, FileError for a file that cannot be used, DescriptorError for a descriptor that feature level
    6_4 does not take, ValueError for steps that do not fit one another.
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
    given = f"of type {type(source).__name__}"
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        items = list(source)
        if not items:
            raise ValueError(f"{argument} is empty: expected at least one problem or descriptor")
        if all(isinstance(each, Problem) for each in items):
            return Program(chain(items))
        if all(isinstance(each, OperatorDesc) for each in items):
            return Program(_of_descriptors(items))
        given += f" and holds {', '.join(dict.fromkeys(type(each).__name__ for each in items))}"
    raise TypeError(
        f"{argument} is {given}, which is no program: expected a problem or a descriptor, a list of either, or the path of a "
        "DxDispatch model or of descriptors; what dg.index gives has problems(x)"
    )


def graph_of_problem(problem: Problem) -> IndexGraph:
    """The graph of one problem. Its inputs have the problem's names of them, its output is "output"."""
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
    """Return what is said of a file whose suffix is none of `FILES`: what it holds, where that is known, and what is expected."""
    known = ", ".join(f"{what} ({suffix})" for suffix, what in FILES.items())
    found = recognised(path) if path.exists() else "does not exist"
    return f"{path}: {found or f'its name does not say what it is: expected {known}'}"


def _of_json(path: Path) -> Program:
    from dmlgather.directml.dxdispatch.model_file import check_file

    checked = check_file(path)
    if checked.ok and not (checked.kind == "model" and checked.refusals) and checked.kind in ("model", "descriptor"):
        return program_of(checked)
    first = next(iter((*checked.problems, *checked.errors, *checked.refusals)), None)
    raise FileError(str(first) if first is not None else f"{path}: is neither a DxDispatch model nor a descriptor")


def program_of(checked: CheckedFile) -> Program:
    """Return the program of a model, or of a single descriptor, without errors."""
    from dmlgather.dialects.descriptor_graph import model_graph

    if checked.kind == "descriptor":
        return Program(_of_descriptors([found.desc for found in checked.dispatchables.values()]))
    return Program(model_graph(checked), checked)
