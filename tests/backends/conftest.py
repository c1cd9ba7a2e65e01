"""Fixtures of the tests of backends."""

from __future__ import annotations

import pytest

from tests.backends.ways import NAMES, Way


@pytest.fixture(scope="session", params=NAMES)
def way(request: pytest.FixtureRequest) -> Way:
    """Return each way to run plans on the CPU, one per test."""
    return Way(request.param)
