"""The number of bytes that the GPU fetches into its L2 cache at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.errors import BenchError
from dmlgather.selftest.selftest_report import L2_FETCH, limit

L2_FETCHES = (32, 64, 128)


@contextmanager
def l2_fetch(cupy: Any, count: int) -> Iterator[None]:
    """Limit the GPU's fetches into its L2 cache to `count` bytes. Raises BenchError if that has no effect."""
    runtime = cupy.cuda.runtime
    before = limit(runtime, L2_FETCH)
    if before is None:
        raise BenchError("--l2-fetch is given, but this GPU or its driver has no such limit: leave it out")
    try:
        runtime.deviceSetLimit(L2_FETCH, count)
        if (actual := limit(runtime, L2_FETCH)) != count:  # a hint for CUDA
            raise BenchError(f"--l2-fetch is {count} bytes, but this GPU makes {actual} of it: choose that, or leave it out")
        yield
    finally:
        runtime.deviceSetLimit(L2_FETCH, before)
