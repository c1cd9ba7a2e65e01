"""Ranks that follow from other ranks at a node, also backwards: the data of a convolution have the rank of its weights. A rule
for each kind of operator, from a node and the ranks that are known to names with ranks that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dmlgather.onnx.model.operator_rows import Ranks

if TYPE_CHECKING:
    from onnx import NodeProto

RankRule = Callable[["NodeProto", Ranks], Iterator[tuple[str, int]]]


def alike(inputs: int | None = 1, outputs: int | None = 1) -> RankRule:
    """So many of the first inputs and outputs have one rank; None: all of them."""

    def rule(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
        names = [*node.input[:inputs], *node.output[:outputs]]
        known = next((number for name in names if (number := rank(name)) is not None), None)
        if known is not None:
            yield from ((name, known) for name in names)

    return rule


def kernel(at: int) -> RankRule:
    """The rank of input `at` is that of the first input and of the output: a kernel has an element for each window."""

    def rule(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
        known = rank(node.input[at]) if len(node.input) > at else None
        if known is not None:
            yield from ((node.input[0], known), (_output(node), known))

    return rule


def broadcast(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
    """The output has the rank of the input of more dimensions; exporters often write a constant as the other."""
    if len(node.input) != 2:
        return
    (left, right), output = node.input, _output(node)
    ranks, result = (rank(left), rank(right)), rank(output)
    if None not in ranks:
        yield output, max(each for each in ranks if each is not None)
    for one, other in ((left, ranks[1]), (right, ranks[0])):
        if result is not None and other is not None and other < result:
            yield one, result


def permuted(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
    """Transpose: of its permutation, else of each other."""
    permutation = next((attribute.ints for attribute in node.attribute if attribute.name == "perm"), None)
    if permutation is None:
        yield from alike()(node, rank)
    else:
        yield from ((name, len(permutation)) for name in (node.input[0], _output(node)))


def recurrent(node: NodeProto, _: Ranks) -> Iterator[tuple[str, int]]:
    """A sequence, and the outputs of all steps and of the last one."""
    yield node.input[0], 3
    yield from zip(node.output, (4, 3, 3), strict=False)


def four(node: NodeProto, _: Ranks) -> Iterator[tuple[str, int]]:
    """Four dimensions."""
    yield _output(node), 4


def _output(node: NodeProto) -> str:
    return next(iter(node.output), "")
