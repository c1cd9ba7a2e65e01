"""Values that follow from constants and from shapes, of which some sizes may not be known. Judge: onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dmlgather.onnx_checking.checked_model import Verdict
from tests.onnx_checking.following import known_values
from tests.onnx_checking.modelling import checked, parsed
from tests.onnx_checking.sessions import run, session

CONSTANTS = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64 first = {0}, int64[1] far = {-9}"
BOUNDS = {
    "Slice of a shape": "s = Shape(X) e = Slice(s, zero, one)",
    "Slice backwards": "s = Shape(X) e = Slice(s, zero, far, zero, last)",
    "Gather of a shape": "s = Shape(X) g = Gather(s, first) e = Unsqueeze(g, zero)",
    "Gather of one index": "s = Shape(X) e = Gather(s, zero)",
    "Gather from the end": "s = Shape<start = 0, end = 1>(X) e = Gather(s, last)",
    "Concat": "s = Shape(X) g = Gather(s, zero) c = Concat<axis = 0>(one, g, one) e = Slice(c, one, two)",
    "Concat beside what is not known": "s = Shape(X) c = Concat<axis = -1>(s, one) e = Slice(c, zero, one)",
    "Cast, Reshape and Transpose": (
        "s = Shape(X) d = Cast<to = 6>(s) f = Cast<to = 7>(d) r = Reshape(f, pair) t = Transpose(r) u = Reshape(t, two) "
        "e = Slice(u, zero, one)"
    ),
}
TEXT = "agraph (float[8,N] X) => (float[a,b] Z, int64[c] e) <{constants}> {{ {nodes} Z = Slice(X, zero, e, zero) }}"


@pytest.mark.parametrize("nodes", BOUNDS.values(), ids=BOUNDS)
def test_bounds_that_follow_from_shapes(tmp_path: Path, nodes: str) -> None:
    constants = f"{CONSTANTS}, int64[1] two = {{2}}, int64[2] pair = {{1, 2}}"
    model = parsed(TEXT.format(constants=constants, nodes=nodes))
    found = checked(tmp_path, model).nodes[-1]
    expected = run(model, {"X": np.zeros((8, 5), np.float32)})
    assert found.inputs[2].values == tuple(expected["e"])
    assert found.verdict is Verdict.TAKEN


@pytest.mark.parametrize("limits", ["", "<min = 6.0>", "<max = 3.0>", "<max = 7.5, min = 6.0>"])
def test_limits_that_are_attributes(tmp_path: Path, limits: str) -> None:
    """Before opset 11, Clip has them there."""
    text = f"agraph (float[8] X, float[N] V) => (int64[1] e) {{ s = Shape(V) f = Cast<to = 1>(s) c = Clip{limits}(f) "
    model = parsed(f'<ir_version: 5, opset_import: ["" : 10]> {text} e = Cast<to = 7>(c) }}')
    known, sizes = known_values(model, tmp_path)
    by_onnxruntime = session(model)
    for number in range(1, 10):
        (expected,) = by_onnxruntime.run(["e"], {"X": np.zeros(8, np.float32), "V": np.zeros(number, np.float32)})
        elements = known["e"].elements
        assert isinstance(elements, np.ndarray) or "max = 7.5" in limits
        if isinstance(elements, np.ndarray):
            assert [sizes.at(each, {"N": number}) for each in elements.tolist()] == expected.tolist()


ELEMENTS = {
    "Mul by a half": "f = Cast<to = 1>(s) m = Mul(f, halves) g = Floor(m) e = Cast<to = 7>(g)",
    "Sub, Min and Ceil of halves": (
        "f = Cast<to = 1>(s) m = Mul(f, halves) n = Sub(m, halves) g = Min(n, m) h = Ceil(g) e = Cast<to = 7>(h)"
    ),
    "Relu": "m = Sub(s, five) f = Cast<to = 1>(m) r = Relu(f) e = Cast<to = 7>(r)",
    "Pow": "e = Pow(s, two)",
    "Pow of others": "p = Shape(s) q = Concat<axis = 0>(p, p) e = Pow(q, s)",
    "Range of names": "n = Gather(s, first) m = Add(n, scalar) e = Range(n, m, unit)",
    "ReduceSum along an axis": "r = Reshape(s, pair) e = ReduceSum<keepdims = 0>(r, zero)",
    "ReduceSum along none": "e = ReduceSum<noop_with_empty_axes = 1>(s)",
    "Cast to a bool": "m = Add(s, five) b = Cast<to = 9>(m) e = Cast<to = 7>(b)",
    "Cast to unsigned": "b = Cast<to = 13>(s) e = Cast<to = 7>(b)",
    "Cast to a small type": "b = Cast<to = 3>(s) e = Cast<to = 7>(b)",
    "Tile": "e = Tile(s, two)",
}


@pytest.mark.parametrize("nodes", ELEMENTS.values(), ids=ELEMENTS)
def test_elements_of_which_some_are_names(tmp_path: Path, nodes: str) -> None:
    """The sizes of X are a name and a number."""
    constants = (
        f"{CONSTANTS}, int64[1] two = {{2}}, int64[2] pair = {{1, 2}}, int64[1] five = {{5}}, int64 scalar = {{3}}, "
        "int64 unit = {1}, float[2] halves = {0.5, 0.5}"
    )
    model = parsed(f"agraph (float[N,5] X) => (int64[c] e) <{constants}> {{ s = Shape(X) {nodes} }}")
    known, sizes = known_values(model, tmp_path)
    elements = known["e"].elements
    by_onnxruntime = session(model)
    for number in range(1, 10):
        (expected,) = by_onnxruntime.run(["e"], {"X": np.zeros((number, 5), np.float32)})
        if isinstance(elements, np.ndarray):
            assert [sizes.at(each, {"N": number}) for each in elements.tolist()] == expected.tolist()
    assert isinstance(elements, np.ndarray) is (nodes not in (ELEMENTS["Pow of others"], ELEMENTS["Cast to a small type"]))


UNKNOWN = {
    "an index that is not known": (
        "s = Shape(X) t = Slice(s, one, two) e = Gather(s, t)",
        "computed when the model runs, by Gather",
    ),
    "an index outside": ("s = Shape(X) e = Gather(s, two)", "computed by Gather, which is ill-formed: indices[0] is 2"),
    "inputs of two types": ("f = Cast<to = 6>(one) e = Concat<axis = 0>(one, f)", "computed by Concat, which is ill-formed"),
    "too many": ("e = Gather<axis = 0>(big, rows)", "a constant of 1600 elements"),
    "an input": ("w = Cast<to = 7>(X) e = Reshape(w, last)", "computed from 'X', an input of the graph"),
}


@pytest.mark.parametrize(("nodes", "says"), UNKNOWN.values(), ids=UNKNOWN)
def test_bounds_that_do_not(tmp_path: Path, nodes: str, says: str) -> None:
    big = ", ".join(["1"] * 400)
    constants = f"{CONSTANTS}, int64[1] two = {{2}}, int64[1,400] big = {{{big}}}, int64[4] rows = {{0, 0, 0, 0}}"
    model = checked(tmp_path, TEXT.format(constants=constants, nodes=nodes))
    (finding,) = [finding for finding in model.findings if finding.path == "ends"]
    assert finding.code == "EXP302"
    assert says in finding.got
