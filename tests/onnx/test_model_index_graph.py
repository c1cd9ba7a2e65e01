"""Models as graphs of problems: each kind of node, sizes that are stated, and what the graphs compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque, Work
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView, TransposeView
from dmlgather.onnx.model.index_graph import index_graph
from tests.onnx.following import ran, with_outputs
from tests.onnx.graph_runs import run_graph
from tests.onnx.modelling import parsed
from tests.onnx.random_chains import fix_bounds
from tests.onnx.random_models import random_model
from tests.onnx.test_backend_judged import assert_same, by_onnxruntime


def read(text: str, **inputs: Any) -> IndexGraph:
    return index_graph(parsed(text), inputs)


def works(graph: IndexGraph) -> list[str]:
    """What each step is: the name of the problem, of the arithmetic, of the operator."""
    return [_name(step.work) for step in graph.steps]


def _name(work: Work) -> str:
    if isinstance(work, Opaque):
        return f"{work.operator}!"
    if isinstance(work, Elementwise):
        return work.operator
    return work.name if isinstance(work, Problem) else "concatenation"


@settings(max_examples=40)
@given(seed=st.integers(0, 2**63))
def test_graphs_of_random_models_compute_what_onnxruntime_does(seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    fix_bounds(model, feeds)
    assert_same(run_graph(index_graph(model, feeds), feeds, model), by_onnxruntime(model, feeds))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Gather <axis = 1> (x, i)", ["Gather"]),
        ("j = Neg(i) y = Gather(x, j)", ["negative", "Gather"]),
        ("e = Reshape(x, flat) y = GatherND(e, n)", ["reshape", "GatherND"]),
        ("u = Unsqueeze(x, zero) y = Squeeze(u, zero)", ["reshape", "reshape"]),
        ("y = Flatten <axis = -1> (x)", []),
        ("y = Flatten <axis = 0> (x)", ["reshape"]),
        ("y = Transpose(x)", ["transpose"]),
        ("y = Transpose <perm = [0, 1]> (x)", []),
        ("s = Constant <value_ints = [2, 1, 4]> () y = Expand(x, s)", ["expand"]),
        ("s = Shape(x) y = ConstantOfShape(s)", []),
        ("r = Range(lone, three, lone) y = Add(r, i)", ["add"]),
        ("f = Cast <to = 1> (three) o = Cast <to = 1> (lone) y = Range(o, f, o)", []),
        ("f = Cast <to = 1> (three) o = Div(f, f) h = Div(o, f) y = Range(o, f, h)", ["onnx.range!"]),
        ("y = Concat <axis = -1> (x, x)", ["concatenation"]),
        ("y = Concat <axis = 0> (x)", []),
        ("y, z = Split <axis = 1> (x)", ["slice"]),
        ("p = Constant <value_ints = [1, 3]> () z, y = Split <axis = 1> (x, p)", ["slice"]),
        ("y = Slice(x, zero, flat)", ["Slice"]),
        ("s = Shape(x) e = Slice(s, zero, one) y = Slice(x, zero, e)", ["Slice"]),
        ("y = Slice(x, zero, k)", ["onnx.slice!"]),
        ("y = Identity(x)", []),
        ("y = Dropout(x)", []),
        ("y, m = Dropout(x)", ["onnx.dropout!"]),
        ("y = Cast <to = 1> (x)", []),
        ("y = Cast <to = 11> (x)", ["onnx.cast!"]),
        ("y = Cast <to = 6> (i)", ["cast"]),
        ("y = CastLike(i, k)", []),
        ("y = Cast <to = 9> (i)", ["cast"]),
        ("l = Less(i, k) y = Where(l, i, k)", ["less", "where"]),
        ("y = Less(x, x)", ["onnx.less!"]),
        ("y = Clip(i, lone)", ["maximum"]),
        ("y = Clip(i, , lone)", ["minimum"]),
        ("y = Clip(i, lone, lone)", ["maximum", "minimum"]),
        ("y = Clip(i)", []),
        ("y = Max(i, k, one)", ["maximum", "maximum"]),
        ("y = Min(i)", []),
        ("y = Mod(i, one)", ["remainder"]),
        ("y = Mod <fmod = 1> (i, one)", ["onnx.mod!"]),
        ("y = Div(i, one)", ["onnx.div!"]),
        ("y = Add(x, x)", ["onnx.add!"]),
        ("b = Cast <to = 9> (i) e = Not(b) d = Xor(b, e) y = And(e, d)", ["cast", "not", "not_equal", "and"]),
        ("t = Tile(i, two) y = Gather(x, t)", ["reshape", "expand", "reshape", "Gather"]),
        ("y = Where(c, x, x)", ["where"]),
        ("h = CumSum(i, lone) y = Gather(x, h)", ["onnx.cumsum!", "Gather"]),
        ("s = Shape(x) f = Cast <to = 1> (s) h = Sqrt(f) w = Cast <to = 7> (h) y = Reshape(x, flat)", ["reshape"]),
    ],
)
def test_what_becomes_of_a_node(nodes: str, expected: list[str]) -> None:
    text = f"""m (float[2,4] x, int64[1] i, int64[1] k, int64[1,1] n, bool[2,1] c) => (float[a,b] y)
    <int64[1] zero = {{0}}, int64[1] flat = {{-1}},
    int64[1] one = {{1}}, int64[1] two = {{2}}, int64 lone = {{1}}, int64 three = {{2000}}> {{ {nodes} }}"""
    graph = index_graph(parsed(text), {"y": (1, 4)} if "onnx.slice!" in expected else {})
    assert works(graph) == expected


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 18, 21])
def test_splits_of_every_version(opset: int) -> None:
    """Equal parts, a smaller last one from opset 18 on, and stated sizes as an attribute or an input."""
    model = parsed("m (float[7,2] x) => (float[a,2] p, float[b,2] q) { p, q = Split <axis = 0> (x) }")
    model.opset_import[0].version = opset
    if opset < 13:
        model.graph.node[0].attribute.append(helper.make_attribute("split", [3, 4]))
    elif opset < 18:
        model.graph.node[0].input.append("sizes")
        model.graph.initializer.append(helper.make_tensor("sizes", TensorProto.INT64, [2], [3, 4]))
    else:
        model.graph.node[0].attribute.append(helper.make_attribute("num_outputs", 2))
    graph = index_graph(model)
    assert [tensor.shape[0] for tensor in (graph.types[name] for name in graph.outputs)] == ([4, 3] if opset >= 18 else [3, 4])
    assert all(isinstance(step.work, SliceView) for step in graph.steps)
    feeds = {"x": np.arange(14, dtype=np.float32).reshape(7, 2)}
    assert_same(run_graph(graph, feeds, model), by_onnxruntime(model, feeds))


def test_sizes_are_stated_by_name_by_shape_or_by_array() -> None:
    text = "m (float[N,M] x, int64[K] i) => (float[K,M] y) { y = Gather(x, i) }"
    by_name = read(text, N=5, M=2, K=3)
    assert by_name.types["y"] == TensorType((3, 2), np.dtype("float32"))
    shaped = read(text, x=(5, 2), i=[3])
    mixed = read(text, x=np.zeros((5, 2), np.float32), K=3)
    typed = read(text, x=TensorType((5, 2), np.dtype("float32")), i=(3,), N=5)
    assert by_name == shaped == mixed == typed
    assert read("m (float[?,2] x) => (float[a,b] y) { y = Transpose(x) }", **{"x[0]": 5}).types["x"].shape == (5, 2)


@pytest.mark.parametrize(
    ("inputs", "kind", "facts"),
    [
        ({}, ValueError, "('x' is float[N,M], 'i' is int64[K]), but a graph of indices has numbers only: state them by"),
        ({"N": 1, "M": 2}, ValueError, "('i' is int64[K]), but a graph of indices has numbers only: state them by"),
        ({"N": 1.5}, TypeError, "inputs['N'] is 1.5 of type float, expected an integer"),
        ({"x": 3}, TypeError, "inputs['x'] is 3, expected a shape, such as (1, 128), or a TensorType"),
        ({"x": (3, -2)}, ValueError, "inputs['x'] is [3, -2], expected sizes of 0 or more"),
        ({"N": -3}, ValueError, "inputs['N'] is -3, expected a size of 0 or more"),
        ({"z": (3,)}, ValueError, "inputs names 'z', which the model does not have: its inputs are 'x', 'i' and its sizes 'K'"),
        ({"x": (3, 2, 1)}, ValueError, "input 'x' has shape [3, 2, 1], but the model declares float[N,M]: rank 3, not 2"),
        ({"N": 3, "x": (4, 2)}, ValueError, "but the model declares float[N,M]: N is 3 in inputs['N'], but 4 in dimension 0"),
        ({"x": np.zeros((4, 2))}, TypeError, "input 'x' has type double, but the model declares float[N,M]; convert with"),
        ({"N": 4, "M": 2, "K": 3, "y": (3, 9)}, ValueError, "inputs says that 'y' is ?[3,9], but it is float[3,2]"),
    ],
)  # fmt: skip
def test_sizes_that_are_not_stated_or_do_not_fit(inputs: Mapping[str, Any], kind: type[Exception], facts: str) -> None:
    with pytest.raises(kind) as caught:
        read("m (float[N,M] x, int64[K] i) => (float[K,M] y) { y = Gather(x, i) }", **inputs)
    assert facts in str(caught.value)


def test_what_is_no_model_or_breaks_a_rule_is_refused() -> None:
    with pytest.raises(TypeError, match=r"model is of type bytes, expected an onnx.ModelProto, as onnx.load"):
        index_graph(b"")  # type: ignore[arg-type] # wrong on purpose
    with pytest.raises(ValueError, match="Gather node that gives 'y': axis is 2, but data has rank 2"):
        read("m (float[2,3] x, int64[1] i) => (float[a,b] y) { y = Gather <axis = 2> (x, i) }")
    with pytest.raises(ValueError, match=r"Concat node that gives 'y': input 1 is float32 .3, 3. and input 0 is float32 .2, 3."):
        read("m (float[2,3] x, float[3,3] z) => (float[a,b] y) { y = Concat <axis = 1> (x, z) }")
    with pytest.raises(ValueError, match="Transpose node that gives 'y': input 'z' is defined nowhere"):
        read("m (float[2,3] x) => (float[a,b] y) { y = Transpose(z) }")
    with pytest.raises(ValueError, match="Exp node that gives 'y': output 'y' is also an input, an initializer, or given by"):
        read("m (float[2,3] x) => (float[a,b] y) { y = Neg(x) y = Exp(x) }")
    with pytest.raises(ValueError, match="Neg node that gives 'x': output 'x' is also an input"):
        read("m (float[2,3] x, float[2,3] z) => (float[a,b] x) { x = Neg(z) }")
    with pytest.raises(TypeError, match="input 's' is a sequence, but a graph of indices has tensors only"):
        read("m (seq(float[2]) s, int64 i) => (float[2] y) { y = SequenceAt(s, i) }")
    with pytest.raises(TypeError, match="SequenceConstruct node that gives 's': 's' is a sequence, but a graph of indices has"):
        read("m (float[2] x, int64 i) => (float[2] y) { s = SequenceConstruct(x, x) y = SequenceAt(s, i) }")


def test_a_type_that_only_a_run_shows_is_stated() -> None:
    text = "m (float[4] x) => (int64[a,b] y) { n = NonZero(x) y = Transpose(n) }"
    with pytest.raises(
        ValueError, match=r"NonZero node that gives 'n': the type of 'n' is not known, only int64\[1,.*\]: its sizes"
    ):
        read(text)
    assert works(read(text, n=(1, 3))) == ["onnx.nonzero!", "transpose"]
    assert read(text, n=(1, 3)).types["y"].shape == (3, 1)
    other = """<ir_version: 9, opset_import: ["" : 17, "com.example" : 1]>
    m (float[N,4] x) => (float[N,4] y) <float[N,4] h> { h = com.example.Thing(x) y = Neg(h) }"""
    graph = read(other, N=3)
    assert works(graph) == ["com.example.thing!", "onnx.neg!"]
    assert graph.types["h"].shape == (3, 4)


def test_initializers_are_constants_unless_callers_may_replace_them() -> None:
    text = """<ir_version: {}, opset_import: ["" : 13]>
    m (float[3,2] x, int64[2] i) => (float[2,2] y) <int64[2] i = {{2, 0}}> {{ y = Gather(x, i) }}"""
    replaceable, fixed = read(text.format(8)), read(text.format(3))
    assert (replaceable.inputs, dict(replaceable.constants)) == (("x", "i"), {})
    assert fixed.inputs == ("x",)
    assert fixed.constants["i"].tolist() == [2, 0]


def test_calls_are_inlined() -> None:
    graph = read("""<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
    m (float[1,3] x, int64[2] i) => (float[a,b] y) { t = local.drop (x) y = Gather(t, i) }
    <domain: "local", opset_import: ["" : 14]> drop (a) => (b) { s = Shape(a) r = Neg(a) b = Transpose(r) }""")
    assert works(graph) == ["onnx.neg!", "transpose", "Gather"]
    assert graph.types[graph.outputs[0]].shape == (2, 1)


BRANCHES = """<ir_version: 8, opset_import: ["" : 13]>
m (float[3,2] x, bool c) => (float[a,b] y) <bool known = {{{known}}}>
{{ y = If ({condition}) <
    then_branch = t () => (float[p,q] r) {{ r = Transpose(x) }},
    else_branch = e () => (float[p,q] r) <int64[1] k = {{1}}> {{ z = Gather(x, k) r = Neg(z) }}
> }}"""


def test_outputs_that_identities_name_are_labelled_so() -> None:
    graph = read("""m (float[3,2] x, int64[2] i) => (float[2,2] y, float[2,2] z, float[3,2] w, float[2,2] h)
    { g = Gather(x, i) y = Identity(g) z = Identity(y) w = Identity(x) h = Neg(g) }""")
    assert graph.outputs == ("g", "g", "x", "h")
    assert [graph.label(name) for name in graph.outputs] == ["y", "y", "x", "h"]


def test_branches() -> None:
    assert works(read(BRANCHES.format(condition="known", known=1))) == ["transpose"]
    taken = read(BRANCHES.format(condition="known", known=0))
    assert works(taken) == ["Gather", "onnx.neg!"]
    assert [array.tolist() for array in taken.constants.values()] == [[1]]
    (step,) = read(BRANCHES.format(condition="c", known=0), y=(1, 2)).steps
    assert (step.inputs, step.outputs) == (("c", "x"), ("y",))
    assert isinstance(step.work, Opaque)
    assert step.work.operator == "onnx.if"


def test_what_floating_point_rounds_is_no_constant() -> None:
    """Exp differs between runtimes; what it decides of a shape is known all the same, and Sqrt is exact."""
    graph = read("""m (float[4] x) => (float[a] y, float e, float r) <float two = {2.0}>
    { y = Identity(x) e = Exp(two) r = Sqrt(two) }""")
    assert works(graph) == ["onnx.exp!"]
    assert graph.constants[graph.outputs[2]].tobytes() == np.sqrt(np.float32(2)).tobytes()


def test_large_constants_are_computed_where_every_runtime_gives_the_same_bits() -> None:
    text = """m (float[3000] x) => (float[a] y) <int64[1] size = {{3000}}>
    {{ o = ConstantOfShape <value = float[1] {{3.0}}> (size) h = ConstantOfShape <value = float[1] {{0.1}}> (size) {} }}"""
    shape = TensorType((3000,), np.dtype("float32"))
    graph = read(text.format("c = Concat <axis = 0> (o, h) w = Mul(c, c) y = Add(x, x)"))
    assert works(graph) == ["onnx.add!"]
    weights = np.arange(3000, dtype=np.float32)
    model = parsed("m (float[3000] x) => (float[3000] y) { d = Div(w, v) s = Sqrt(d) e = Exp(s) y = Mul(x, e) }")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (("w", weights), ("v", weights + 1)))
    graph = index_graph(model)
    assert works(graph) == ["onnx.exp!", "onnx.mul!"]
    (constant,) = graph.constants.values()
    assert constant.tobytes() == np.sqrt(weights / (weights + 1)).tobytes()
    assert graph.types["y"] == shape


def test_external_data_that_is_not_loaded_is_named() -> None:
    model = parsed("m (int64[2] i) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}> { y = Gather(w, i) }")
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    tensor.ClearField("float_data")
    with pytest.raises(ValueError, match=r"initializer 'w': its data lies outside the model .* onnx.load"):
        index_graph(model)


def test_steps_that_no_output_needs_are_left_out() -> None:
    graph = read("""m (float[3,2] x, int64[2] i) => (float[2,2] y)
    { dead = Transpose(x) n = NonZero(dead) y = Gather(x, i) }""")
    assert works(graph) == ["Gather"]


def test_a_gather_that_can_raise_is_kept_with_what_it_reads() -> None:
    graph = read("""m (float[3,2] x, int64[2] i) => (float[2,2] y) <int64[2] known = {0, -3}>
    { r = Relu(x) j = Neg(i) dead = Gather <axis = 1> (r, j) n = NonZero(dead) never = Gather(r, known) y = Gather(x, i) }""")
    assert works(graph) == ["onnx.relu!", "negative", "Gather", "Gather"]


def test_works_are_the_shared_ones() -> None:
    graph = read("""m (float[3,2] x, int64[3] i) => (float[a] y)
    <int64[1] flat = {-1}, int64[3] s = {2, 2, 3}>
    { j = Neg(i) t = Transpose(x)
      g = Gather <axis = 1> (t, j) e = Expand(g, s) r = Reshape(e, flat) y = Concat <axis = 0> (r, r) }""")
    assert [type(step.work).__name__ for step in graph.steps] == [
        *(cls.__name__ for cls in (Elementwise, TransposeView)),
        "Gather",
        *(cls.__name__ for cls in (ExpandView, ReshapeView, Concatenation)),
    ]


LOOPS = {
    "a condition that an input decides": (
        "Z",
        "float[c,d] m",
        "n = Constant <value = float {9}> () q = ReduceMax <keepdims = 0> (m) go = Less(q, n)",
    ),
    "iterations that are counted": (
        "Z, R",
        "float[c,d] m, float[e,f] r",
        "n = Constant <value = int64 {1}> () go = Less(i, n) r = Neg(k)",
    ),
}


@pytest.mark.parametrize(("results", "given", "condition"), LOOPS.values(), ids=LOOPS)
def test_a_loop_that_keeps_sizes(results: str, given: str, condition: str) -> None:
    model = parsed(f"""agraph (float[2,4] x) => (float y) <int64 three = {{3}}, bool yes = {{1}}> {{
      {results} = Loop(three, yes, x) <body =
        b (int64 i, bool o, float[a,b] k) => (bool go, {given}) {{ m = Add(k, k) {condition} }}>
      y = Transpose({results[-1]})
    }}""")
    graph, shown = index_graph(model), with_outputs(model)
    assert works(graph) == ["onnx.loop!", "transpose"]
    runs = ran(shown, {"x": np.arange(8, dtype=np.float32).reshape(2, 4) - 3})
    assert runs is not None
    assert {name: graph.types[name].shape for name in runs} == {name: each.shape for name, each in runs.items()}
