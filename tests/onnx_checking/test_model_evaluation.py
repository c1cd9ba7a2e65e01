"""Nodes whose inputs are all known are computed by ONNX's reference evaluator, within limits. Judge: onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from dmlgather.onnx_checking.reading import inference_process
from dmlgather.onnx_checking.reading.inference_server import NODE
from dmlgather.onnx_checking.sizes.values import Unknown
from tests.onnx_checking.following import contents_of, known_values, ran, with_outputs
from tests.onnx_checking.modelling import parsed

CONSTANTS = (
    "int64[3] a = {-7, 0, 5}, int64[3] b = {2, -3, -2}, int64[2,3] m = {1, 2, 3, 4, 5, 6}, float[4] f = {-1.5, 0.5, 2.5, 3.0}, "
    "bool[3] c = {1, 0, 1}, int64[1] one = {1}, int64 zero = {0}, int64 nine = {9}, int64 two = {2}, int64[2] pair = {2, 3}, "
    "int64[1] last = {-1}, int64[2] pads = {1, 2}, int64[1,3] wide = {4, 5, 6}, float quarter = {0.25}, int64[0] none = {}"
)

COMPUTED = {
    "Add": "Z = Add(a, b)",
    "Div": "Z = Div(a, b)",
    "Mod": "Z = Mod(a, b)",
    "fmod": "Z = Mod<fmod = 1>(a, b)",
    "Pow": "Z = Pow(a, two)",
    "Max": "Z = Max(a, b, two)",
    "Clip": "Z = Clip(a, zero, two)",
    "Sign": "Z = Sign(a)",
    "Where": "Z = Where(c, a, b)",
    "Less": "Z = Less(a, b)",
    "LessOrEqual": "Z = LessOrEqual(a, b)",
    "Xor": "d = Equal(a, zero) Z = Xor(c, d)",
    "Round": "Z = Round(f)",
    "Floor": "Z = Floor(f)",
    "Cast": "Z = Cast<to = 7>(f)",
    "Sqrt": "n = Cast<to = 1>(nine) Z = Sqrt(n)",
    "Range": "Z = Range(zero, nine, two)",
    "Range of floats": "n = Cast<to = 1>(two) o = Cast<to = 1>(zero) Z = Range(o, n, quarter)",
    "ConstantOfShape": "Z = ConstantOfShape<value = int64[1] {7}>(pair)",
    "Expand": "Z = Expand(wide, pair)",
    "Tile": "Z = Tile(wide, pair)",
    "Pad": "Z = Pad(a, pads)",
    "NonZero": "Z = NonZero(a)",
    "Compress": "Z = Compress<axis = 0>(a, c)",
    "Unique": "Z, i, j, k = Unique(a)",
    "CumSum": "Z = CumSum(a, zero)",
    "TopK": "Z, i = TopK(f, one)",
    "ArgMax": "Z = ArgMax<axis = 1>(m)",
    "ReduceSum": "Z = ReduceSum(m, one)",
    "ReduceProd": "Z = ReduceProd(m)",
    "ReduceMean": "Z = ReduceMean(f)",
    "ReduceMin": "Z = ReduceMin<axes = [0]>(m)",
    "Split": "Z, Y = Split<axis = 1>(m, pads)",
    "GatherND": "i = Unsqueeze(one, last) Z = GatherND(m, i)",
    "ScatterElements": "Z = ScatterElements(a, one, last)",
    "ScatterND": "i = Unsqueeze(one, last) Z = ScatterND(a, i, last)",
    "Flatten": "Z = Flatten<axis = 0>(m)",
    "Trilu": "Z = Trilu(m)",
    "MatMul": "t = Transpose(m) Z = MatMul(m, t)",
    "Size": "Z = Size(m)",
    "what is empty": "Z = Range(nine, zero, two)",
}


@pytest.mark.parametrize("nodes", COMPUTED.values(), ids=COMPUTED)
def test_values(tmp_path: Path, nodes: str) -> None:
    model = with_outputs(parsed(f"agraph () => () <{CONSTANTS}> {{ {nodes} }}"))
    known, _ = known_values(model, tmp_path)
    got = ran(model, {})
    assert got is not None
    for name, array in got.items():
        elements = known[name].elements
        assert not isinstance(elements, Unknown)
        assert (elements.dtype, elements.shape, elements.tobytes()) == (array.dtype, array.shape, array.tobytes())


NOT_COMPUTED = {
    "random numbers": ("Z = RandomUniform<shape = [2]>()", "by RandomUniform"),
    "random numbers by their inputs": ("Z = Bernoulli(f)", "by Bernoulli"),
    "another domain's operator": ("Z = com.example.Add(a, b)", "by com.example.Add"),
    "an operator that does not exist": ("Z = Addition(a, b)", "by Addition"),
    "a division by zero": ("Z = Gather<axis = 3>(a, zero)", "which is ill-formed"),
    "elements by the million millions": ("Z = ConstantOfShape(far)", "by ConstantOfShape"),
    "a range of them": ("n = Squeeze(far) o = Squeeze(one) Z = Range(zero, n, o)", "by Range"),
    "an expansion to them": ("Z = Expand(one, far)", "by Expand"),
    "repetitions": ("Z = Tile(one, far)", "by Tile"),
    "paddings": ("p = Concat<axis = 0>(one, far) Z = Pad(one, p)", "by Pad"),
    "a window": ("n = Squeeze(far) Z = HannWindow(n)", "by HannWindow"),
    "one hot of them": ("n = Squeeze(far) Z = OneHot(a, n, pair)", "by OneHot"),
    "shapes without end": ("Z = ConstantOfShape(many)", "by ConstantOfShape"),
}


@pytest.mark.parametrize(("nodes", "says"), NOT_COMPUTED.values(), ids=NOT_COMPUTED)
def test_a_value_is_not_computed_and_the_reason_is_said(tmp_path: Path, nodes: str, says: str) -> None:
    constants = f"{CONSTANTS}, int64[1] far = {{1099511627776}}, int64[70] many = {{{', '.join(['1'] * 70)}}}"
    head = '<ir_version: 9, opset_import: ["" : 17, "com.example" : 1]>'
    known, _ = known_values(parsed(f"{head} agraph () => () <{constants}> {{ {nodes} }}"), tmp_path)
    elements = known["Z"].elements
    assert isinstance(elements, Unknown)
    assert says in elements.reason


def test_a_process_that_ends_at_a_node_costs_its_value(tmp_path: Path) -> None:
    model = parsed(f"agraph (float[N] X) => () <{CONSTANTS}> {{ Y = CumSum(b, zero) Z = Slice(X, one, Y) }}")
    assert np.array_equal(np.asarray(contents_of(model, tmp_path).nodes[0].inputs[2].elements), [2, -1, -3])
    running = inference_process._running()
    answer = running._answer

    def ends(request: bytes) -> tuple[bytes, float, bytes]:
        if request[:1] == NODE:
            running._process.kill()
            running._process.wait()
            raise EOFError
        return answer(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_answer", ends)
        assert isinstance(contents_of(model, tmp_path).nodes[0].inputs[2].elements, Unknown)
    assert not isinstance(contents_of(model, tmp_path).nodes[0].inputs[2].elements, Unknown)


def test_nothing_is_computed_once_the_time_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = inference_process.InferenceLimits(0.0, 2**30)
    monkeypatch.setattr(inference_process.InferenceLimits, "of_file", lambda size: limits)
    known, _ = known_values(parsed(f"agraph () => () <{CONSTANTS}> {{ Y = CumSum(b, zero) Z = Add(a, b) }}"), tmp_path)
    assert isinstance(known["Y"].elements, Unknown)
    assert not isinstance(known["Z"].elements, Unknown), "this needs no other process"


def test_strings_are_not_taken_for_names(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> agraph () => () { Z = Constant<value = string[2] {"N", "M"}>() }'
    )
    known, _ = known_values(model, tmp_path)
    assert isinstance(known["Z"].elements, Unknown)
