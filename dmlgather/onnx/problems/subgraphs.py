"""How messages name nodes, the graphs inside nodes, and all nodes of a graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.operator_versions import DOMAINS
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto


def operator_name(node: NodeProto) -> str:
    """The operator with its domain: "com.example.Gather", or "Gather" where it is ONNX's own."""
    return node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs in the attributes of a node of any operator (If, Loop, Scan, …), each with a label: the attribute's name, with
    the position in a list of graphs ("then_branch", "bodies[1]").
    """
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """These nodes and those of all graphs inside them."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node):
            yield from all_nodes(graph.node)


def integers_of(node: NodeProto) -> dict[str, int]:
    """The attributes of a node that are one integer."""
    return {each.name: each.i for each in node.attribute if each.HasField("i") and not each.ref_attr_name}


def place_of(path: str, node: NodeProto, index: int) -> str:
    """What a report calls a node: by its name or operator and position, behind the path of the graph around it."""
    own = printable(node.name) or f"{printable(node.op_type)}_{index}"
    return f"{path}/{own}" if path else own


def element_count(tensor: TensorProto) -> int:
    """The number of elements that follows from the shape of a tensor."""
    return math.prod(tensor.dims)


def label(node: NodeProto) -> str:
    """The name of a node in messages."""
    return f"{node.op_type} node {node.name!r}" if node.name else f"{node.op_type} node that gives {', '.join(node.output)!r}"


@contextmanager
def naming(node: NodeProto) -> Iterator[None]:
    """Puts the node before the message of an IndexError, TypeError or ValueError."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        kind = next(kind for kind in (IndexError, TypeError, ValueError) if isinstance(error, kind))
        raise kind(f"{label(node)}: {error}") from error
