"""Random rewrites that keep a program's meaning are proven, and changes that do not are never; NumPy judges both."""

from __future__ import annotations

import random

import pytest

from dmlgather.equivalence import Equivalence, decide
from tests import seeds
from tests.equivalence.rewrites import changed, draws, program, rewritten, same
from tests.equivalence.terms import Other, graph_of, nodes
from tests.rates import assert_often

ORDINARY = 8
"""Pairs of each kind in an ordinary run."""


def verdict_of_rewrite(seed: int) -> Equivalence:
    """The verdict about a random program and a rewrite of it."""
    chance = random.Random(seed)
    term, inputs = program(chance)
    other = rewritten(term, chance, chance.randint(1, 5))
    assert all(same(term, other, arrays) for arrays in draws(inputs, chance, 10)), f"seed {seed}: a rule is wrong"
    return decide(graph_of(term, inputs), graph_of(other, inputs))


def verdict_of_change(seed: int) -> Equivalence | None:
    """The verdict about a random program and one that differs, confirmed by NumPy; None where the change changes nothing."""
    chance = random.Random(seed)
    term, inputs = program(chance)
    other = changed(rewritten(term, chance, chance.randint(0, 3)), chance)
    try:
        differs = other is not None and other.shape == term.shape
    except (IndexError, ValueError):  # a program that raises for all inputs, or is none
        return None
    if other is None or not differs or all(same(term, other, arrays) for arrays in draws(inputs, chance, 40)):
        return None
    found = decide(graph_of(term, inputs), graph_of(other, inputs))
    assert found.verdict != "proven", f"seed {seed}: proven, but different"
    if found.counterexample is not None:
        assert not same(term, other, dict(found.counterexample.inputs)), f"seed {seed}: no counterexample"
    return found


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_a_rewrite_is_proven(seed: int) -> None:
    assert str(verdict_of_rewrite(seed)) == "proven: equal for all inputs of these shapes"


def test_a_change_is_found() -> None:
    found = [each for seed in range(3 * ORDINARY) if (each := verdict_of_change(seed)) is not None]
    assert len(found) >= ORDINARY
    assert {each.verdict for each in found} == {"different"}


@pytest.mark.heavy
def test_many_rewrites_are_proven() -> None:
    first = seeds.seed(60)
    verdicts = [verdict_of_rewrite(seed).verdict for seed in range(first, first + 500)]
    assert "different" not in verdicts
    assert_often(verdicts.count("proven"), len(verdicts), 0.95)


@pytest.mark.heavy
def test_many_changes_are_found() -> None:
    """No difference is claimed that another operator decides."""
    found: list[str] = []
    seed = seeds.seed(60)
    while len(found) < 500:
        each, (term, _) = verdict_of_change(seed), program(random.Random(seed))
        found += [] if each is None or any(isinstance(node, Other) for node in nodes(term)) else [each.verdict]
        seed += 1
    assert_often(found.count("different"), len(found), 0.95)
