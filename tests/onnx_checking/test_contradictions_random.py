"""Random models that state one type wrongly: `check` names the tensor and says what onnxruntime does. If all is true: nothing."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests import seeds
from tests.chain_count import each_seed
from tests.onnx_checking import statement_judge
from tests.onnx_checking.statement_judge import CODES, judged
from tests.rates import assert_often, assert_seldom

STATED = int(os.environ.get("STATED", "2000"))
"""`ci/heavy stated COUNT` sets it."""

MISSED = 0.002
"""The share of models in which what onnxruntime goes on with is another type than it is said to be."""


def _check(folder: Path, count: int) -> None:
    found = each_seed(lambda seed: (seed, *judged(folder, seed)), count)
    kinds, wrong = Counter(kind for _, kind, _ in found), [case for case in found if case[2] is not None]
    print(f"\n{kinds}", *wrong, sep="\n")
    assert not kinds["true"], "of a model that states only what is true, something is said to be wrong"
    assert_seldom(len(wrong), count, MISSED)
    for kind in CODES:
        assert_often(kinds[kind], count, 0.09)


def test_a_check_that_finds_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_judge, "found", lambda *_: [])
    first = seeds.seed(60)
    kinds = [judged(tmp_path, seed) for seed in range(first, first + 20)]
    assert any(kind != "none" for kind, _ in kinds)
    assert all((wrong is None) == (kind == "none") for kind, wrong in kinds)


@pytest.mark.slow
def test_one_statement_changed(tmp_path: Path) -> None:
    _check(tmp_path, 150)


@pytest.mark.heavy
def test_thousands(tmp_path: Path) -> None:
    _check(tmp_path, STATED)
