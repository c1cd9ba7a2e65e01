"""What the backend does not run, and what the messages say of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from dmlgather.onnx import Backend


def refusal(model: Any, kind: type[Exception]) -> str:
    assert not Backend.is_compatible(model)
    with pytest.raises(kind) as caught:
        Backend.prepare(model)
    return str(caught.value)


def test_every_foreign_operator_is_named() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13, "com.x" : 1]>
    m (float[3] x, int64[1] i) => (float[1] y)
    {
      a = Relu(x)
      b = com.x.Gather(a)
      c = Relu(b)
      d = Relu(c)
      y = Gather(d, i)
    }""")
    model.graph.node[0].name, model.graph.node[1].name = "act", "lookup"
    message = refusal(model, NotImplementedError)
    assert "Relu of ai.onnx (nodes 'act', that of 'c', that of 'd')" in message
    assert "Gather of com.x (node 'lookup')" in message
    assert (
        "It runs ONNX's own Gather, GatherElements, GatherND, Slice, DepthToSpace, SpaceToDepth, Identity, Constant, Shape"
        in message
    )


def test_operators_inside_functions_and_around_subgraphs_are_named() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13, "local" : 1]>
    m (float[3] x, bool b) => (float[3] y, float[3] z)
    {
      y = local.f(x)
      z = If (b) <
        then_branch = g1 () => (float[3] p) { p = Identity(x) },
        else_branch = g2 () => (float[3] q) { q = Identity(x) }
      >
    }
    <domain: "local", opset_import: ["" : 13]> f (a) => (c) { c = Abs(a) }""")
    message = refusal(model, NotImplementedError)
    assert "Abs of ai.onnx (node that of 'c')" in message
    assert "If of ai.onnx (node that of 'z')" in message


def test_many_nodes_of_one_operator_are_counted() -> None:
    nodes = [helper.make_node("Relu", ["x"], [f"y{number}"], name=f"n{number}") for number in range(30)]
    message = refusal(model_of(nodes, outputs=["y0"]), NotImplementedError)
    assert "'n19' and 10 more)" in message


def test_arithmetic_on_floating_point_numbers_is_named() -> None:
    """Also where the numbers come from a Cast, or from a constant; a selection and a conversion move and convert them."""
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13]>
    m (float[3] x, int64[3] i, bool[3] b) => (float[3] y, bool[3] z) <int64[1] shape = {3}>
    {
      f = Cast <to = 1> (i)
      c = ConstantOfShape(shape)
      p = Less(f, x)
      q = Neg(c)
      j = Add(i, i)
      y = Where(b, f, x)
      z = And(p, b)
    }""")
    message = refusal(model, NotImplementedError)
    assert message.startswith(
        "this backend does not run: Less of ai.onnx (node that of 'p'); Neg of ai.onnx (node that of 'q'). "
    )
    assert message.endswith(" on tensors, and computes with integers and bools alone")


def test_what_only_a_run_shows_is_refused_when_it_runs() -> None:
    """onnxruntime refuses a divisor of 0, so that this backend takes known ones alone."""
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> m (int64[3] x, int64[3] d) => (int64[3] y) { y = Mod(x, d) }""")
    prepared = Backend.prepare(model)
    with pytest.raises(NotImplementedError, match="this backend does not run: the Mod node that gives 'y' on int64 "):
        prepared.run([np.arange(3), np.ones(3, np.int64)])


def model_of(nodes: list[Any], outputs: list[str], initializers: list[TensorProto] | None = None) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in outputs],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def test_values_that_are_no_tensors_are_named() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [3])
    optional = helper.make_value_info("o", helper.make_optional_type_proto(sequence.type))
    graph = helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "g", [sequence, optional], [sequence])
    graph.output[0].name = "t"
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, numpy_helper.from_array(np.zeros(1, np.int64), "p"), [4]))
    message = refusal(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), NotImplementedError)
    for fact in ("input 's' (sequence)", "input 'o' (optional)", "output 't' (sequence)", "initializer 'w' (sparse tensor)"):
        assert fact in message


def test_data_that_is_not_loaded_is_named() -> None:
    weights = numpy_helper.from_array(np.ones(3, np.float32), "weights")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    constant = TensorProto()
    constant.CopyFrom(weights)
    constant.name = "inner"
    nodes = [helper.make_node("Constant", [], ["c"], value=constant), helper.make_node("Identity", ["weights"], ["y"])]
    message = refusal(model_of(nodes, ["y"], [weights]), ValueError)
    assert message.startswith("data outside the model is not loaded: 'weights' (weights.bin), 'inner' (weights.bin)")


def test_what_the_checker_says_becomes_one_line() -> None:
    shapeless = model_of([helper.make_node("Identity", ["x"], ["y"])], ["y"])
    shapeless.graph.output[0].type.tensor_type.ClearField("shape")
    assert "output 'y' states no shape, not even a rank: onnx.shape_inference" in refusal(shapeless, ValueError)
    unsorted = parse_model("""
    <ir_version: 8, opset_import: ["" : 13]>
    m (float[3] x) => (float[3] y) { y = Identity(t) t = Identity(x) }""")
    message = refusal(unsorted, ValueError)
    assert message.startswith("the model is not valid: Nodes in a graph must be topologically sorted")
    assert "\n" not in message
    old = parse_model('<ir_version: 8, opset_import: ["" : 13]> m (float[3] x) => (float[3] y) { y = Squeeze <axes = [0]> (x) }')
    assert "Unrecognized attribute: axes for operator Squeeze" in refusal(old, ValueError)


FUNCTION = """
<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
m (float[3] x) => (float[3] y) {{ y = local.f0(x) }}
{functions}"""
BODY = '<domain: "local", opset_import: ["" : {opset}, "local" : 1]> f{number} (a) => (c) {{ b = {step}(a) c = {step}(b) }}'


def test_functions_that_cannot_be_inlined_are_refused() -> None:
    circle = BODY.format(opset=13, number=0, step="local.f0")
    message = refusal(parse_model(FUNCTION.format(functions=circle)), ValueError)
    assert "local functions that call each other in a circle: local:f0 by local:f0" in message
    older = BODY.format(opset=11, number=0, step="Transpose")
    message = refusal(parse_model(FUNCTION.format(functions=older)), ValueError)
    assert "FunctionOp imports version 11 whereas model imports version 13" in message
    steps = [*(f"local.f{number + 1}" for number in range(20)), "Identity"]
    doubling = [BODY.format(opset=13, number=number, step=step) for number, step in enumerate(steps)]
    message = refusal(parse_model(FUNCTION.format(functions=" ".join(doubling))), ValueError)
    assert "more than 1000000 nodes when the functions that it calls are inlined" in message


def test_what_a_node_states_is_checked_before_it_runs() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], name="text", to=TensorProto.STRING)
    assert refusal(model_of([node], ["y"]), TypeError).startswith("Cast node 'text': Cast to string is not supported")
    damaged = numpy_helper.from_array(np.ones(3, np.float32), "w")
    damaged.dims[0] = 4
    message = refusal(model_of([helper.make_node("Identity", ["w"], ["y"])], ["y"], [damaged]), ValueError)
    assert message.startswith("initializer 'w': ")


def test_something_else_than_a_model() -> None:
    assert "model is of type str, expected an onnx.ModelProto, as onnx.load(path) gives" in refusal("model.onnx", TypeError)
    with pytest.raises(TypeError, match=r"node is of type str, expected an onnx\.NodeProto"):
        Backend.run_node("Gather", [])  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match=r"Relu of ai\.onnx \(node that of 'y'\)"):
        Backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [np.ones(1)])
    with pytest.raises(ValueError, match=r"the node is not valid: .*Gather"):
        Backend.run_node(helper.make_node("Gather", ["x"], ["y"]), [np.ones(1)])
    with pytest.raises(TypeError, match="device is of type int, expected a name: 'CPU', 'CUDA' or 'CUDA:N'"):
        Backend.prepare(model_of([helper.make_node("Identity", ["x"], ["y"])], ["y"]), 0)  # type: ignore[arg-type]
