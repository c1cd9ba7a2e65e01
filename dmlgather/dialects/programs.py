"""What users call a program, as a graph: problems, descriptors, and files that hold descriptors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, chain
from dmlgather.dialects.problem import Problem
from dmlgather.files import STREAMS, FileError

FILES = {".json": "a DxDispatch model or a descriptor", **dict.fromkeys(STREAMS, "descriptors on lines")}
"""What files hold, by their suffixes."""


def read_program(source: Any, argument: str = "source") -> IndexGraph:
    """A program as a graph.

    source: a problem, whose graph has the problem's names of the inputs and one output "output"; problems, of which each reads
    what the one before it wrote (`chain`); a descriptor, or descriptors in a row (`descriptor_graph`); the path of a DxDispatch
    model or a descriptor (.json), or of descriptors on lines (.jsonl, .ndjson); an IndexGraph. argument: what messages call it.

    TypeError for anything else, FileError for a file that cannot be used, DescriptorError for a descriptor that feature level
    6_4 does not take, ValueError for steps that do not fit one another.
    """
    from dmlgather.directml import OperatorDesc

    match source:
        case IndexGraph():
            return source
        case Problem():
            return graph_of_problem(source)
        case OperatorDesc():
            return _of_descriptors([source])
        case str() | PathLike():
            return _of_file(Path(source))
    given = f"of type {type(source).__name__}"
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        items = list(source)
        if not items:
            raise ValueError(f"{argument} is empty: expected at least one problem or descriptor")
        if all(isinstance(each, Problem) for each in items):
            return chain(items)
        if all(isinstance(each, OperatorDesc) for each in items):
            return _of_descriptors(items)
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


def _of_file(path: Path) -> IndexGraph:
    from dmlgather.dialects.descriptor_graph import stream_graph

    suffix = path.suffix.lower()
    if suffix not in FILES:
        known = ", ".join(f"{what} ({suffix})" for suffix, what in FILES.items())
        raise FileError(f"{path}: its name does not say what it is: expected {known}")
    try:
        return stream_graph(path) if suffix in STREAMS else _of_json(path)
    except FileError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _of_json(path: Path) -> IndexGraph:
    from dmlgather.dialects.descriptor_graph import model_graph
    from dmlgather.directml.dxdispatch.model_file import check_file

    checked = check_file(path)
    if checked.kind == "model" and checked.ok and not checked.refusals:
        return model_graph(checked)
    if checked.kind == "descriptor" and checked.ok:
        return _of_descriptors([each.desc for each in checked.dispatchables.values()])
    first = next(iter((*checked.problems, *checked.errors, *checked.refusals)), None)
    raise FileError(str(first) if first is not None else f"{path}: is neither a DxDispatch model nor a descriptor")
