"""Rules that do not hold, put in the place of those that do: the random pairs notice each."""

from __future__ import annotations

import pytest

from dmlgather.equivalence import meaning
from dmlgather.equivalence.checks import Checks
from dmlgather.plan import Lookup, OutOfBounds
from dmlgather.plan.index_function import IndexFunction, lookup_function
from tests.equivalence.test_rewrites import verdict_of_change


def clamps(lookup: Lookup, policy: OutOfBounds, low: int, high: int) -> IndexFunction:
    """What is out of bounds is clamped under every policy."""
    return lookup_function(lookup, OutOfBounds.CLAMP if lookup.limit else policy, low, high)


@pytest.mark.parametrize(
    ("rule", "seed"), [("clamp", 3), ("clamp", 17), ("checks", 131), ("checks", 179), ("guards", 79), ("guards", 157)]
)
def test_an_unsound_rule_is_noticed(rule: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """seed: one that reaches the rule, because not every one does."""
    if rule == "clamp":
        monkeypatch.setattr(meaning, "lookup_function", clamps)
    elif rule == "checks":
        monkeypatch.setattr(Checks, "difference", lambda *_: "")
    else:
        monkeypatch.setattr(meaning, "guarded", lambda formula, guards: formula)
    with pytest.raises(AssertionError, match="proven, but different"):
        verdict_of_change(seed)
