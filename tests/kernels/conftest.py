"""What the tests of kernels share."""

from __future__ import annotations

import random

import pytest

from tests import seeds


@pytest.fixture
def rng() -> random.Random:
    """Random numbers."""
    return seeds.rng()
