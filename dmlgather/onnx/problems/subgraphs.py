"""Subgraphs of nodes, and names of nodes for messages."""

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
    """Return the operator with its domain: "com.example.Gather", or "Gather" for ONNX's own."""
    return node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the graphs in a node's attributes, each with a label. Labels: "then_branch", or "bodies[1]" in a list of graphs."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes, each followed by all nodes of its subgraphs."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node):
            yield from all_nodes(graph.node)


def integers_of(node: NodeProto) -> dict[str, int]:
    """Return a node's integer attributes, by name."""
    return {item.name: item.i for item in node.attribute if item.HasField("i") and not item.ref_attr_name}


def place_of(path: str, node: NodeProto, index: int) -> str:
    """Return a node's name in reports: the path of its graph, then its own name; without a name, its operator and position."""
    name = printable(node.name) or f"{printable(node.op_type)}_{index}"
    return f"{path}/{name}" if path else name


def element_count(tensor: TensorProto) -> int:
    """Return the number of elements of a tensor's shape."""
    return math.prod(tensor.dims)


def label(node: NodeProto) -> str:
    """Return a node's name in error messages."""
    return f"{node.op_type} node {node.name!r}" if node.name else f"{node.op_type} node that gives {', '.join(node.output)!r}"


@contextmanager
def naming(node: NodeProto) -> Iterator[None]:
    """Add the node's name in front of the message of an IndexError, TypeError or ValueError."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        kind = next(kind for kind in (IndexError, TypeError, ValueError) if isinstance(error, kind))
        raise kind(f"{label(node)}: {error}") from error
