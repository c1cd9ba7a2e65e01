"""What identifies an operator outside the family: what must not, and what must, make two of them differ."""

from __future__ import annotations

import pytest

from dmlgather.dialects.index_graph import Opaque
from dmlgather.onnx.model.index_graph import index_graph
from tests.onnx.modelling import parsed

MODEL = """<ir_version: 9, opset_import: ["" : {opset}, "com.example" : 1]>
m (float[2,3] x, float[2,3] z, bool c) => (float[2,3] y) <float[2,3] y1> {{ {nodes} }}"""


def choice(then: str, otherwise: str) -> str:
    """An If whose branches give p by these nodes."""
    branch = "{} = b () => (float[2,3] p) {{ {} }}"
    return f"y = If (c) <{branch.format('then_branch', then)}, {branch.format('else_branch', otherwise)}>"


def opaque(nodes: str, opset: int = 17) -> Opaque:
    """The work of the last step."""
    work = index_graph(parsed(MODEL.format(opset=opset, nodes=nodes))).steps[-1].work
    assert isinstance(work, Opaque)
    return work


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("y = Softmax(x)", "y = Softmax <axis = 1> (x)"),
        ("y = LeakyRelu(x)", "y = LeakyRelu <alpha = 0.01> (x)"),
        ("y = Gelu <approximate = \"none\"> (x)", "y = Gelu (x)"),
        ("[named] y = Selu <alpha = 1.5, gamma = 2.0> (x)", "y = Selu <gamma = 2.0, alpha = 1.5> (x)"),
        ("y = com.example.Thing <k = 1, t = [2, 3]> (x)", "y = com.example.Thing <t = [2, 3], k = 1> (x)"),
        (choice("q = Neg(x) p = Exp(q)", "p = Abs(z)"), choice("[named] other = Neg(x) p = Exp(other)", "p = Abs(z)")),
    ],
)  # fmt: skip
def test_equal(one: str, two: str) -> None:
    opset = 20 if "Gelu" in one else 17
    assert opaque(one, opset) == opaque(two, opset)
    assert hash(opaque(one, opset)) == hash(opaque(two, opset))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("y = Softmax(x)", "y = Softmax <axis = 0> (x)"),
        ("y = Softmax(x)", "y = LogSoftmax(x)"),
        ("y = LeakyRelu(x)", "y = LeakyRelu <alpha = 0.02> (x)"),
        ("y = LeakyRelu <alpha = 0.0> (x)", "y = LeakyRelu <alpha = -0.0> (x)"),
        ("y = com.example.Softmax(x)", "y = Softmax(x)"),
        ("y = com.example.Thing <t = float[1] {1.0}> (x)", "y = com.example.Thing <t = float[1] {2.0}> (x)"),
        ("y = com.example.Thing(x, , z)", "y = com.example.Thing(x, z)"),
        ("y, = com.example.Thing(x)", "y, y1 = com.example.Thing(x)"),
        ("y = RandomNormalLike(x)", "y = RandomNormalLike(x)"),
        ("y = RandomNormalLike <seed = 1.0> (x)", "y = RandomNormalLike <seed = 1.0> (x)"),
        (choice("p = Add(x, z)", "p = Neg(z)"), choice("p = Add(x, z)", "p = Neg(x)")),
        (choice("p = Neg(x)", "p = Abs(x)"), choice("p = Abs(x)", "p = Neg(x)")),
        (choice("p = RandomUniformLike(x)", "p = Abs(x)"), choice("p = RandomUniformLike(x)", "p = Abs(x)")),
    ],
)  # fmt: skip
def test_different(one: str, two: str) -> None:
    assert opaque(one) != opaque(two)


def test_versions_count_where_they_mean_something_else() -> None:
    assert opaque("y = Softmax <axis = 0> (x)", 11) != opaque("y = Softmax <axis = 0> (x)", 13)
    assert opaque("y = Softmax <axis = 1> (x)", 11) != opaque("y = Softmax(x)", 13)
    assert opaque("y = LogSoftmax <axis = 0> (x)", 11) != opaque("y = LogSoftmax <axis = 0> (x)", 13)
    assert opaque("y = LogSoftmax(x)", 14) == opaque("y = LogSoftmax(x)", 21)
    assert opaque("y = Tan(x)", 13) == opaque("y = Tan(x)", 22) == Opaque("onnx.tan")
    assert opaque("y = Add(x, z)", 7) == opaque("y = Add(x, z)", 14) == Opaque("onnx.add")


def test_elements_that_are_read_as_others_have_the_name_of_all_dialects() -> None:
    text = MODEL.replace("float[2,3] y)", "int32[2,3] y)").format(opset=26, nodes="y = BitCast <to = 6> (x)")
    graph = index_graph(parsed(text))
    assert graph.steps[-1].work == Opaque("bitcast", (("to", "int32"),))


def test_graphs_that_call_functions_hold_what_these_do() -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
    m (float[2,3] x, bool c) => (float[2,3] y) {{ {choice("p = local.f(x)", "p = Neg(x)")} }}
    <domain: "local", opset_import: ["" : 17]> f (a) => (b) {{ b = Exp(a) }}"""
    exp, log, again = (index_graph(parsed(text.replace("Exp", name))).steps[0].work for name in ("Exp", "Log", "Exp"))
    assert exp == again != log


def test_what_graphs_inside_read_from_around_them_are_inputs() -> None:
    nodes = choice("p = Sub(z, x)", "p = Neg(x)")
    (step,) = index_graph(parsed(MODEL.format(opset=17, nodes=nodes))).steps
    assert step.inputs == ("c", "z", "x")
