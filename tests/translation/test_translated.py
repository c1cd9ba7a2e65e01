"""Random problems of every dialect, translated to every library: the same bits there, and proven."""

from __future__ import annotations

import pytest

import dmlgather as dg
from tests.translation.judging import LEFT_OUT, VERSIONS, always_equal, judge
from tests.translation.random_problems import random_problem


@pytest.mark.parametrize(
    ("to", "seeds"), [("onnx", range(30)), ("openvino", range(30)), ("directml", range(30)), ("jax", range(3))]
)
def test_a_translation_gives_the_same_bits(to: str, seeds: range) -> None:
    found = judge(seeds, [to])
    assert found[to] > len(seeds) / 3
    assert found[LEFT_OUT] <= 0.3 * found[to]


@pytest.mark.parametrize("to", ["onnx", "openvino", "directml"])
def test_a_translation_is_proven(to: str) -> None:
    proven = []
    for seed in range(12):
        problem = random_problem(seed)
        made = dg.translate(problem, to, **VERSIONS[to][0])  # type: ignore[arg-type] # each has its own type
        if made.proof is not None:
            assert made.proof.verdict != "different", (seed, str(made), str(made.proof))
            proven.append(bool(made.proof) and (made.proof.given == "any" or not always_equal(problem, to)))
    assert sum(proven) >= 0.9 * len(proven)
