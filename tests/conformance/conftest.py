"""A folder of cases that the stand-in has run, written once and copied for each test that changes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.conformance.stand_in import run_models

CASES, SEED = 16, 7


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(capfd)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two cases of each operator and all questions, with results. Not to be changed."""
    from dmlgather.cli.app import run

    folder = tmp_path_factory.mktemp("conformance") / "cases"
    assert run(["conformance", "write", str(folder), "--cases", str(CASES), "--seed", str(SEED)]) == 0
    run_models(folder)
    return folder


@pytest.fixture
def returned(ran: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return shutil.copytree(ran, tmp_path / "cases")
