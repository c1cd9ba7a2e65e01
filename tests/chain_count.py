"""How many random chains each dialect's heavy test runs, and the seeds of many cases in one test."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from tests import seeds

CHAINS = int(os.environ.get("CHAINS", "2000"))
"""`ci/heavy chains COUNT` sets it."""

Found = TypeVar("Found")


def each_seed(check: Callable[[int], Found], count: int = CHAINS) -> list[Found]:
    """What `check` gives for so many seeds in a row. An error of it names its seed."""
    first = seeds.seed(60)
    found = []
    for seed in range(first, first + count):
        try:
            found.append(check(seed))
        except BaseException as error:  # pytest.fail's as well
            error.add_note(f"The case that failed has seed {seed}.")
            raise
    return found
