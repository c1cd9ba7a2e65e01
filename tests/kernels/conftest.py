"""What the tests of kernels share."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def rng() -> random.Random:
    """Random numbers."""
    seed = random.SystemRandom().getrandbits(64)
    print(f"random.Random({seed})")  # pytest shows it with a failure
    return random.Random(seed)
