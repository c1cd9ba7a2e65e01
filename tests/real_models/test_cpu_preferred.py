"""Differences between onnxruntime's rule and dmlgather for a node, with their reasons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.onnx_checking.modelling import parsed
from tests.real_models.cpu_preferred import compared

SHAPE = "s = Shape(x) [a] a = Gather(s, first)"

CASES = {
    "a shape": (f"{SHAPE} z = Reshape(x, a)", "the host's; onnxruntime: on the CPU"),
    "work on x": ("[a] a = Gather(x, first) z = Neg(a)", "judged; onnxruntime: left to DirectML"),
    "a shape that the device multiplies by": (f"{SHAPE} f = Cast<to = 1>(a) z = Mul(x, f)", "judged; onnxruntime: on the CPU"),
    "constants for a shape": ("[a] a = Gather(first, first) z = Reshape(x, a)", "the host's; onnxruntime: folded"),
    "constants for the device": ("[a] a = Gather(w, first) z = Mul(x, a)", "judged; onnxruntime: folded"),
    "an input for a shape": ("[a] a = Gather(n, first) z = Reshape(x, a)", "the host's; onnxruntime: left to DirectML"),
    "an input and a shape": (
        "s = Shape(x) t = Concat<axis = 0>(s, n) [a] a = Gather(t, first) z = Reshape(x, a)",
        "the host's; onnxruntime: on the CPU",
    ),
    "a bound that is computed": (
        "s = Shape(x) b = Add(s, first) [a] a = Slice(s, first, b) z = Reshape(x, a)",
        "the host's; onnxruntime: left to DirectML",
    ),
    "a large table for a shape": (
        "s = Shape(x) [a] a = Gather(large, s) z = Reshape(x, a)",
        "the host's; onnxruntime: left to DirectML",
    ),
    "a branch": (
        """s = Shape(x) z = If(c) <then_branch = t () => (u) { [a] a = Gather(s, first) u = Reshape(x, a) },
                                   else_branch = e () => (v) { v = Neg(x) }>""",
        "the host's; onnxruntime: left to DirectML",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rules_of_dmlgather_and_onnxruntime_differ_as_listed(tmp_path: Path, case: str) -> None:
    nodes, expected = CASES[case]
    constants = "<int64[1] first = {0}, float[1] w = {2}, int64[200] large>"
    model = parsed(f"g (float[N] x, int64[2] n, bool c) => (float[M] z) {constants} {{ {nodes} }}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(200, np.int64), "large"))
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "model.onnx")
    assert compared(tmp_path / "model.onnx") == {expected: 1}
