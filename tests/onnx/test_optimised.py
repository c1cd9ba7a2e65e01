"""Models before and after onnxruntime's optimisations: that they index alike is proven, and a change that is planted is found."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

import dmlgather as dg
from tests import seeds
from tests.onnx.modelling import parsed
from tests.onnx.optimising import graph_of, optimised
from tests.onnx.random_chains import random_chain

FEEDS = {"x": np.ones((4, 6), np.float32), "i": np.array([1, 0, -1]), "w": np.ones((6, 5), np.float32)}

PROVEN = (
    "a = Identity(x) b = Transpose(a) c = Transpose(b) y = Gather(c, i)",
    "s = Shape(x) n = Gather(s, last) u = Unsqueeze(n, zero) p = Concat <axis = 0> (minus, u) r = Reshape(x, p) y = Gather(r, i)",
    "t = Transpose(x) g = Gather <axis = 1> (t, i) e = Exp(g) u = Unsqueeze(e, zero) y = Squeeze(u, zero)",
    "c = Cast <to = 6> (i) d = Cast <to = 7> (c) y = Gather(x, d)",
    "a = Slice(x, zero, two, zero) b = Slice(a, zero, two, one) y = MatMul(b, b)",
    "a = Gather(x, lone) b = Gather(x, lone) y = Add(a, b)",
    "q = Add(three, lone) y = Gather <axis = 1> (x, q)",
)

HEAD = """m (float[4,6] x, int64[3] i, float[6,5] w) => (float[a,b] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 lone = {1}, int64 three = {3}, int64[1] minus = {-1},
 int64 last = {-1}>"""


def model_of(nodes: str) -> ModelProto:
    return parsed(f"{HEAD} {{ {nodes} }}")


@pytest.mark.parametrize("nodes", PROVEN)
@pytest.mark.parametrize("level", ["basic", "extended"])
def test_what_optimisations_keep_is_proven(nodes: str, level: str) -> None:
    model = model_of(nodes)
    found = dg.equivalent(graph_of(model, FEEDS), graph_of(optimised(model, FEEDS, level), FEEDS))
    assert found.verdict == "proven", found


@pytest.mark.parametrize("product", ["Gemm", "Gemm <alpha = 0.5>"])
def test_another_operator_is_neither_proven_nor_called_different(product: str) -> None:
    model = model_of("m = MatMul(x, w) y = Add(m, m)")
    other = parsed(f"{HEAD} {{ g = {product} (x, w) y = Add(g, g) }}")
    assert dg.equivalent(graph_of(model, FEEDS), graph_of(other, FEEDS)).verdict == "not proven"


def test_a_planted_change_is_found() -> None:
    model = model_of("t = Transpose(x) y = Gather <axis = 1> (t, i)")
    changed = optimised(model, FEEDS, "basic")
    (gather,) = (node for node in changed.graph.node if node.op_type == "Gather")
    gather.attribute[0].i = 0
    assert dg.equivalent(graph_of(model, FEEDS), graph_of(changed, FEEDS)).verdict == "different"


def test_optimised_random_chains_are_never_called_different() -> None:
    rng = seeds.rng()
    verdicts = []
    for _ in range(8):
        model, feeds = random_chain(rng)
        changed = optimised(model, feeds, "extended")
        verdicts.append(dg.equivalent(graph_of(model, feeds), graph_of(changed, feeds), given="valid").verdict)
    assert "different" not in verdicts
