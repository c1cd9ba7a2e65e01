"""Ranks that follow from a whole graph, where the model declares none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.onnx_checking.following import known_values
from tests.onnx_checking.modelling import parsed

CONSTANTS = "float[4,2,3,3] w = {{{weights}}}, float[2] b = {{1, 2}}, int64 n = {{64}}, int64[1] n1 = {{1}}, int64 step = {{16}}"

RANKS = {
    "the data of a convolution": ("Y = Relu(X) Z = Conv(Y, w)", {"Y": 4, "Z": 4}),
    "through arithmetic": ("Y = Add(X, b) V = Sigmoid(Y) Z = ConvTranspose(V, w)", {"Y": 4, "Z": 4}),
    "a permutation": ("Y = Relu(X) Z = Transpose<perm = [0, 2, 1]>(Y)", {"Y": 3, "Z": 3}),
    "the inverse of a permutation of unknown length": ("Y = Transpose(X) V = Abs(Y) Z = Conv(V, w)", {"Y": 4, "V": 4}),
    "a spectrum": ("Z = STFT(X, step, , n) Y = Neg(Z)", {"Z": 4, "Y": 4}),
    "shapes that follow from it": ("Z = Conv(X, w) s = Shape(Z) Y = Reshape(Z, s)", {"s": 1, "Y": 4}),
    "parts that are joined": (
        "Y = Relu(X) T = Slice(Y, n1, n1) V = Concat<axis = 0>(T, Y) Z = Conv(V, w)",
        {"Y": 4, "T": 4, "V": 4},
    ),
    "parts that one is split into": ("Y, V = Split<axis = 0>(X) T = Relu(Y) Z = Conv(V, w)", {"Y": 4, "T": 4, "V": 4}),
    "the largest elements": ("Y, V = TopK(X, n1) Z = Conv(Y, w)", {"V": 4}),
    "elements that are looked up": ("V = Cast<to = 7>(X) Y = GatherElements(X, V) Z = Conv(Y, w)", {"Y": 4, "V": 4}),
    "nothing": ("Y = Relu(X) Z = Add(Y, Y)", {"Y": None, "Z": None}),
}


@pytest.mark.parametrize(("nodes", "ranks"), RANKS.values(), ids=RANKS)
def test_ranks(tmp_path: Path, nodes: str, ranks: dict[str, int | None]) -> None:
    constants = CONSTANTS.format(weights=", ".join(["1"] * 72))
    model = parsed(f"agraph (float[N] X) => () <{constants}> {{ {nodes.replace(', ,', ', missing,')} }}")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        node.input[:] = ["" if name == "missing" else name for name in node.input]
    known, _ = known_values(model, tmp_path)
    shapes = {name: known[name].type.shape for name in ranks}
    assert {name: None if shape is None else len(shape) for name, shape in shapes.items()} == ranks


@pytest.mark.slow
def test_a_long_chain(tmp_path: Path) -> None:
    number = 1500
    chain = " ".join(f"v{at + 1} = Relu(v{at})" for at in range(number))
    constants = CONSTANTS.format(weights=", ".join(["1"] * 72))
    model = parsed(f"agraph (float[N] v0) => () <{constants}> {{ {chain} Z = Conv(v{number}, w) }}")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    known, _ = known_values(model, tmp_path)
    assert {len(value.type.shape or ()) for value in known.values()} == {4}


def test_a_permutation_of_more_dimensions_than_are_read(tmp_path: Path) -> None:
    """Its length would be the rank of all that is computed from it, with a symbol for each size."""
    permutation = ", ".join(map(str, range(65)))
    model = parsed(f"agraph (float[N] X) => () {{ Y = Relu(X) V = Transpose<perm = [{permutation}]>(Y) Z = Abs(V) }}")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    known, _ = known_values(model, tmp_path)
    assert {known[name].type.shape for name in "YVZ"} == {None}
