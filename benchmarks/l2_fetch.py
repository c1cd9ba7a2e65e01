"""How many bytes the GPU fetches into its L2 cache at once, during a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.errors import BenchError
from dmlgather.selftest.selftest_report import L2_FETCH, limit

L2_FETCHES = (32, 64, 128)
"""Bytes that it can be."""


@contextmanager
def l2_fetch(cupy: Any, count: int) -> Iterator[None]:
    """Makes the current GPU fetch at most so many bytes into its L2 cache at once. BenchError where it does not."""
    runtime = cupy.cuda.runtime
    before = limit(runtime, L2_FETCH)
    if before is None:
        raise BenchError("--l2-fetch is given, but this GPU or its driver has no such limit: leave it out")
    try:
        runtime.deviceSetLimit(L2_FETCH, count)
        if (found := limit(runtime, L2_FETCH)) != count:  # CUDA takes it for a hint
            raise BenchError(f"--l2-fetch is {count} bytes, but this GPU makes {found} of it: choose that, or leave it out")
        yield
    finally:
        runtime.deviceSetLimit(L2_FETCH, before)
