"""Stale sizes: which nodes fail, judged by what onnxruntime itself says when it runs the model on the CPU. It compares the sizes
of outputs of the graph as the DirectML provider compares those of every node, and warns where that ends in 0x80070057.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dmlgather.onnx_checking.checked_model import ProviderVerdict
from tests.onnx_checking.modelling import parsed
from tests.onnx_checking.provider.asking import asked, codes, only
from tests.onnx_checking.sessions import OFF, session

V = ProviderVerdict
WARNING = "Expected shape from model of"

ROWS = "z = Gather<axis = 1>(x, i)"
BEHIND = "a = Relu(x) z = Gather<axis = 1>(a, i)"

MODELS: dict[str, tuple[str, str, str, bool]] = {
    "true": ("float[4,3] x, int32[2] i => float[4,2] z", "float[4,3] a", BEHIND, False),
    "one stale, which is dropped": ("float[4,3] x, int32[2] i => float[1,2] z", "", ROWS, False),
    "one stale before": ("float[4,3] x, int32[2] i => ", "float[1,3] a", BEHIND, False),
    "two stale": ("float[4,3] x, int32[2] i => float[1,2] z", "float[1,3] a", BEHIND, True),
    "two stale, of a Slice": ("float[4,3] x => float[7,3] z", "float[1,3] a", "a = Relu(x) z = Slice(a, s, e)", True),
    "two stale, of elements": (
        "float[4,3] x, int32[4,3] i => float[1,3] z", "int32[1,3] j", "j = Neg(i) z = GatherElements(x, j)", True,
    ),
    "the second is true": ("float[4,3] x, int32[2] i => float[4,2] z", "float[1,3] a", BEHIND, False),
    "another rank": ("float[4,3] x, int32[2] i => float[8] z", "float[1,3] a", BEHIND, False),
    "a number for a name": ("float[N,3] x, int32[2] i => float[1,2] z", "", ROWS, True),
    "a name for a name": ("float[N,3] x, int32[2] i => float[M,2] z", "", ROWS, False),
    "blocks": (
        "float[2,4,2,2] x => float[1,1,4,4] z", "float[1,4,2,2] a", "a = Relu(x) z = DepthToSpace<blocksize = 2>(a)", True,
    ),
    "tuples": ("float[4,3] x, int64[5,1] i => float[1,3] z", "int64[2,1] j", "j = Neg(i) z = GatherND(x, j)", True),
}  # fmt: skip
"""Inputs and the output as stated, what is stated of a value between, the nodes, and whether they fail."""


def _model(case: str) -> onnx.ModelProto:
    given, between, nodes, _ = MODELS[case]
    inputs, output = given.split(" => ")
    constants = ", ".join(filter(None, [between, "int64[1] s = {1}", "int64[1] e = {3}"]))
    return parsed(f"g ({inputs}) => ({output or 'float z'}) <{constants}> {{ {nodes} }}")


def _feeds(model: onnx.ModelProto) -> dict[str, Any]:
    """Zeros of the stated sizes; 4 for a name."""
    found = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        sizes = [dimension.dim_value or 4 for dimension in tensor.shape.dim]
        found[value.name] = np.zeros(sizes, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return found


@pytest.mark.parametrize("case", MODELS)
def test_nodes_fail_where_onnxruntime_warns(tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str) -> None:
    model, fails = _model(case), MODELS[case][-1]
    loaded = session(model, OFF, severity=2)
    capfd.readouterr()
    loaded.run(None, _feeds(model))
    assert (WARNING in capfd.readouterr().err) is fails
    found = asked(tmp_path, model)
    assert codes(found) == ({"ORT102" if "N" in MODELS[case][0] else "ORT101"} if fails else set())
    assert (only(found).verdict is V.FAILS) is fails


def test_a_kernel_that_is_created_for_a_stale_input(tmp_path: Path) -> None:
    """Two numbers in a row fit to each other; it is the node before that fails, or what runs instead of it."""
    nodes = "{ a = Relu(x) b = Neg(a) z = Gather<axis = 1>(b, i) }"
    found = asked(tmp_path, f"g (float[4,3] x, int32[2] i) => (float[1,2] z) <float[1,3] a, float[1,3] b> {nodes}")
    about = {finding.subject: (finding.code, finding.path) for finding in found.findings if finding.code.startswith("ORT")}
    assert about == {"Neg_1": ("ORT102", "output.shape"), "Gather_2": ("ORT102", "data.shape")}
