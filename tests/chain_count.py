"""The number of random chains in each dialect's heavy test, and seeds for many cases in one test."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from tests import seeds

CHAINS = int(os.environ.get("CHAINS", "2000"))
"""`ci/heavy chains COUNT` sets it."""

Outcome = TypeVar("Outcome")


def each_seed(check: Callable[[int], Outcome], count: int = CHAINS) -> list[Outcome]:
    """Return the results of `check` for `count` consecutive seeds. Errors get a note with the seed."""
    first = seeds.seed(60)
    outcomes = []
    for seed in range(first, first + count):
        try:
            outcomes.append(check(seed))
        except BaseException as error:  # pytest.fail's as well
            error.add_note(f"The case that failed has seed {seed}.")
            raise
    return outcomes
