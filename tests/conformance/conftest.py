"""Folders of cases that the stand-in has run, written once and copied for each test that changes them."""

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
    """Return a folder of two cases of each operator and all questions, with results, which tests must not change."""
    return _ran(tmp_path_factory, CASES, "6_4")


@pytest.fixture(scope="session")
def ran_few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of two cases of GATHER and two of SLICE, with results, which tests must not change."""
    return _ran(tmp_path_factory, 4, "2_0")


def _ran(tmp_path_factory: pytest.TempPathFactory, cases: int, level: str) -> Path:
    from conformance.command import run

    folder = tmp_path_factory.mktemp("conformance") / "cases"
    assert run(["write", str(folder), "--cases", str(cases), "--level", level, "--seed", str(SEED)]) == 0
    run_models(folder)
    return folder


@pytest.fixture
def returned(ran: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder with questions."""
    return shutil.copytree(ran, tmp_path / "cases")


@pytest.fixture
def few(ran_few: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder with four cases."""
    return shutil.copytree(ran_few, tmp_path / "few")
