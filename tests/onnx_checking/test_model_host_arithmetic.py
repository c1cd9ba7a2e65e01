"""Nodes whose results reach only shapes, bounds, axes, repeats, sizes and conditions, and nodes beside them that go elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import Verdict
from tests.onnx_checking.modelling import checked, hosts, only

Case = tuple[str, set[str]]


SHAPE = "s = Shape(x) [a] a = Gather(s, first)"
"""A node a, whose result is the first size of x: what `uses` follow."""

IF = "z = If(c) <then_branch = t () => (u) { u = Neg(x) }, else_branch = e () => (v) { v = Abs(x) }>"
"""What makes c a condition."""

USES: dict[str, Case] = {
    "a shape": ("z = Reshape(x, a)", {"a"}),
    "the data of Reshape": ("z = Reshape(a, s)", set()),
    "repeats": ("z = Tile(x, a)", {"a"}),
    "bounds": ("[cut] z = Slice(x, first, a)", {"a"}),
    "steps": ("[cut] z = Slice(x, first, a, first, a)", {"a"}),
    "data of a Slice that is an output": ("[cut] z = Slice(a, first, first)", set()),
    "axes": ("z = Unsqueeze(x, a)", {"a"}),
    "axes of a reduction": ("z = ReduceMax<noop_with_empty_axes = 1>(x, a)", {"a"}),
    "what a reduction reduces": ("z = ReduceSum(a)", set()),
    "pads, and the value": ("f = Cast<to = 1>(a) z = Pad(x, a, f)", {"a"}),
    "scales": ("f = Cast<to = 1>(a) z = Resize(x, , f)", {"a"}),
    "sizes": ("z = Resize(x, , , a)", {"a"}),
    "a region of interest": ("f = Cast<to = 1>(a) z = Resize(x, f, , s)", {"a"}),
    "parts of a Split": ("z, q = Split(x, a)", {"a"}),
    "k": ("z, q = TopK(x, a)", {"a"}),
    "a depth": ("v = Cast<to = 1>(first) z = OneHot(first, a, v)", {"a"}),
    "indices of a OneHot": ("v = Cast<to = 1>(first) z = OneHot(a, first, v)", set()),
    "a Range": ("z = Range(first, a, first)", {"a"}),
    "a constant's shape": ("z = ConstantOfShape(a)", {"a"}),
    "an axis of CumSum": ("z = CumSum(x, a)", {"a"}),
    "a diagonal": ("z = Trilu(x, a)", {"a"}),
    "a limit of Clip": ("f = Cast<to = 1>(a) z = Clip(x, f)", {"a"}),
    "a length": ("z = DFT(x, a)", {"a"}),
    "an expanded shape": ("z = Expand(x, a)", {"a"}),
    "an output": ("z = Identity(a)", set()),
    "a shape and an output": ("z = Reshape(x, a) y = Identity(a)", set()),
    "a shape and arithmetic on the device": ("f = Cast<to = 1>(a) r = Reshape(x, a) z = Mul(r, f)", set()),
    "arithmetic between": ("one = Add(a, first) two = Concat<axis = 0>(one, s) z = Reshape(x, two)", {"a"}),
    "arithmetic that leads elsewhere too": ("one = Add(a, first) r = Reshape(x, one) z = Add(one, first)", set()),
    "indices of a Gather": ("[g] z = Gather(x, a)", set()),
    "another node between": ("[b] b = Slice(a, first, first) [c] c = Gather(s, b) z = Reshape(x, c)", {"a", "b", "c"}),
    "a branch to an output between": ("[b] b = Slice(s, first, first) [c] y = Gather(s, b) z = Reshape(x, a)", {"a"}),
    "a condition": (f"c = Cast<to = 9>(a) {IF}", {"a"}),
    "nothing": ("z = Neg(x)", set()),
    "nothing in the end": ("t = Neg(a) z = Neg(x)", set()),
    "a shape, and nothing": ("t = Neg(a) z = Reshape(x, a)", {"a"}),
    "its shape alone": ("t = Shape(a) z = Reshape(x, t)", set()),
    "a shape, and its shape": ("u = Shape(a) t = Concat<axis = 0>(a, u) z = Reshape(x, t)", {"a"}),
    "the type of a cast": ("t = CastLike(x, a) z = Reshape(t, a)", {"a"}),
    "one of two results": ("p, q = Split<num_outputs = 2>(a) z = Reshape(x, p)", {"a"}),
    "two results, one an output": ("p, q = Split<num_outputs = 2>(a) y = Neg(q) z = Reshape(x, p)", set()),
    "fields of an operator of onnxruntime": ("z = com.microsoft.ExpandDims(x, a)", {"a"}),
    "an operator that no one knows": ("z = elsewhere.Reshape(x, a)", set()),
    "arithmetic that no one knows": ("t = elsewhere.Half(a) z = Reshape(x, t)", {"a"}),
    "a graph that no one knows what for": ("z = elsewhere.If(a) <body = b () => (v) { v = Neg(x) }>", set()),
}


@pytest.mark.parametrize("case", USES)
def test_a_node_is_the_hosts_by_the_use_of_its_result(tmp_path: Path, case: str) -> None:
    text, expected = USES[case]
    opsets = '"" : 18, "com.microsoft" : 1, "elsewhere" : 1'
    made = "(float[M] z, int64[K] y)" if " y = " in text else "(float[M] z)"
    graph = f"g (float[N, M] x) => {made} <int64[1] first = {{0}}> {{ {SHAPE} {text} }}"
    assert hosts(tmp_path, f"<ir_version: 9, opset_import: [{opsets}]> {graph}") == expected


SOURCES: dict[str, Case] = {
    "few elements of an input": ("int64[4] v", {"a"}),
    "as many as a constant may have": ("int64[1024] v", {"a"}),
    "many elements of an input": ("int64[1025] v", set()),
    "elements that no one has counted": ("int64[K] v", set()),
    "an input of any rank": ("int64[] v", set()),
}


@pytest.mark.parametrize("case", SOURCES)
def test_whether_a_host_holds_what_is_read(tmp_path: Path, case: str) -> None:
    declared, expected = SOURCES[case]
    text = f"g (float[N] x, {declared}) => (float[M] z) <int64[1] first = {{0}}> {{ [a] a = Gather(v, first) z = Reshape(x, a) }}"
    assert hosts(tmp_path, text) == expected


BULK: dict[str, Case] = {
    "a slice of an image": ("[a] a = Slice(x, first, ten)", set()),
    "one value of an image": ("m = ReduceMax<keepdims = 1>(x) f = Reshape(m, one) [a] a = Gather(f, first)", {"a"}),
    "a constant table": ("t = Constant<value = float[4] {1, 2, 3, 4}>() [a] a = Gather(t, first)", {"a"}),
    "few of many that shapes give": ("s = Shape(x) r = Expand(s, many) [a] a = Gather(r, first)", set()),
    "what is cut from a value of unknown size": ("n = NonZero(x) t = Transpose(n) [a] a = Slice(t, first, one)", set()),
    "arithmetic on an image after": ("s = Shape(x) [a] b = Gather(s, first) f = Cast<to = 1>(b) a = Add(x, f)", set()),
    "shapes of unknown rank": ("r = Reshape(x, y) s = Shape(r) [a] a = Slice(s, first, ten)", {"a"}),
}


@pytest.mark.parametrize("case", BULK)
def test_work_on_many_elements_is_the_devices(tmp_path: Path, case: str) -> None:
    text, expected = BULK[case]
    model = f"""g (float[N, 640] x, int64[K] y) => (float z)
        <int64[1] first = {{0}}, int64[1] one = {{1}}, int64[1] ten = {{10}}, int64[2] many = {{600, 2}}>
        {{ {text} top = ReduceMax<keepdims = 0>(a) c = Cast<to = 9>(top) {IF} }}"""
    assert hosts(tmp_path, model) == expected


WRONG = {
    "EXP101": "s = Shape(x) [a] a = Gather<axis = 3>(s, first) z = Reshape(x, a)",
    "EXP111": "s = Shape(x) [a] a = Gather(s, far) z = Reshape(x, a)",
    "EXP304": "[a] a = Gather(s, first) z = Reshape(x, a)",
}


@pytest.mark.parametrize("code", WRONG)
def test_a_node_that_is_wrong_anywhere_is_refused(tmp_path: Path, code: str) -> None:
    text = f"g (float[N] x) => (float[M] z) <int64[1] first = {{0}}, int64[1] far = {{7}}> {{ {WRONG[code]} }}"
    found = checked(tmp_path, text)
    assert only(found).verdict is Verdict.REFUSED
    assert code in {finding.code for finding in found.findings}


def test_reasons_against_it_do_not_count(tmp_path: Path) -> None:
    """Level 1_0 moves no INT64, and no bounds are known: both matter to the device alone."""
    nodes = "s = Shape(x) [a] a = Slice(s, first, e) z = Reshape(x, a)"
    text = f"g (float[N] x, int64[1] e) => (float[M] z) <int64[1] first = {{0}}> {{ {nodes} }}"
    found = checked(tmp_path, text, "1_0")
    assert (only(found).verdict, found.findings) == (Verdict.HOST, ())
    judged = check_model(Path(found.file), "1_0", include_host=True)
    assert [finding.code for finding in judged.findings] == ["EXP302"]
