"""Random numbers for tests. Each generator depends on the run's seed and on the name of the test that asks.

The run's seed is DMLGATHER_SEED. If that is not set, the seed depends on the commit under CI=true, and is fresh otherwise. The
header of the session prints it, and each failure prints the command that repeats the test. Nothing else in tests, ci or
examples makes a generator without a seed: `tests/test_seeds.py` checks this.

Within a test or a fixture, each call gives different numbers. The same call gives the same numbers in every run with that seed,
alone or among other tests. A test with hypothesis draws from hypothesis's strategies instead.
"""

from __future__ import annotations

import hashlib
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np  # scripts ask for the seed before NumPy is installed

VARIABLE = "DMLGATHER_SEED"
REPEAT = "DMLGATHER_REPEAT"
"""Environment variable with the command of ci/ for a single test. The test's name is appended to it."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class RunSeed:
    """The seed of this test run, and its origin."""

    value: int
    origin: str


@dataclass(slots=True)
class _Owner:
    """The test or fixture that draws numbers now, and the number of its calls."""

    name: str
    draws: int = 0


_owners: list[_Owner] = []


def run_seed() -> RunSeed:
    """Return the seed of this run; child processes have the same. Raises ValueError if DMLGATHER_SEED is not a number."""
    stated = os.environ.get(VARIABLE)
    if stated is None:
        found = _chosen()
        os.environ[VARIABLE] = f"{found.value} {found.origin}"
        return found
    number, _, origin = stated.partition(" ")
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"{VARIABLE} must be a number without a sign, not {stated!r}")
    return RunSeed(int(number), origin or f"from {VARIABLE}")


def _chosen() -> RunSeed:
    if os.environ.get("CI") == "true":
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(
                f"under CI=true the seed follows from the commit, and git knows none: {done.stderr.strip()}; set {VARIABLE}"
            )
        return RunSeed(int(done.stdout[:12], 16), "from the commit")
    return RunSeed(fresh(), "fresh")


def fresh() -> int:
    return random.SystemRandom().getrandbits(48)


@contextmanager
def belonging_to(name: str) -> Iterator[None]:
    """Draw the numbers of this test or fixture inside the block."""
    _owners.append(_Owner(name))
    try:
        yield
    finally:
        _owners.pop()


def seed(bits: int = 63) -> int:
    """Return the next seed of the running test or fixture. Raises RuntimeError outside of tests and fixtures."""
    if not _owners:
        raise RuntimeError("random numbers belong to a test: draw them in a test or a fixture, not where a module is imported")
    owner = _owners[-1]
    owner.draws += 1
    text = f"{run_seed().value} {owner.name} {owner.draws}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) >> (256 - bits)


def rng() -> random.Random:
    return random.Random(seed())


def numpy_rng() -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(seed())


def repeating(test: str) -> str:
    """Return the command that repeats a test (or the page of a code block) with this run's seed."""
    if (page := test.partition("::")[0]).endswith(".md"):
        test = page
    python = Path(sys.executable)
    own = f"{python.relative_to(ROOT) if python.is_relative_to(ROOT) else python} -m pytest -m ''"
    return f"{VARIABLE}={run_seed().value} {os.environ.get(REPEAT) or own} {shlex.quote(test)}"


if __name__ == "__main__":  # scripts run this
    print(run_seed().value)
