"""Walking a model: where nodes are, which opset is in force, what is known of their inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dmlgather.onnx_checking.checked_model import CheckedTensor, Verdict
from tests.onnx_checking.modelling import by_place, checked, findings_of, only, parsed

NESTED = """
agraph (float[N,128] X, bool c, int64 n, int64 five) => (float[M,128] Z) <int64[1] s = {1}, int64[1] e = {3}> {
  [outer] Z = If(c) <
    then_branch = t () => (float[a,128] o) { o = Slice(X, s, e) },
    else_branch = f () => (float[a,128] o2) {
      mine = Constant<value_ints = [2]>()
      [inner] o2 = If(c) <
        then_branch = tt () => (float[a,128] o3) { [named] o3 = Slice(X, s, mine) },
        else_branch = ff () => (float[a,128] o4) {
          zero = Constant<value_ints = [0]>() fives = Unsqueeze(five, zero) o4 = Slice(X, s, e) }> }> }"""


def test_places_are_paths_through_the_graphs(tmp_path: Path) -> None:
    found = by_place(checked(tmp_path, NESTED))
    assert list(found) == [
        "outer.then_branch/Slice_0",
        "outer.else_branch/inner.then_branch/named",
        "outer.else_branch/inner.else_branch/Slice_2",
    ]
    named = found["outer.else_branch/inner.then_branch/named"]
    assert (named.graph, named.name, named.index) == ("outer.else_branch/inner.then_branch", "named", 0)
    assert (found["outer.then_branch/Slice_0"].name, found["outer.else_branch/inner.else_branch/Slice_2"].index) == ("", 2)


def test_inner_graphs_see_outer_types_and_constants(tmp_path: Path) -> None:
    found = by_place(checked(tmp_path, NESTED))
    data, starts, ends = found["outer.else_branch/inner.then_branch/named"].inputs
    assert data == CheckedTensor(role="data", name="X", type="float", shape=("N", 128))
    assert starts == CheckedTensor(role="starts", name="s", type="int64", shape=(1,), values=(1,))
    assert ends == CheckedTensor(role="ends", name="mine", type="int64", shape=(1,), values=(2,))
    assert {node.verdict for node in found.values()} == {Verdict.TAKEN}


def test_names_of_inner_graphs_hide_outer_ones(tmp_path: Path) -> None:
    """A loop's carried value has the name of an outer constant, and is none."""
    text = """
    agraph (float[9,4] X, int64 n, bool c, int64[1] first) => (int64[1] last, float[k,p,4] Z)
    <int64[1] e = {3}, int64[1] s = {0}> {
      last, Z = Loop(n, c, first) <body = b (int64 i, bool cc, int64[1] e) => (bool co, int64[1] next, float[p,4] z) {
        co = Identity(cc) next = Identity(e) z = Slice(X, s, e) }> }"""
    model = checked(tmp_path, text)
    node = only(model)
    assert (node.place, node.verdict, node.missing) == ("Loop_0.body/Slice_2", Verdict.UNKNOWN, ("ends",))
    (finding,) = findings_of(model, node.place)
    assert (finding.code, finding.severity, finding.path) == ("EXP302", "warning", "ends")
    assert "'e', another value in each iteration of the Loop" in finding.got


def test_bodies_of_scans_are_walked(tmp_path: Path) -> None:
    text = """
    agraph (float[3] first, float[T,3] X) => (float[3] last, float[T,2] Z) <int64[1] s = {0}, int64[1] e = {2}> {
      last, Z = Scan<num_scan_inputs = 1, body = b (float[3] state, float[3] x) => (float[3] next, float[2] z) {
        next = Add(state, x) z = Slice(next, s, e) }>(first, X) }"""
    node = only(checked(tmp_path, text))
    assert (node.place, node.verdict, node.inputs[0].shape) == ("Scan_0.body/Slice_1", Verdict.TAKEN, (3,))


def test_graphs_of_any_operator_are_walked(tmp_path: Path) -> None:
    """A list of graphs in an attribute of an operator that ONNX does not know."""
    model = parsed("agraph (float[4] X, int64 i) => (float[a] Z) { Z = Identity(X) }")
    inner = parsed("agraph (float[4] A) => (float B) { B = Gather(A, i) }").graph
    node = helper.make_node("Switch", [], ["w"], name="s", domain="com.example")
    node.attribute.append(helper.make_attribute("cases", [inner, inner]))
    model.graph.node.append(node)
    found = checked(tmp_path, model)
    assert [node.place for node in found.nodes] == ["s.cases[0]/Gather_0", "s.cases[1]/Gather_0"]
    assert found.others == {"Identity": 1, "com.example.Switch": 1}
    assert {node.verdict for node in found.nodes} == {Verdict.TAKEN}


def test_places_are_unique_although_names_are_not(tmp_path: Path) -> None:
    text = "agraph (float[4] X, int64 i) => (float Z) { [g] Y = Gather(X, i) [g] Z = Gather(X, i) }"
    assert list(by_place(checked(tmp_path, text))) == ["g", "g#1"]


def test_names_cannot_break_lines(tmp_path: Path) -> None:
    model = parsed("agraph (float[4] X, int64 i) => (float Z) { Z = Gather(X, i) }")
    model.graph.node[0].name = "a\nb\x1b[31m"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N\n"
    found = checked(tmp_path, model)
    node = only(found)
    assert (node.name, node.place, node.inputs[0].shape) == ("a\nb\x1b[31m", "a\\nb\\x1b[31m", ("N\n",))
    assert node.provided == ("N\\n >= 1",)
    model.graph.node[0].input.append("more\n")
    (finding,) = checked(tmp_path, model).findings
    assert "more\\n" in str(finding)
    assert "\n" not in str(finding)


def test_other_domains_are_counted(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.example" : 1]>
    agraph (float[4] X, int64 i) => (float Z) {
      A = com.example.Gather(X, i) B = com.example.Slice(X) C = com.example.Slice(X) Z = Add(X, X) }"""
    found = checked(tmp_path, text)
    assert found.nodes == ()
    assert found.others == {"Add": 1, "com.example.Gather": 1, "com.example.Slice": 2}
    assert found.opsets == {"": 17, "ai.onnx.ml": 3, "com.example": 1}


def test_both_names_of_the_domain(tmp_path: Path) -> None:
    model = parsed("agraph (float[4] X, int64 i) => (float Z) { Z = Gather(X, i) }")
    model.graph.node[0].domain = "ai.onnx"
    model.opset_import[0].domain = "ai.onnx"
    found = checked(tmp_path, model)
    assert (only(found).opset, found.opsets) == (17, {"": 17})


GATHERED = "agraph (float[4] X, int64[1] i) => (float[1] Z) {{ Z = {}(X, i) }}"
BY_ATTRIBUTES = "agraph (float[4,9] X) => (float[1,3] Z) { Z = Slice<axes = [1,0], starts = [2,-1], ends = [5,1000]>(X) }"
BY_INPUTS = """agraph (float[4] X) => (float[a] Z) <int64[1] s = {3}, int64[1] e = {0}, int64[1] t = {-2}> {
    Z = Slice(X, s, e, "", t) }"""

VERSIONS = {
    GATHERED.format("Gather"): {1: 1, 10: 1, 11: 11, 12: 11, 13: 13, 22: 13},
    GATHERED.format("GatherElements"): {11: 11, 12: 11, 13: 13, 22: 13},
    GATHERED.format("GatherND"): {11: 11, 12: 12, 13: 13, 22: 13},
    BY_ATTRIBUTES: {1: 1, 9: 1},
    BY_INPUTS: {10: 10, 11: 11, 12: 11, 13: 13, 22: 13},
}
"""The changelog of ONNX's operators: the version in force by opset, for models of one node."""

SLICED = {
    BY_ATTRIBUTES: {"data": None, "axes": (1, 0), "starts": (2, -1), "ends": (5, 1000)},
    BY_INPUTS: {"data": None, "starts": (3,), "ends": (0,), "steps": (-2,)},
}
"""The bounds of slices."""


@pytest.mark.parametrize(
    ("text", "opset", "version"), [(text, *pair) for text, pairs in VERSIONS.items() for pair in pairs.items()]
)
def test_the_version_in_force(tmp_path: Path, text: str, opset: int, version: int) -> None:
    node = only(checked(tmp_path, f'<ir_version: 7, opset_import: ["" : {opset}]> {text}'))
    assert (node.opset, node.version, node.verdict) == (opset, version, Verdict.TAKEN)
    assert {tensor.role: tensor.values for tensor in node.inputs} == SLICED.get(text, {"data": None, "indices": None})
    assert text != BY_ATTRIBUTES or node.outputs[0].shape == (1, 3)


def test_an_opset_that_lacks_the_operator(tmp_path: Path) -> None:
    text = '<ir_version: 7, opset_import: ["" : 10]> agraph (float[4] X, int64[1] i) => (float Z) { Z = GatherND(X, i) }'
    model = checked(tmp_path, text)
    node = only(model)
    assert (node.opset, node.version, node.verdict) == (10, None, Verdict.REFUSED)
    (finding,) = model.findings
    assert (finding.code, finding.severity) == ("EXP101", "error")
    assert "opset is 10, but GatherND exists from opset 11 on" in finding.got


CONSTANTS = {
    "a Constant": ("", "e = Constant<value_ints = [3]>()"),
    "a Constant of a tensor": ("", "e = Constant<value = int64[1] {3}>()"),
    "Unsqueeze": ("int64 v = {3}, int64[1] z = {0}", "e = Unsqueeze(v, z)"),
    "Identity": ("int64[1] v = {3}", "e = Identity(v)"),
    "Cast": ("int32[1] v = {3}", "e = Cast<to = 7>(v)"),
    "Reshape": ("int64 v = {3}, int64[1] one = {1}", "e = Reshape(v, one)"),
    "Squeeze and Transpose": ("int64[1,1] v = {3}, int64[1] z = {0}", "t = Transpose(v) e = Squeeze(t, z)"),
    "Shape": ("float[3] v = {1,2,3}", "e = Shape(v)"),
    "Shape of something computed": ("", "w = Tanh(Y) e = Shape<start = 1, end = 2>(w)"),
}


@pytest.mark.parametrize(("initializers", "nodes"), CONSTANTS.values(), ids=CONSTANTS)
def test_constants_are_carried_to_the_bounds(tmp_path: Path, initializers: str, nodes: str) -> None:
    listed = f"<int64[1] s = {{1}}{', ' if initializers else ''}{initializers}>"
    text = f"agraph (float[9] X, float[2,3] Y) => (float[k] Z) {listed} {{ {nodes} Z = Slice(X, s, e) }}"
    node = only(checked(tmp_path, text))
    assert (node.inputs[2].values, node.verdict) == ((3,), Verdict.TAKEN)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [("", "an input of the graph"), ("a = Add(n, n) e = Identity(a)", "computed from 'n', an input of the graph")],
)
def test_bounds_that_are_not_known(tmp_path: Path, nodes: str, says: str) -> None:
    name = "n" if nodes else "e"
    text = f"agraph (float[9] X, int64[1] {name}) => (float[k] Z) <int64[1] s = {{1}}> {{ {nodes} Z = Slice(X, s, e) }}"
    model = checked(tmp_path, text)
    assert only(model).verdict is Verdict.UNKNOWN
    (finding,) = model.findings
    assert (finding.code, finding.path) == ("EXP302", "ends")
    assert says in finding.got


def _slice(end: onnx.TensorProto | None = None) -> onnx.ModelProto:
    model = parsed("agraph (float[9] X) => (float[k] Z) <int64[1] s = {1}> { Z = Slice(X, s, e) }")
    if end is not None:
        model.graph.initializer.append(end)
    return model


def test_external_bounds_are_not_read(tmp_path: Path) -> None:
    end = numpy_helper.from_array(np.array([3]), "e")
    end.ClearField("raw_data")
    end.data_location = TensorProto.EXTERNAL
    end.external_data.add(key="location", value="weights.bin")  # there is no such file
    model = checked(tmp_path, _slice(end))
    assert only(model).missing == ("ends",)
    assert "stored outside the model, in weights.bin" in model.findings[0].got
    assert model.findings[0].remedy.startswith("store 'e' in the model file, not as external data")
    end.ClearField("external_data")
    end.data_location, end.raw_data = TensorProto.DEFAULT, np.array([3]).tobytes()
    assert not only(checked(tmp_path, _slice(end))).missing


def test_sparse_bounds(tmp_path: Path) -> None:
    model = _slice()
    sparse = model.graph.sparse_initializer.add(dims=[1])
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([3]), "e"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([0])))
    found = checked(tmp_path, model)
    assert only(found).inputs[2] == CheckedTensor(role="ends", name="e", type="int64", shape=(1,))
    assert "a sparse constant" in found.findings[0].got


@pytest.mark.parametrize(("ir_version", "verdict"), [(3, Verdict.TAKEN), (4, Verdict.UNKNOWN)])
def test_initializers_that_callers_may_replace(tmp_path: Path, ir_version: int, verdict: Verdict) -> None:
    """Up to IR version 3 every initializer had to be an input as well, and was a constant all the same."""
    model = _slice(numpy_helper.from_array(np.array([3]), "e"))
    model.graph.input.append(helper.make_tensor_value_info("e", TensorProto.INT64, [1]))
    model.ir_version = ir_version
    assert only(checked(tmp_path, model)).verdict is verdict


def test_a_damaged_constant(tmp_path: Path) -> None:
    end = TensorProto(name="e", data_type=TensorProto.INT64, dims=[1], raw_data=b"123")
    model = checked(tmp_path, _slice(end))
    assert only(model).verdict is Verdict.UNKNOWN
    assert "a damaged constant" in model.findings[0].got


def test_weights_are_left_out_of_inference_and_yet_typed(tmp_path: Path) -> None:
    model = parsed("agraph (int64[5] i) => (float[k] Z) { Y = Gather(W, i) Z = Identity(Y) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((64, 40), np.float32), "W"))
    node = only(checked(tmp_path, model))
    assert (node.inputs[0].shape, node.outputs[0].shape, node.verdict) == ((64, 40), (5, 40), Verdict.TAKEN)
