"""Walks over the nodes of subgraphs, and names nodes in messages."""

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
    """Return the operator with its domain, such as "com.example.Gather". ONNX's own operators have no domain."""
    return node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the subgraphs of a node with labels such as "then_branch", or "bodies[1]" in a list of graphs."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes, and after each node all nodes of its subgraphs."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node):
            yield from all_nodes(graph.node)


def integers_of(node: NodeProto) -> dict[str, int]:
    """Return the attributes that are single integers. References to a function's attributes are left out."""
    return {item.name: item.i for item in node.attribute if item.HasField("i") and not item.ref_attr_name}


def place_of(path: str, node: NodeProto, index: int) -> str:
    """Return the path of a node in reports, such as "loop/gather1", or "loop/Slice_12" for a node without a name."""
    name = printable(node.name) or f"{printable(node.op_type)}_{index}"
    return f"{path}/{name}" if path else name


def element_count(tensor: TensorProto) -> int:
    """Return the number of elements without reading them."""
    return math.prod(tensor.dims)


def label(node: NodeProto) -> str:
    """Return "Slice node 'head'", or "Slice node that gives 'y'" if it has no name."""
    return f"{node.op_type} node {node.name!r}" if node.name else f"{node.op_type} node that gives {', '.join(node.output)!r}"


@contextmanager
def naming(node: NodeProto) -> Iterator[None]:
    """Put the node's label in front of the message of an IndexError, TypeError or ValueError."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        kind = next(kind for kind in (IndexError, TypeError, ValueError) if isinstance(error, kind))
        raise kind(f"{label(node)}: {error}") from error
