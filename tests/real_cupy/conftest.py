"""What every test of this folder has. All need CuPy's wheel; ci/heavy cupy runs them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real_cupy.signatures import package


@pytest.fixture
def cupy() -> Any:
    """The real package."""
    return package()
