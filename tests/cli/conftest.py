"""Fixtures of the command's tests."""

from __future__ import annotations

import pytest

from tests.cli.command import Command


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """The command inside this process."""
    return Command(capfd)
