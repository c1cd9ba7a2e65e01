"""Models that onnxruntime refuses to load. Source: runs of onnxruntime 1.24.4 and 1.32.0 with the CPU provider."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

from dmlgather.directml import Finding
from dmlgather.onnx.problems.node_reading import UnknownValueError, parse_node
from dmlgather.onnx.problems.operator_versions import NEWEST_IR_VERSION, NEWEST_OPSET
from dmlgather.onnx.problems.subgraphs import subgraphs
from dmlgather.onnx_checking.following.model_nodes import ModelContents, ModelNode
from dmlgather.onnx_checking.following.scopes import LATER_IN_MAIN
from dmlgather.onnx_checking.provider.codes import CODES
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

WHEEL = "onnxruntime-directml 1.24.4, the last wheel,"
WHEEL_OPSET, WHEEL_IR_VERSION = 25, 13
"""The newest versions that the last wheel of onnxruntime-directml loads."""


class Refusal(NamedTuple):
    """Why onnxruntime refuses to load a model. `code`: the code of the finding that reports this fault."""

    code: str
    reason: str


def refusal_of(contents: ModelContents, graph: GraphProto) -> Refusal | None:
    """Return the first reason why onnxruntime refuses to load a model, or None."""
    return next(_refusals(contents, graph), None)


def _refusals(contents: ModelContents, graph: GraphProto) -> Iterator[Refusal]:
    if contents.ir_version > NEWEST_IR_VERSION:
        yield Refusal("EXP310", f"ir_version is {contents.ir_version}")
    if (opset := contents.opsets.get("", 0)) > NEWEST_OPSET:
        yield Refusal("EXP309", f"the opset is {opset}")
    for code, repetitions, what in (
        ("EXP311", contents.repeated_names, "several nodes have the name"),
        ("EXP312", contents.redefined, "several values have the name"),
    ):
        for repeated in repetitions:
            if repeated.called:
                yield Refusal(code, f"{what} {printable(next(iter(repeated.names)))!r}")
    for each in contents.undefined:
        if each.called and each.reason != LATER_IN_MAIN:  # onnxruntime sorts the nodes of the main graph
            yield Refusal("EXP304", f"{printable(each.name)!r} is {each.reason}")
    if contents.undefined and not _can_be_sorted(graph):
        yield Refusal("EXP304", "nodes of the main graph read each other's outputs")
    for contradiction in contents.contradictions:
        if contradiction.refused:
            name = printable(contradiction.tensor)
            yield Refusal("EXP307", f"the model states a wrong type of {name!r}")
    for place in (*(place for place, *_ in contents.malformed), *(node.place for node in contents.nodes if _is_malformed(node))):
        yield Refusal("EXP101", f"ONNX refuses the node {printable(place)!r}")


def _is_malformed(node: ModelNode) -> bool:
    try:
        parse_node(node.proto, node.opset)
    except UnknownValueError:
        return False
    except (TypeError, ValueError):
        return True
    return False


def _can_be_sorted(graph: GraphProto) -> bool:
    """Return True if the nodes can be sorted so that each node comes after the nodes that compute its inputs."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    earlier = {index: {makers[name] for name in _reads(node) if name in makers} for index, node in enumerate(graph.node)}
    try:
        TopologicalSorter(earlier).prepare()
    except CycleError:
        return False
    return True


def _reads(node: NodeProto) -> set[str]:
    """Return the names that a node and its subgraphs read."""
    return {*node.input}.union(*(_reads(inner) for _, body in subgraphs(node) for inner in body.node))


def wheel_findings(contents: ModelContents) -> Iterator[Finding]:
    """Yield a finding if the opset or the IR version is too new for the last wheel of onnxruntime-directml."""
    for path, version, newest, known in (
        ("opset_import", contents.opsets.get("", 0), WHEEL_OPSET, NEWEST_OPSET),
        ("ir_version", contents.ir_version, WHEEL_IR_VERSION, NEWEST_IR_VERSION),
    ):
        if newest < version <= known:
            yield CODES["ORT111"].finding(
                path,
                expected=f"at most {newest}",
                got=f"{version}, with which {WHEEL} refuses to load the model",
                remedy="export the model with an older version",
            )
