"""Small ONNX models, written in ONNX's text format, and what checking them says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import parser

from dmlgather.directml.findings import LocatedFinding
from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import CheckedModel, CheckedNode, Verdict
from dmlgather.onnx_checking.reading.shape_inference import graphs_in

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'
"""The start of a model of opset 17."""


def parsed(text: str) -> onnx.ModelProto:
    """The model that a text states; HEAD goes before one that starts with a graph. A result without sizes, as in "=> (float y)",
    is of unknown shape, although ONNX takes it for a scalar.
    """
    model = parser.parse_model(text if text.lstrip().startswith("<") else f"{HEAD} {text}")
    for graph in graphs_in(model.graph):
        for value in graph.output:
            if not value.type.tensor_type.shape.dim:
                value.type.tensor_type.ClearField("shape")
    return model


def saved(folder: Path, model: str | onnx.ModelProto, name: str = "model.onnx") -> Path:
    """The file of a model."""
    path = folder / name
    onnx.save(parsed(model) if isinstance(model, str) else model, path)
    return path


def checked(folder: Path, model: str | onnx.ModelProto, level: str = "6_4") -> CheckedModel:
    """What checking a model says, which goes through a file in `folder`."""
    found = check_model(saved(folder, model), level)
    assert not found.problems
    return found


def hosts(folder: Path, model: str | onnx.ModelProto) -> set[str]:
    """The names of the nodes that are the host's arithmetic. The verdicts of the others are those of a check that judges all."""
    found = checked(folder, model)
    judged = check_model(Path(found.file), include_host=True)
    for one, two in zip(found.nodes, judged.nodes, strict=True):
        assert two.verdict is not Verdict.HOST
        if one.verdict is Verdict.HOST:
            assert (one.taken, one.lowest, one.missing, one.provided) == (None, None, (), ())
            assert not findings_of(found, one.place)
        else:
            assert one == two
    assert found.calls.keys() == judged.calls.keys()
    return {node.name for node in found.nodes if node.verdict is Verdict.HOST}


def by_place(model: CheckedModel) -> dict[str, CheckedNode]:
    """The nodes by their places."""
    found = {node.place: node for node in model.nodes}
    assert len(found) == len(model.nodes)
    return found


def only(model: CheckedModel) -> CheckedNode:
    """The only node of the family."""
    (node,) = model.nodes
    return node


def findings_of(model: CheckedModel, place: str) -> list[LocatedFinding]:
    """The findings about the node at a place."""
    return [finding for finding in model.findings if finding.subject == place]


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the main graph."""
    yield from model.graph.node
