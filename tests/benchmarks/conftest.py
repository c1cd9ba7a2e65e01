"""Reports for the tests of the suite, measured quickly: without pauses, with small flushes and tiny cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import BenchReport, run
from tests import seeds
from tests.benchmarks.small import PRESENT, TINY
from tests.cli.command import Command


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Return the command, run in this process."""
    return Command(capfd)


@pytest.fixture(scope="session")
def quick() -> Iterator[pytest.MonkeyPatch]:
    """Set no pause before a call, and a cache of a few kilobytes. No test judges a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.clocks.SETTLE_S", 0.0)
        patch.setattr("benchmarks.clocks.LEAST_S", 0.0)
        patch.setattr("benchmarks.rigs.last_level", lambda caches: 4096)
        yield patch


@pytest.fixture(scope="session")
def report(quick: pytest.MonkeyPatch) -> BenchReport:
    """Return the report of the smoke suite against all installed peers. `run` itself fails if results differ."""
    return run(peers=(*PRESENT, "cupy"), rounds=2, seed=seeds.seed(32), budget=TINY)
