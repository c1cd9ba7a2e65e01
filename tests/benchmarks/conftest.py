"""Reports that the suite's tests look at, measured in a moment: no pause, little to flush, tiny cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import BenchReport, run
from tests import seeds
from tests.benchmarks.small import PRESENT, TINY
from tests.cli.command import Command


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """The command inside this process."""
    return Command(capfd)


@pytest.fixture(scope="session")
def quick() -> Iterator[pytest.MonkeyPatch]:
    """No pause before a call and a cache of a few kilobytes; nothing here judges a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.clocks.SETTLE_S", 0.0)
        patch.setattr("benchmarks.clocks.LEAST_S", 0.0)
        patch.setattr("benchmarks.rigs.last_level", lambda caches: 4096)
        yield patch


@pytest.fixture(scope="session")
def report(quick: pytest.MonkeyPatch) -> BenchReport:
    """The smoke suite against everybody that the test environment has; a result that differs is an error of `run` itself."""
    return run(peers=(*PRESENT, "cupy"), rounds=2, seed=seeds.seed(32), budget=TINY)
