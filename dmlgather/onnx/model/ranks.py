"""Ranks that follow from a whole graph, also backwards: the data of a convolution have the rank of its weights.

Shapes are inferred forwards, so that a value without a declared shape hides all that is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dmlgather.onnx.model.partial_types import MOST_DIMENSIONS, PartialType
from dmlgather.onnx.model.scopes import Scope
from dmlgather.onnx.problems.operator_versions import DOMAINS

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

KEEPS_RANK = frozenset(
    (
        *("Abs", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "CumSum", "DequantizeLinear", "Dropout"),
        *("Elu", "Erf", "Exp", "Floor", "Gelu", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish", "Identity"),
        *("InstanceNormalization", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "LpPool"),
        *("MaxPool", "Mish", "Neg", "Not", "Pad", "PRelu", "QuantizeLinear", "Reciprocal", "Relu", "Resize", "Round"),
        *("ReverseSequence", "ScatterElements", "ScatterND", "Selu", "Sigmoid", "Sign", "Slice", "Softmax", "Softplus"),
        *("Sqrt", "Tanh", "ThresholdedRelu", "Tile", "Trilu", "Upsample"),
    )
)
"""The operators whose first output has the rank of their first input."""

ONE_RANK: Mapping[str, tuple[int | None, int | None]] = {
    "Concat": (None, 1),
    "GatherElements": (2, 1),
    "Split": (1, None),
    "TopK": (1, 2),
}
"""The operators of whose inputs and outputs several have one rank: the first so many of each; None: all."""

BROADCASTS = frozenset(("Add", "Sub", "Mul", "Div", "Pow", "Mod"))
"""The operators whose output has the rank of the input of more dimensions; exporters often write a constant as the other."""

WEIGHTS: Mapping[str, int] = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "QLinearConv": 3}
"""The input whose rank is that of the first input and of the output: a kernel has an element for each window."""

MOST_ROUNDS = 8
"""How often a graph is gone through, forwards and backwards. One round carries a rank along a chain of any length."""

Ranks = Callable[[str], int | None]


def learn_ranks(graph: GraphProto, scope: Scope) -> None:
    """Keep the ranks of a graph's own values that follow from other ranks in it."""
    lacking = {name for name in (*scope.values, *scope.types) if scope.type(name).shape is None}
    found: dict[str, int] = {}

    def rank(name: str) -> int | None:
        if name in found:
            return found[name]
        shape = scope.type(name).shape if name else None
        return None if shape is None else len(shape)

    own = (node for node in graph.node if node.domain in DOMAINS and node.input)
    nodes = [node for node in own if not lacking.isdisjoint((*node.input, *node.output))]
    for _ in range(MOST_ROUNDS if nodes else 0):
        before = len(found)
        for node in (*nodes, *reversed(nodes)):
            for name, number in _follows(node, rank):
                if name in lacking and name not in found and number <= MOST_DIMENSIONS:
                    found[name] = number
        if len(found) == before:
            break
    for name, number in found.items():
        scope.learn_type(name, PartialType(shape=(None,) * number))


def _follows(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
    """Names of a node's inputs and outputs, with the ranks that follow from the others."""
    kind, inputs, output = node.op_type, node.input, next(iter(node.output), "")
    if kind in WEIGHTS:
        kernel = rank(inputs[WEIGHTS[kind]]) if len(inputs) > WEIGHTS[kind] else None
        if kernel is not None:
            yield from ((inputs[0], kernel), (output, kernel))
    elif kind == "Transpose":
        permutation = next((attribute.ints for attribute in node.attribute if attribute.name == "perm"), None)
        known = len(permutation) if permutation is not None else _first(rank(inputs[0]), rank(output))
        if known is not None:
            yield from ((inputs[0], known), (output, known))
    elif kind == "STFT":
        yield output, 4
    elif kind in ("LSTM", "GRU", "RNN"):
        yield inputs[0], 3
        yield from zip(node.output, (4, 3, 3), strict=False)
    elif kind in KEEPS_RANK or kind in ONE_RANK:
        few, made = ONE_RANK.get(kind, (1, 1))
        yield from _alike([*inputs[:few], *node.output[:made]], rank)
    elif kind in BROADCASTS and len(inputs) == 2:
        yield from _broadcast(inputs[0], inputs[1], output, rank)


def _alike(names: Sequence[str], rank: Ranks) -> Iterator[tuple[str, int]]:
    known = next((number for name in names if (number := rank(name)) is not None), None)
    if known is not None:
        yield from ((name, known) for name in names)


def _broadcast(left: str, right: str, output: str, rank: Ranks) -> Iterator[tuple[str, int]]:
    ranks, result = (rank(left), rank(right)), rank(output)
    if None not in ranks:
        yield output, max(each for each in ranks if each is not None)
    for one, other in ((left, ranks[1]), (right, ranks[0])):
        if result is not None and other is not None and other < result:
            yield one, result


def _first(one: int | None, two: int | None) -> int | None:
    return two if one is None else one
