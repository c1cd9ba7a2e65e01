"""Fixtures of several folders of tests."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

import pytest

from tests import seeds


@pytest.fixture
def rng() -> random.Random:
    return seeds.rng()


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
