"""Threads: one kept pool, used where a call moves enough bytes to pay for it."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise

PARTS = 4
"""Parts per thread: enough that the last one to finish is not long after the others."""

Work = Callable[[int, int], int | None]
"""Does blocks first … last - 1 and returns the smallest offset of a bad index among them."""


def cpus() -> int:
    """The number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share(work: Work, count: int, shares: int) -> int | None:
    """Run `work` over `count` blocks on up to `shares` threads and return the smallest offset that any part returned.

    Threads, the caller's among them, take parts until none is left, so that a busy core delays one part and not one share.
    """
    if min(shares, count) < 2:
        return work(0, count)
    cuts = min(count, PARTS * shares)
    ends = [count * cut // cuts for cut in range(cuts + 1)]
    parts = deque(pairwise(ends))

    def drain() -> int | None:
        found: list[int | None] = []
        while True:
            try:
                first, last = parts.popleft()
            except IndexError:
                return _smallest(found)
            found.append(work(first, last))

    helpers = [_pool().submit(drain) for _ in range(shares - 1)]
    try:
        found = [drain()]
    finally:
        parts.clear()
        for helper in helpers:
            helper.cancel()  # one that never got a core is not waited for
        wait(helpers)  # whatever happened, nobody writes to the caller's output after this call
    return _smallest(found + [helper.result() for helper in helpers if not helper.cancelled()])


def _smallest(offsets: Iterable[int | None]) -> int | None:
    return min((offset for offset in offsets if offset is not None), default=None)


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cpus() - 1), thread_name_prefix="dmlgather")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
