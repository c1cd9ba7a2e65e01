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
    <ir_version: 8, opset_import: ["" : 13, "com.x" : 1, "local" : 1]>
    m (float[3] x, int64[1] i, bool b) => (float[1] y)
    {
      a = Relu(x)
      [lookup] c = com.x.Gather(a)
      d = local.f(c)
      z = If (b) <
        then_branch = g1 () => (float[3] p) { p = Identity(x) },
        else_branch = g2 () => (float[3] q) { q = Identity(x) }
      >
      y = Gather(d, i)
    }
    <domain: "local", opset_import: ["" : 13]> f (a) => (c) { c = Abs(a) }""")
    message = refusal(model, NotImplementedError)
    assert message == (
        "this backend runs ONNX's own Gather, GatherElements, GatherND, Slice, DepthToSpace, SpaceToDepth, but not "
        "Relu (Relu node that gives 'a'), com.x.Gather (Gather node 'lookup'), local.f (f node that gives 'd'), "
        "If (If node that gives 'z')"
    )


def model_of(nodes: list[Any], outputs: list[str], initializers: list[TensorProto] | None = None) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]), helper.make_tensor_value_info("i", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in outputs],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def gather(data: str, output: str, **attributes: Any) -> Any:
    return helper.make_node("Gather", [data, "i"], [output], **attributes)


def test_data_that_is_not_loaded_or_damaged_is_named() -> None:
    weights = numpy_helper.from_array(np.ones(3, np.float32), "weights")
    damaged = numpy_helper.from_array(np.ones(3, np.float32), "w")
    damaged.dims[0] = 4
    assert refusal(model_of([gather("w", "y")], ["y"], [damaged]), ValueError).startswith("initializer 'w': ")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    message = refusal(model_of([gather("weights", "y")], ["y"], [weights]), ValueError)
    assert message.startswith("initializer 'weights': its data lies outside the model and is not loaded (weights.bin)")


@pytest.mark.parametrize(
    ("nodes", "outputs", "says"),
    [
        ([gather("t", "y"), gather("x", "t")], ["y"], "no input, dense initializer or earlier node gives its inputs ['t']"),
        ([gather("x", "y"), gather("x", "y")], ["y"], "output 'y' is also an input, an initializer, or given by another node"),
        ([gather("x", "i")], ["i"], "its output 'i' is also an input"),
        ([gather("x", "y")], ["y", "z"], "no node gives the outputs ['z']"),
        ([gather("x", "y", mode="fast")], ["y"], "Gather-13 has no attribute 'mode': it has only axis"),
    ],
)  # fmt: skip
def test_models_that_are_not_valid_are_refused(nodes: list[Any], outputs: list[str], says: str) -> None:
    assert says in refusal(model_of(nodes, outputs), ValueError)


def test_sparse_initializers_are_not_read() -> None:
    model = model_of([gather("w", "y")], ["y"])
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.zeros(1, np.int64), "p"), [4])
    )
    assert "no input, dense initializer or earlier node gives its inputs ['w']" in refusal(model, ValueError)


def test_a_type_that_a_version_does_not_take_is_refused() -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], name="nd")
    with pytest.raises(TypeError, match="GatherND node 'nd': indices has type int32, but GatherND-13 takes int64"):
        Backend.run_node(node, [np.ones(3), np.zeros((1, 1), np.int32)], opset_version=13)


def test_something_else_than_a_model() -> None:
    assert "model is of type str, expected an onnx.ModelProto, as onnx.load(path) gives" in refusal("model.onnx", TypeError)
    with pytest.raises(TypeError, match=r"node is of type str, expected an onnx\.NodeProto"):
        Backend.run_node("Gather", [])  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match=r"but not Relu \(Relu node that gives 'y'\)"):
        Backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [np.ones(1)])
    with pytest.raises(ValueError, match="device is 0, expected 'CPU', 'CUDA'"):
        Backend.prepare(model_of([gather("x", "y")], ["y"]), 0)  # type: ignore[arg-type]
