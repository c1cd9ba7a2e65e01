"""Names, opsets and branches of graphs inside nodes and of functions, as ONNX Runtime and ONNX's checker take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.parser import parse_model

import dmlgather as dg
from tests.onnx.modelling import parsed

X = np.array([10, 11, 12], np.float32)


def run(model: onnx.ModelProto, **inputs: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def number(name: str, value: int) -> Any:
    return numpy_helper.from_array(np.array([value], np.int64), name)


def branched(inner: str, *, known: bool) -> onnx.ModelProto:
    """y = x[k] in both branches; k is 1 around them, and the first branch has a constant 0 named `inner`."""
    one, many = helper.make_tensor_value_info("t", 1, [1]), helper.make_tensor_value_info("u", 1, [1])
    then = helper.make_graph([helper.make_node("Gather", ["x", inner], ["t"])], "then", [], [one], [number(inner, 0)])
    otherwise = helper.make_graph([helper.make_node("Gather", ["x", "k"], ["u"])], "else", [], [many])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)
    inputs = [helper.make_tensor_value_info("x", 1, [3])]
    constants = [number("k", 1)]
    if known:
        constants.append(numpy_helper.from_array(np.array(True), "c"))
    else:
        inputs.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, [1])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("known", [True, False])
def test_a_name_that_hides_one_around_it_is_refused(*, known: bool) -> None:
    """ONNX Runtime reads the value around the branch where its condition is known; ONNX says that there is no such model."""
    hidden, clear = branched("k", known=known), branched("own", known=known)
    if known:
        assert [run(each, x=X).tolist() for each in (hidden, clear)] == [[11], [10]]
    with pytest.raises(
        ValueError, match="If node that gives 'y': then_branch gives 'k' again, which is the name of a value around"
    ):
        dg.equivalent(hidden, clear)
    assert dg.equivalent(clear, clear)


@pytest.mark.parametrize(
    "text",
    [
        "u = If(c)<then_branch = g () => (float[3] x) { x = Neg(v) }, else_branch = h () => (float[3] w) { w = Abs(v) }>",
        "u = If(c)<then_branch = g () => (float[3] r) { r = If(c)<then_branch = i () => (float[3] v) { v = Neg(x) }, "
        "else_branch = j () => (float[3] w) { w = Abs(x) }> }, else_branch = h () => (float[3] s) { s = Abs(x) }>",
    ],
)
def test_results_that_hide_names_are_refused_as_by_the_checker(text: str) -> None:
    model = parsed(f"agraph (bool c, float[3] x) => (float[3] u) {{ v = Relu(x) {text} }}")
    with pytest.raises(onnx.checker.ValidationError, match=r"SSA|already been used"):
        onnx.checker.check_model(model, full_check=True)
    with pytest.raises(ValueError, match=r"gives '[xv]' again, which is the name of a value around it: rename it there"):
        dg.onnx.index_graph(model)


def test_branches_may_share_names_with_each_other_and_with_the_result() -> None:
    model = parsed(
        "agraph (bool c, float[3] x) => (float[3] u) { u = If(c)<then_branch = g () => (float[3] u) { u = Neg(x) }, "
        "else_branch = h () => (float[3] u) { u = Abs(x) }> }"
    )
    assert run(model, c=np.array(True), x=X).tolist() == [-10, -11, -12]
    assert dg.equivalent(model, model)


def test_a_function_of_another_opset_is_refused_where_its_operator_differs() -> None:
    """ONNX Runtime takes Softmax of the model's opset for it."""
    head = '<ir_version: 9, opset_import: ["" : 13, "l" : 1]> agraph (float[2,3,4] x) => (float[2,3,4] y) { y = l.f(x) }'
    softmax = parse_model(f'{head} <domain: "l", opset_import: ["" : 12]> f (a) => (b) {{ b = Softmax(a) }}')
    with pytest.raises(onnx.checker.ValidationError, match="version 12"):
        onnx.checker.check_model(softmax)
    with pytest.raises(
        ValueError, match="its function imports opset 12, in which Softmax is another operator than in the model's 13"
    ):
        dg.onnx.index_graph(softmax)
    sigmoid = parse_model(f'{head} <domain: "l", opset_import: ["" : 12]> f (a) => (b) {{ b = Sin(a) }}')
    plain = parse_model('<ir_version: 9, opset_import: ["" : 13]> agraph (float[2,3,4] x) => (float[2,3,4] y) { y = Sin(x) }')
    assert dg.equivalent(sigmoid, plain, assume=())


def test_one_branch_with_known_elements_and_one_without() -> None:
    model = parsed(
        "a (bool c, float[2] x) => (float[2] u) { u = If(c)<then_branch = g () => (float[2] t) { t = Relu(x) }, "
        "else_branch = h () => (float[2] t) { k = Constant<value_ints=[2]>() t = ConstantOfShape(k) }> }"
    )
    assert run(model, c=np.array(False), x=X[:2]).tolist() == [0, 0]
    assert dg.equivalent(model, model)


def test_sparse_initializers_are_named() -> None:
    dense = parsed("a (float[3] x) => (float[3] y) { y = Add(x, i) }")
    values = numpy_helper.from_array(np.array([2], np.float32), "i")
    dense.graph.sparse_initializer.append(helper.make_sparse_tensor(values, number("", 1), [3]))
    assert run(dense, x=X).tolist() == [10, 13, 12]
    with pytest.raises(ValueError, match="input 'i' is a sparse initializer, which is not read: state it as a dense one"):
        dg.onnx.index_graph(dense)
