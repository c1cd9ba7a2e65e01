"""Fixtures of the command's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """The command inside this process."""
    return Command(capfd)


@pytest.fixture(autouse=True)
def _outside_github(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where these tests run in a workflow of GitHub, its variables would choose the format and the names of files."""
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one, away from any configuration."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
