"""As test_translated.py and test_translated_models.py, with thousands; `ci/heavy translate` runs it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import dmlgather as dg
from tests import seeds
from tests.chain_count import each_seed
from tests.rates import assert_often
from tests.translation.judging import LEFT_OUT, VERSIONS, always_equal, judge
from tests.translation.random_problems import random_problem
from tests.translation.whole_models import judge_model

pytestmark = pytest.mark.heavy

PROBLEMS = int(os.environ.get("PROBLEMS", "2000"))


@pytest.mark.parametrize(("to", "share"), [("onnx", 1), ("openvino", 1), ("directml", 1), ("jax", 10)])
def test_random_problems(to: str, share: int) -> None:
    first, count = seeds.seed(60), PROBLEMS // share
    found = judge(range(first, first + count), [to])
    print(f"\n{to}: {found}")
    assert found[to] > count / 3
    assert found[LEFT_OUT] <= 0.3 * found[to]


@pytest.mark.parametrize("to", VERSIONS)
def test_random_proofs(to: str) -> None:
    """None is wrong, and most are proven."""
    found: Counter[str] = Counter()
    first = seeds.seed(60)
    for seed in range(first, first + PROBLEMS // 4):
        problem = random_problem(seed)
        made = dg.translate(problem, to, **VERSIONS[to][seed % len(VERSIONS[to])])  # type: ignore[arg-type] # each has its own type
        if made.proof is None:
            continue
        assert made.proof.verdict != "different", (seed, str(made), str(made.proof))
        enough = made.proof.given == "any" or not always_equal(problem, to)
        found["proven" if made.proof and enough else "not proven, or for less"] += 1
    print(f"\n{to}: {found}")
    assert_often(found["proven"], found.total(), 0.95)


def test_random_models(tmp_path: Path) -> None:
    found = Counter(each_seed(lambda seed: judge_model(seed, tmp_path), PROBLEMS // 4))
    print(f"\n{found}")
    assert_often(found["equal"], found.total(), 0.5)
