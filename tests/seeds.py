"""Where tests get random numbers from: each generator follows from the run's seed, and from the name of the test that asks.

The run's seed is DMLGATHER_SEED. Where that is not set, it follows from the commit under CI=true, and is fresh otherwise. The
session's header prints it, and each failure prints the command that repeats the test. Nothing else in tests, ci or examples
makes a generator without a seed: `tests/test_seeds.py` refuses it.

Inside a test or a fixture, each call gives other numbers: the first call, the second, and so on, each the same in every run of
that seed, alone or between other tests. A test that hypothesis drives draws from its strategies instead.
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
    import numpy as np  # which scripts do without that ask for the seed before anything is installed

VARIABLE = "DMLGATHER_SEED"
REPEAT = "DMLGATHER_REPEAT"
"""The environment variable in which a script of ci/ says how it runs a single test: the command that test's name goes behind."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class RunSeed:
    """The seed of this run of tests, and where it comes from."""

    value: int
    origin: str


@dataclass(slots=True)
class _Owner:
    """To whom the numbers belong that are drawn now, and how often it has asked."""

    name: str
    draws: int = 0


_owners: list[_Owner] = []


def run_seed() -> RunSeed:
    """The seed of this run. Processes that this one starts have the same. ValueError for a DMLGATHER_SEED that is no number."""
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
    """A seed that nothing has had."""
    return random.SystemRandom().getrandbits(48)


@contextmanager
def belonging_to(name: str) -> Iterator[None]:
    """Numbers that are drawn meanwhile belong to this test or fixture."""
    _owners.append(_Owner(name))
    try:
        yield
    finally:
        _owners.pop()


def seed(bits: int = 63) -> int:
    """The next seed of the test or fixture that runs, of this many bits. RuntimeError outside of both."""
    if not _owners:
        raise RuntimeError("random numbers belong to a test: draw them in a test or a fixture, not where a module is imported")
    owner = _owners[-1]
    owner.draws += 1
    text = f"{run_seed().value} {owner.name} {owner.draws}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) >> (256 - bits)


def rng() -> random.Random:
    """A generator of Python's, with the next seed."""
    return random.Random(seed())


def numpy_rng() -> np.random.Generator:
    """A generator of NumPy's, with the next seed."""
    import numpy as np

    return np.random.default_rng(seed())


def repeating(test: str) -> str:
    """The command that repeats one test with this run's seed; a block of a page is repeated with its page."""
    if (page := test.partition("::")[0]).endswith(".md"):
        test = page
    python = Path(sys.executable)
    own = f"{python.relative_to(ROOT) if python.is_relative_to(ROOT) else python} -m pytest -m ''"
    return f"{VARIABLE}={run_seed().value} {os.environ.get(REPEAT) or own} {shlex.quote(test)}"


if __name__ == "__main__":  # what scripts ask
    print(run_seed().value)
