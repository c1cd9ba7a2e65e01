"""As test_translated.py and test_translated_models.py, with thousands; `ci/heavy translate` runs it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests import seeds
from tests.chain_count import each_seed
from tests.rates import assert_often
from tests.translation.judging import LEFT_OUT, judge
from tests.translation.whole_models import judge_model

pytestmark = pytest.mark.heavy

PROBLEMS = int(os.environ.get("PROBLEMS", "2000"))


def test_random_problems_give_the_same_bits() -> None:
    first = seeds.seed(60)
    found = judge(range(first, first + PROBLEMS), checked=True)
    print(f"\n{found}")
    assert found["equal"] > PROBLEMS / 3
    assert found[LEFT_OUT] <= 0.3 * found["equal"]


def test_random_models_give_what_run_prints(tmp_path: Path) -> None:
    found = Counter(each_seed(lambda seed: judge_model(seed, tmp_path), PROBLEMS // 4))
    print(f"\n{found}")
    assert_often(found["equal"], found.total(), 0.5)
