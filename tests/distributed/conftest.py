"""The scheduler that tests of chunks run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def synchronous() -> Iterator[None]:
    """Tasks run one by one, in this thread."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield
