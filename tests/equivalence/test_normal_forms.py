"""Operators that are stated differently: what is one function is proven equal, what resembles it is not. onnxruntime judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest

import dmlgather as dg
from dmlgather.dialects.layer_forms import einsum_equation
from tests.onnx.optimising import graph_of, run_in_onnxruntime

SHAPES: Mapping[str, tuple[int, ...]] = {
    "x": (2, 3, 4),
    "m": (3, 4),
    "q": (4, 4),
    "r": (4, 4),
    "w": (4, 5),
    "b": (5,),
    "s": (4,),
    "t": (4,),
    "image": (2, 4, 6, 6),
    "kernel": (8, 4, 3, 3),
    "bias": (8,),
    "six": (6,),
}
"""The inputs that a row's nodes may read."""

CONSTANTS: Mapping[str, Sequence[float]] = {
    "one": [1],
    "zero": [0],
    "four": [4],
    "quarter": [0.25],
    "three": [3],
    "third": [1 / 3],
}

INTEGERS: Mapping[str, Sequence[int]] = {
    "fours": [4],
    "last": [-1],
    "first": [0],
    "sides": [1, 2],
    "spatial": [2, 3],
    "rows": [6, 4],
    "cubes": [2, 3, 5],
    "flat": [24],
    "groups": [2, 2, -1],
    "images": [2, 4, 6, 6],
    "pads": [0, 0, 1, 0, 0, 1],
    "turned_pads": [0, 1, 0, 0, 0, 1],
}

EQUAL: Sequence[Sequence[str]] = [
    (
        "y = Gemm(m, w, b)",
        "p = MatMul(m, w) y = Add(b, p)",
        "v = Transpose(w) y = Gemm <transB = 1> (m, v, b)",
        "n = Transpose(m) y = Gemm <transA = 1> (n, w, b)",
        "y = Gemm <alpha = 1.0, beta = 1.0> (m, w, b)",
    ),
    ("p = Gemm(m, w, b) y = Relu(p)", 'y = com.microsoft.FusedGemm <activation = "Relu"> (m, w, b)'),
    ("p = MatMul(x, w) y = Add(p, b)", "f = Reshape(x, rows) p = Gemm(f, w, b) y = Reshape(p, cubes)"),
    ("v = Transpose <perm = [0, 2, 1]> (x) y = MatMul(x, v)", "y = com.microsoft.FusedMatMul <transB = 1> (x, x)"),
    (
        "p = MatMul(q, r) y = Div(p, four)",
        "y = com.microsoft.FusedMatMul <alpha = 0.25> (q, r)", "y = Gemm <alpha = 0.25> (q, r)",
    ),
    ('y = Einsum <equation = "bik,kj->bij"> (x, w)', 'y = Einsum <equation = "a c d, d e -> a c e"> (x, w)'),
    (
        "y = LayerNormalization(x, s, t)",
        "y = LayerNormalization <axis = 2, epsilon = 0.00001> (x, s, t)",
        "ones = Expand(one, fours) n = LayerNormalization(x, ones) c = Mul(s, n) y = Add(t, c)",
    ),
    (
        "c = Add(x, x) y = LayerNormalization(c, s, t)",
        "y = com.microsoft.SkipLayerNormalization <epsilon = 0.00001> (x, x, s, t)",
    ),
    (
        "y = InstanceNormalization(image, s, t)",
        "z = Expand(zero, fours) o = Expand(one, fours) n = InstanceNormalization(image, o, z) "
        "c = Unsqueeze(s, sides) d = Unsqueeze(t, sides) e = Mul(n, c) y = Add(e, d)",
    ),
    (
        "y = Conv <pads = [1, 1, 1, 1]> (image, kernel, bias)",
        'y = Conv <auto_pad = "SAME_UPPER", kernel_shape = [3, 3]> (image, kernel, bias)',
        "c = Conv <pads = [1, 1, 1, 1], strides = [1, 1]> (image, kernel) d = Unsqueeze(bias, sides) y = Add(c, d)",
    ),
    ("y = GlobalAveragePool(image)", "y = ReduceMean(image, spatial)"),
    (
        "y = AveragePool <kernel_shape = [2, 2]> (image)",
        "y = AveragePool <kernel_shape = [2, 2], strides = [1, 1], count_include_pad = 1> (image)",
    ),
    ("y = Softmax(x)", "y = Softmax <axis = 2> (x)"),
    ("y = LogSoftmax <axis = -2> (x)", "y = LogSoftmax <axis = 1> (x)"),
    ("y = HardSwish(x)", "h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(h, x)"),
    ("y = Mish(x)", "p = Softplus(x) h = Tanh(p) y = Mul(x, h)"),
    ("g = Sigmoid(x) y = Mul(g, x)", "y = com.microsoft.QuickGelu <alpha = 1.0> (x)"),
    ('c = Add(x, s) y = Gelu <approximate = "none"> (c)', "y = com.microsoft.BiasGelu(x, s)"),
    ("y = Clip(x, zero0, one0)", "c = Max(x, zero) y = Min(c, one)"),
    ("y = Softsign(x)", "a = Abs(x) c = Add(one, a) y = Div(x, c)"),
    ("two = Constant <value_float = 2.0> () y = Pow(x, two)", "y = Mul(x, x)"),
    ("y = Div(x, four)", "y = Mul(quarter, x)"),
    ("y = Identity(x)", "y = Mul(x, one)", "y = Sub(x, zero)", "y = Div(x, one)"),
    ("c = MatMul(q, r) y = Add(c, zero)", "y = MatMul(q, r)"),
    ("f = Reshape(x, flat) g = Relu(f) y = Reshape(g, rows)", "g = Relu(x) y = Reshape(g, rows)"),
    ("y = Elu(x)", "y = Elu <alpha = 1.0> (x)"),
    ("y = ReduceL2 <keepdims = 0> (x, last)", "two = Constant <value_ints = [2]> () y = ReduceL2 <keepdims = 0> (x, two)"),
    ("y = CumSum(x, minus)", "y = CumSum(x, two0)"),
    ("y = Pad(x, pads)", 'y = Pad <mode = "constant"> (x, pads, zero0)'),
]  # fmt: skip
"""Nodes that state one function; the first of each row is compared with all others."""

OTHERS: Sequence[tuple[str, str]] = [
    ("y = Gemm(m, w, b)", "y = Gemm <alpha = 0.5> (m, w, b)"),
    ("y = Gemm(m, w, b)", "y = Gemm <beta = 0.5> (m, w, b)"),
    ("y = Gemm(m, w, b)", "p = MatMul(m, w) y = Sub(p, b)"),
    ("y = Gemm(q, r)", "y = Gemm <transA = 1> (q, r)"),
    ("y = Gemm(q, r)", "y = Gemm <transB = 1> (q, r)"),
    ("y = Gemm(q, r)", "y = Gemm(r, q)"),
    ("y = Gemm(q, r, s)", "c = Unsqueeze(s, last) p = MatMul(q, r) y = Add(p, c)"),
    ("y = MatMul(q, r)", "y = com.microsoft.FusedMatMul <alpha = 0.5> (q, r)"),
    ('y = Einsum <equation = "ik,kj->ij"> (q, r)', 'y = Einsum <equation = "ik,kj->ji"> (q, r)'),
    ('y = Einsum <equation = "ik,kj->ij"> (q, r)', 'y = Einsum <equation = "ik,jk->ij"> (q, r)'),
    ("y = LayerNormalization(x, s, t)", "y = LayerNormalization <epsilon = 0.01> (x, s, t)"),
    ("y = LayerNormalization(x, s, t)", "y = LayerNormalization(x, t, s)"),
    ("y = InstanceNormalization(image, s, t)", "y = InstanceNormalization <epsilon = 0.01> (image, s, t)"),
    ("y = Conv <pads = [1, 1, 1, 1]> (image, kernel)", "y = Conv <pads = [0, 0, 2, 2]> (image, kernel)"),
    ("y = Conv <pads = [1, 1, 1, 1]> (image, kernel)", "y = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]> (image, kernel)"),
    ("y = Conv <pads = [1, 1, 1, 1]> (image, kernel, bias)", "c = Conv <pads = [1, 1, 1, 1]> (image, kernel) y = Add(c, six)"),
    ("y = GlobalAveragePool(image)", "y = GlobalMaxPool(image)"),
    (
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (image)",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (image)",
    ),
    (
        "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (image)",
        "y = MaxPool <kernel_shape = [3, 3], pads = [0, 0, 2, 2]> (image)",
    ),
    ("y = Softmax(x)", "y = Softmax <axis = 1> (x)"),
    ("y = Softmax(x)", "y = LogSoftmax(x)"),
    ("y = HardSwish(x)", "h = HardSigmoid(x) y = Mul(h, x)"),
    ("g = Sigmoid(x) y = Mul(g, x)", "y = com.microsoft.QuickGelu(x)"),
    ("y = Gelu(x)", 'y = Gelu <approximate = "tanh"> (x)'),
    ("y = Clip(x, zero0, one0)", "y = Clip(x, one0, zero0)"),
    ("y = Clip(x, zero0)", "y = Min(x, zero)"),
    ("y = LeakyRelu(x)", "y = LeakyRelu <alpha = 0.1> (x)"),
    ("y = Elu(x)", "y = Celu <alpha = 2.0> (x)"),
    ("y = PRelu(q, s)", "c = Unsqueeze(s, last) y = PRelu(q, c)"),
    ("y = Sub(x, s)", "y = Sub(s, x)"),
    ("y = Div(x, four)", "y = Div(four, x)"),
    ("y = Pow(x, three)", "y = Mul(x, x)"),
    ("y = ReduceMean <keepdims = 0> (q, last)", "y = ReduceMean <keepdims = 0> (q, first)"),
    ("y = ReduceL2 <keepdims = 0> (x, last)", "y = ReduceL1 <keepdims = 0> (x, last)"),
    ("y = CumSum(x, minus)", "y = CumSum <reverse = 1> (x, minus)"),
    ("y = CumSum(q, minus)", "y = CumSum(q, zero_axis)"),
    ("y = Pad(x, pads)", "y = Pad(x, pads, one0)"),
    ("y = Pad(x, pads)", 'y = Pad <mode = "reflect"> (x, pads)'),
    ("f = Transpose(q) g = Relu(f) y = MatMul(g, r)", "g = Relu(q) y = MatMul(g, r)"),
]  # fmt: skip
"""Nodes that state two functions which resemble each other."""

ALMOST: Sequence[tuple[str, str]] = [
    ("y = Div(x, three)", "y = Mul(x, third)"),  # the third of float32 is none
    ("y = Add(x, zero)", "y = Identity(x)"),  # -0.0 becomes 0.0
    ("y = Reciprocal(x)", "root = Sqrt(x) p = Mul(root, root) y = Reciprocal(p)"),  # roots are of numbers from 0 on
]
"""Nodes that differ less than onnxruntime shows for random inputs."""


SCALARS = ("float zero0 = {0}", "float one0 = {1}", "int64 minus = {-1}", "int64 two0 = {2}", "int64 zero_axis = {0}")


def model(nodes: str) -> onnx.ModelProto:
    """A model of these nodes."""
    words = nodes.replace("(", " ").replace(")", " ").replace(",", " ").split()
    head = ", ".join(f"float[{', '.join(map(str, shape))}] {name}" for name, shape in SHAPES.items() if name in words)
    known = [
        f"{kind}[{len(each)}] {name} = {{{', '.join(map(str, each))}}}"
        for kind, table in (("float", CONSTANTS), ("int64", INTEGERS))
        for name, each in table.items()
    ]
    used = [each for each in (*known, *SCALARS) if each.split(" =")[0].split()[-1] in words]
    held = f"<{', '.join(used)}>" if used else ""
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]> agraph ({head}) => (float y) {held} {{ {nodes} }}'
    )


def compared(one: str, two: str) -> tuple[str, bool]:
    """The verdict, and whether onnxruntime gives nearly the same for random inputs."""
    models = model(one), model(two)
    rng = np.random.default_rng(7)
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    feeds = [{each.name: values[each.name] for each in proto.graph.input} for proto in models]
    first, second = (run_in_onnxruntime(proto, each) for proto, each in zip(models, feeds, strict=True))
    graphs = [graph_of(proto, each) for proto, each in zip(models, feeds, strict=True)]
    near = first.shape == second.shape and np.allclose(first, second, rtol=1e-4, atol=1e-5)
    return dg.equivalent(*graphs).verdict, bool(near)


@pytest.mark.parametrize("row", EQUAL, ids=lambda row: row[0])
def test_one_function_is_proven_whatever_states_it(row: Sequence[str]) -> None:
    assert [compared(row[0], nodes) for nodes in row[1:]] == [("proven", True)] * (len(row) - 1)


@pytest.mark.parametrize(("one", "two"), OTHERS)
def test_functions_that_resemble_each_other_are_not_proven(one: str, two: str) -> None:
    verdict, near = compared(one, two)
    assert verdict != "proven"
    assert not near


@pytest.mark.parametrize(("one", "two"), ALMOST)
def test_functions_that_differ_by_little_are_not_proven(one: str, two: str) -> None:
    assert compared(one, two)[0] == "not proven"


def test_a_difference_is_not_claimed_where_operators_that_both_programs_do_may_be_equal() -> None:
    """x³ as power and as product: both programs do both, and give them in another order."""
    nodes = "p = Pow(x, three) c = Mul(x, x) d = Mul(c, x)"
    assert compared(f"{nodes} y = Concat <axis = 0> (p, d)", f"{nodes} y = Concat <axis = 0> (d, p)") == ("not proven", True)


def test_equations() -> None:
    assert einsum_equation("ab,bc", [2, 2]) == einsum_equation("a b, b z -> a z", [2, 2]) == "ab,bc->ac"
    assert einsum_equation("...i,...i->...", [3, 2]) == "abc,bc->ab"
    assert einsum_equation("ba,bc->ca", [2, 2]) != einsum_equation("ba,bc->ac", [2, 2])
    assert einsum_equation("ij,jk->ik", [2, 3]) is None
    assert einsum_equation("aB", [2]) is None
