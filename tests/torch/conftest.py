"""Modules named test_live_… need PyTorch, and all of their tests have the marker torch."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests import seeds


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not to read them where their tests are deselected: without PyTorch, they cannot be read."""
    chosen = config.option.markexpr
    deselected = "not torch" in chosen or (chosen and "torch" not in chosen)
    return True if collection_path.name.startswith("test_live_") and deselected else None


@pytest.fixture(autouse=True)
def pytorchs_generator(request: pytest.FixtureRequest) -> None:
    """PyTorch draws the test's own numbers."""
    if request.node.get_closest_marker("torch"):
        import_module("torch").manual_seed(seeds.seed())
