"""Random models, and functions with defaults, through the backend and through onnxruntime, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto
from onnx.parser import parse_model

from dmlgather.onnx import Backend
from tests.onnx.random_models import random_model


def by_onnxruntime(model: ModelProto, feeds: dict[str, np.ndarray[Any, Any]]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def assert_same(ours: Any, theirs: Any) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())


@pytest.mark.slow
@settings(max_examples=250)
@given(seed=st.integers(0, 2**63))
def test_random_models(seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    prepared = Backend.prepare(model)
    expected = by_onnxruntime(model, feeds)
    before = {name: array.tobytes() for name, array in feeds.items()}
    assert_same(prepared.run(feeds), expected)
    assert_same(prepared.run(list(feeds.values())), expected)
    assert {name: array.tobytes() for name, array in feeds.items()} == before


@settings(max_examples=50)
@given(seed=st.integers(0, 2**63))
def test_random_models_on_the_reference(seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    assert_same(Backend.run_model(model, feeds, "REFERENCE"), by_onnxruntime(model, feeds))


FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
m (float[3,4] x, int64[2] i) => (float[a,b] y, float[c,d] z) {{ {calls} }}
<domain: "local", opset_import: ["" : 13]> pick <ax: int = 1> (a, b) => (c) {{ c = Gather <axis: int = @ax> (a, b) }}
<domain: "local", opset_import: ["" : 13]> turn <p: ints = [0, 1]> (a) => (c) {{ c = Transpose <perm: ints = @p> (a) }}
<domain: "local", opset_import: ["" : 13, "local" : 1]>
defaults <z: int = 1> (a, b) => (c) {{ c = local.lowest <ax: int = @z> (a, b) }}
<domain: "local", opset_import: ["" : 13, "local" : 1]> hands <z> (a, b) => (c) {{ c = local.pick <ax: int = @z> (a, b) }}
<domain: "local", opset_import: ["" : 13, "local" : 1]> hands_1 (a, b) => (c) {{ c = local.hands (a, b) }}
<domain: "local", opset_import: ["" : 13]> lowest <ax: int = 0> (a, b) => (c) {{ c = Gather <axis: int = @ax> (a, b) }}"""


@pytest.mark.parametrize(
    "calls",
    [
        "y = local.pick(x, i) z = local.pick<ax = 0>(x, i)",
        "y = local.turn(x) z = local.turn<p = [1, 0]>(x)",
        "y = local.defaults(x, i) z = local.defaults<z = 0>(x, i)",
        "y = local.lowest(x, i) z = local.lowest<ax = 1>(x, i)",
        "y = local.hands(x, i) z = local.hands<z = 0>(x, i)",
        "y = local.hands_1(x, i) z = local.hands<z = 0>(x, i)",
    ],
)
def test_attributes_of_functions_that_calls_leave_out(calls: str) -> None:
    """A function's own default, and where a reference has none, that of what refers."""
    model = parse_model(FUNCTIONS.format(calls=calls))
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "i": np.array([0, -1])}
    stated = model.SerializeToString()
    assert_same(Backend.run_model(model, feeds), by_onnxruntime(model, feeds))
    assert model.SerializeToString() == stated
