"""Arithmetic on an index of one byte: NumPy runs both programs for each of its values, and so knows whether they are equal."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.equivalence import decide
from tests.chain_count import each_seed
from tests.equivalence.rewrites import same
from tests.equivalence.terms import Arithmetic, Input, Node, Number, Take, graph_of, nodes, replaced
from tests.rates import assert_often

X = Input("x", (5,), "int16")
INDEX = Input("ids", (), "int8")
DATA = np.arange(10, 15, dtype=np.int16)


def number(chance: random.Random) -> Number:
    return Number(chance.choice([-128, -6, -5, -4, -1, 0, 0, 1, 2, 4, 5, 6, 127]), "int8")


def index(chance: random.Random, depth: int) -> Node:
    """A random function of the index."""
    if not depth:
        return INDEX
    inner = index(chance, depth - 1)
    match chance.choice(["maximum", "minimum", "add", "subtract", "multiply", "remainder", "where", "where", "take"]):
        case "where":
            operator = chance.choice(["less", "less_equal", "greater_equal"])
            question = Arithmetic(operator, (chance.choice([inner, INDEX]), number(chance)))
            one, two = chance.choice([inner, number(chance)]), Arithmetic("add", (inner, number(chance)))
            return Arithmetic("where", (question, one, two))
        case "take":
            return Take(Number((3, -1, 0, 4, 7, 2), "int8"), inner, 0, chance.choice(["raise", "clip", "fill"]))
        case "remainder":
            return Arithmetic("remainder", (inner, Number(chance.choice([-5, 3, 5]), "int8")))
        case "multiply":
            return Arithmetic("multiply", (inner, Number(chance.choice([-1, 0, 2]), "int8")))
        case operator:
            return Arithmetic(operator, (inner, number(chance)))


def program(chance: random.Random) -> Node:
    return Take(X, index(chance, chance.randint(0, 3)), 0, chance.choice(["raise", "clip", "fill"]))


def near(term: Node, chance: random.Random) -> Node:
    """The term with one number or one mode changed, which often changes nothing."""
    parts = [each for each in nodes(term) if isinstance(each, Take) or (isinstance(each, Number) and not each.shape)]
    part = chance.choice(parts)
    if isinstance(part, Take):
        return replaced(term, part, dataclasses.replace(part, mode=chance.choice(["raise", "clip", "fill"])))
    return replaced(term, part, number(chance))


@cache
def inputs() -> list[dict[str, NDArray[Any]]]:
    return [{"x": DATA, "ids": np.array(value, np.int8)} for value in range(-128, 128)]


def check(seed: int) -> str:
    """The verdict about a pair of random programs, which NumPy confirms."""
    chance = random.Random(seed)
    one = program(chance)
    two = program(chance) if chance.random() < 0.3 else near(one, chance)
    with np.errstate(all="ignore"):
        equal = all(same(one, two, arrays) for arrays in inputs())
        found = decide(graph_of(one, [X, INDEX]), graph_of(two, [X, INDEX]))
        assert found.verdict != ("different" if equal else "proven"), f"seed {seed}: {found.verdict}, but {equal=}"
        if found.counterexample is not None:
            assert not same(one, two, dict(found.counterexample.inputs)), f"seed {seed}"
    return f"{found.verdict}, equal" if equal else found.verdict


def test_verdicts_about_every_index() -> None:
    found = Counter(map(check, range(25)))
    assert found["different"] >= 12


@pytest.mark.heavy
def test_many_verdicts_about_every_index() -> None:
    found = Counter(each_seed(check, 3000))
    for right, missed in (("different", "not proven"), ("proven, equal", "not proven, equal")):
        assert_often(found[right], found[right] + found[missed], 0.95)
