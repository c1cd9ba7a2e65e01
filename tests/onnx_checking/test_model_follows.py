"""What follows from sizes with names. Judge: onnxruntime's values and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.onnx_checking.sizes.values import Unknown
from tests.onnx_checking.following import Array, contents_of, differences, known_values, ran, symbols_of, with_outputs
from tests.onnx_checking.modelling import checked, parsed
from tests.onnx_checking.shape_graphs import INPUTS, random_inputs, random_shape_graph


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.integers(0, 2**32), min_size=2, max_size=4))
def test_random_models_compute_as_follows(tmp_path_factory: pytest.TempPathFactory, seed: int, runs: list[int]) -> None:
    model = random_shape_graph(seed)
    known, sizes = known_values(model, tmp_path_factory.mktemp("model"))
    for run in runs:
        inputs = random_inputs(run)
        got = ran(model, inputs)
        if got is not None and not reshapes_nothing(got):
            assert not list(differences(known, sizes, got, symbols_of(INPUTS, inputs)))


def reshapes_nothing(got: Mapping[str, Array]) -> bool:
    """Whether a tensor without elements was reshaped: 0 means another size there, and -1 has no meaning."""
    return any(name.startswith("Reshape") and array.size == 0 for name, array in got.items())


CONSTANTS = (
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {-1}, int64 first = {0}, int64 second = {1}, "
    "int64[1] three = {3}, int64 third = {2}, int64[1] end = {9223372036854775807}, float half = {0.5}, int64[1] eight = {8}"
)

FOLLOWS = {
    "PyTorch's chunk": (
        "s = Shape(X) d = Gather(s, second) p = Add(d, second) h = Div(p, third) u = Unsqueeze(h, zero) e = Mul(u, two) "
        "Z = Slice(X, u, e, one)",
        {"u": [4], "e": [8], "Z": ("N", 4)},
    ),
    "the first positions of an embedding": (
        "s = Shape(X) n = Gather(s, first) u = Unsqueeze(n, zero) w = Transpose(X) Z = Slice(w, zero, u, one)",
        {"u": ["N"], "Z": (8, "N")},
    ),
    "all but the first": ("Z = Slice(X, one, end, zero) s = Shape(Z)", {"s": ["max(0, N - 1)", 8]}),
    "at most two at the end": (
        "m = Neg(third) b = Unsqueeze(m, zero) Z = Slice(X, b, end, zero) s = Shape(Z)",
        {"s": ["min(2, N)", 8]},
    ),
    "the last positions": (
        "s = Shape(X) n = Gather(s, first) m = Sub(n, third) u = Unsqueeze(m, zero) Z = Slice(X, u, end, zero)",
        {"u": ["N - 2"]},
    ),
    "a view": (
        "s = Shape(X) n = Gather(s, zero) c = Concat<axis = 0>(n, two, last) Y = Reshape(X, c) "
        "t = Transpose<perm = [0, 2, 1]>(Y) b = Concat<axis = 0>(n, last) Z = Reshape(t, b)",
        {"c": ["N", 2, -1], "Y": ("N", 2, 4), "Z": ("N", 8)},
    ),
    "a view of all elements": ("Y = Reshape(X, last) s = Shape(Y)", {"Y": ("8*N",), "s": ["8*N"]}),
    "the elements of a shape": ("s = Shape(X) Z = ReduceProd<keepdims = 0>(s) n = Size(X)", {"Z": "8*N", "n": "8*N"}),
    "halves by floating point": (
        "s = Shape(X) n = Gather(s, first) f = Cast<to = 1>(n) h = Mul(f, half) r = Floor(h) Z = Cast<to = 7>(r)",
        {"Z": "floor(N/2)"},
    ),
    "a size or what is left to it": (
        "s = Shape(X) c = Equal(s, last) o = Expand(one, two) Z = Where(c, o, s)",
        {"c": [False, False], "Z": ["N", 8]},
    ),
    "what is longer": ("s = Shape(X) n = Gather(s, zero) Z = Max(n, eight)", {"Z": ["max(8, N)"]}),
    "a range": (
        "s = Shape(X) n = Gather(s, first) Z = Range(first, n, second) t = Shape(Z)",
        {"Z": ("N",), "t": ["N"]},
    ),
    "what is joined": ("Y = Concat<axis = 0>(X, X) Z = Slice(Y, zero, one, one)", {"Y": ("2*N", 8), "Z": ("2*N", 1)}),
    "what is padded and repeated": (
        "p = Concat<axis = 0>(one, zero, two, zero) Y = Pad(X, p) r = Concat<axis = 0>(one, three) Z = Tile(Y, r)",
        {"Y": ("N + 3", 8), "Z": ("N + 3", 24)},
    ),
    "parts": ("Y, Z = Split<axis = 1>(X) s = Shape(Z)", {"Y": ("N", 4), "s": ["N", 4]}),
    "what is spread": (
        "s = Shape(X) n = Gather(s, zero) c = Concat<axis = 0>(n, eight) Y = Expand(half, c) Z = ConstantOfShape(c)",
        {"Y": ("N", 8), "Z": ("N", 8)},
    ),
    "what is put into a shape": ("s = Shape(X) Z = ScatterElements(s, one, last)", {"Z": ["N", -1]}),
    "a shape from its end": ("s = Shape(X) Z = Slice(s, last, end)", {"Z": [8]}),
    "a loop": (
        "s = Shape(X) n = Gather(s, first) yes = Constant<value = bool {1}>() Z, all = Loop(third, yes, n) "
        "<body = more (int64 i, bool on, int64 k) => (bool go, int64 m, int64 each) "
        "{ go = Identity(on) m = Add(k, i) each = Identity(m) }>",
        {"Z": "N + 1", "all": ["N", "N + 1"]},
    ),
    "a branch": (
        "s = Shape(X) w = Gather(s, second) o = Equal(w, third) "
        "Z = If(o) <then_branch = a () => (float[k] t) { t = ReduceMax<keepdims = 0, axes = [1]>(X) }, "
        "else_branch = b () => (float[k,l] f) { f = Relu(X) }>",
        {"o": False, "Z": ("N", 8)},
    ),
}
"""Nodes, and what is known of values: elements as a list or a scalar, sizes as a tuple."""


@pytest.mark.parametrize(("nodes", "claims"), FOLLOWS.values(), ids=FOLLOWS)
def test_values_follow_from_sizes(tmp_path: Path, nodes: str, claims: dict[str, object]) -> None:
    model = with_outputs(parsed(f"agraph (float[N,8] X) => () <{CONSTANTS}> {{ {nodes} }}"))
    known, sizes = known_values(model, tmp_path)
    for name, claim in claims.items():
        value = known[name]
        assert value.type.shape == claim if isinstance(claim, tuple) else not isinstance(value.elements, Unknown), name
        if not isinstance(claim, tuple) and not isinstance(value.elements, Unknown):
            assert value.elements.tolist() == claim
    for size in (1, 3, 9):
        inputs = {"X": np.zeros((size, 8), np.float32)}
        got = ran(model, inputs)
        assert got is not None
        assert not list(differences(known, sizes, got, {"N": size}))


def test_a_size_called_by_a_question_mark_has_no_name(tmp_path: Path) -> None:
    model = parsed("agraph (float[?,?] X) => () { s = Shape(X) Y = Relu(X) t = Shape(Y) }")
    known, _ = known_values(model, tmp_path)
    elements = known["t"].elements
    assert not isinstance(elements, Unknown)
    assert elements.tolist() == ["X[0]", "X[1]"]


@pytest.mark.parametrize("opset", [9, 10, 11, 13])
def test_slices_of_slices_of_every_opset(tmp_path: Path, opset: int) -> None:
    """ONNX's inference gives a slice of opset 10 the unknown size of its data."""
    bounds = "int64[1] s = {1}, int64[1] e = {5}, int64[1] a = {0}"
    nodes = "y = Slice(X, s, e, a) r = Relu(y) z = Slice(r, s, e, a) t = Shape(z)"
    if opset == 9:
        nodes = "y = Slice<starts = [1], ends = [5]>(X) r = Relu(y) z = Slice<starts = [1], ends = [5]>(r) t = Shape(z)"
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> agraph (float[K] X) => (float[K] y) <{bounds}> {{ {nodes} }}'
    model = with_outputs(parsed(text))
    known, sizes = known_values(model, tmp_path)
    assert not isinstance(known["t"].elements, Unknown)
    for size in (1, 2, 3, 9):
        got = ran(model, {"X": np.zeros(size, np.float32)})
        assert got is not None
        assert not list(differences(known, sizes, got, {"K": size}))


DECIDED = {
    "an input": ("e = Identity(k)", "k"),
    "an input, by way of arithmetic": ("d = Abs(k) e = Add(d, d)", "k"),
    "data that are counted": ("n = NonZero(X) t = ReduceMax<keepdims = 0, axes = [1]>(n) e = Gather(t, zero)", "X"),
    "a size": ("s = Shape(X) n = Gather(s, zero) c = Less(n, one) e = Where(c, one, k)", "X"),
    "another operator": ("e = com.example.Count(X)", "X"),
}


@pytest.mark.parametrize(("nodes", "name"), DECIDED.values(), ids=DECIDED)
def test_an_unknown_value_names_the_input_that_decides_it(tmp_path: Path, nodes: str, name: str) -> None:
    head = '<ir_version: 9, opset_import: ["" : 17, "com.example" : 1]>'
    model = parsed(f"{head} agraph (float[N,8] X, int64[1] k) => () <{CONSTANTS}> {{ {nodes} Z = Slice(X, zero, e) }}")
    (node,) = [node for node in contents_of(model, tmp_path).nodes if node.proto.op_type == "Slice"]
    elements = node.inputs[2].elements
    assert isinstance(elements, Unknown)
    assert elements.decided_by == name


def test_the_input_that_decides_a_size(tmp_path: Path) -> None:
    contents = contents_of(
        parsed(f"agraph (float[N,?] X) => () <{CONSTANTS}> {{ n = NonZero(X) Z = Slice(n, zero, one, one) }}"), tmp_path
    )
    shape = contents.nodes[0].inputs[0].type.shape
    assert shape is not None
    assert shape[0] == 2
    assert {contents.origins[str(size)] for size in (*shape[1:], "N", "X[1]")} == {"X"}


NEGATIVE = {
    "Tile": "Z = Tile(X, minus)",
    "Pad": "Z = Pad(X, cut)",
    "Expand": "Z = Expand(X, minus)",
    "ConstantOfShape": "Z = ConstantOfShape(minus)",
    "Resize": "Z = Resize(Y, , , sizes)",
    "Split": "Z, V = Split(Y, parts)",
}


@pytest.mark.parametrize("node", NEGATIVE.values(), ids=NEGATIVE)
def test_a_negative_size_is_no_size(tmp_path: Path, node: str) -> None:
    constants = (
        "int64[1] minus = {-3}, int64[2] cut = {-9, 0}, int64[2] sizes = {-4, 3}, int64[2] parts = {-1, 5}, int64[1] zero = {0}"
    )
    found = checked(tmp_path, f"agraph (float[4] X, float[N,3] Y) => () <{constants}> {{ {node} W = Gather(Z, zero) }}")
    assert all(not isinstance(size, int) or size >= 0 for size in found.nodes[0].inputs[0].shape or ())
