"""What all tests of backends share."""

from __future__ import annotations

import pytest

from tests.backends.ways import NAMES, Way


@pytest.fixture(scope="session", params=NAMES)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way to run plans on the CPU: a test that takes it runs once per way."""
    return Way(request.param)
