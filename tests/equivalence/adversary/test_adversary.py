"""Random pairs of programs with near misses: no verdict is wrong. The libraries judge; `ci/heavy equivalent` runs this."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.chain_count import each_seed
from tests.equivalence.adversary import index_pairs
from tests.equivalence.adversary.judging import LEFT_OUT, judged, random_pair
from tests.rates import assert_often, assert_seldom

PAIRS = int(os.environ.get("PAIRS", "1000"))
"""`ci/heavy equivalent PAIRS` sets it."""

needs_torch = pytest.mark.torch
heavy = pytest.mark.heavy


def counted(judge: Callable[[int], str], share: float) -> Counter[str]:
    """How often each verdict was given, of this share of all pairs."""
    found = Counter(each_seed(judge, max(round(share * PAIRS), 10)))
    print(f"\n{dict(found)}")
    return found


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        pytest.param("onnx", "onnx", 0.45, marks=heavy),
        pytest.param("jax", "jax", 0.15, marks=heavy),
        pytest.param("onnx", "jax", 0.1, marks=heavy),
        pytest.param("jax", "onnx", 0.1, marks=heavy),
        pytest.param("torch", "torch", 0.1, marks=needs_torch),
        pytest.param("torch", "onnx", 0.1, marks=needs_torch),
        pytest.param("jax", "torch", 0.1, marks=needs_torch),
    ],
)
def test_pairs_of_operators(first: str, second: str, share: float) -> None:
    found = counted(lambda seed: judged(random_pair(seed, (first, second))), share)
    assert_often(found["proven"], found.total(), 0.3 if first == second else 0.15)
    assert_seldom(found[LEFT_OUT], found.total(), 0.1)


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        pytest.param("index", 0.2, marks=heavy),
        pytest.param("jax", 0.05, marks=heavy),
        pytest.param("torch", 0.05, marks=needs_torch),
    ],
)
def test_pairs_of_index_expressions(kind: str, share: float) -> None:
    found = counted(lambda seed: index_pairs.judged(seed, kind), share)
    assert_often(found["proven"], found.total(), 0.4)
    assert_often(found["different"], found.total(), 0.3)
