"""Threads that do the same at the same time, switching as often as they can."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")

SOON = 1e-6
"""Seconds after which a thread that runs Python lets another one run."""


def at_once(work: Callable[[Given], Found], each: Iterable[Given]) -> list[Found]:
    """What `work` returns for each, from as many threads, none of which begins before all are there."""
    given = list(each)
    start, interval = Barrier(len(given)), sys.getswitchinterval()

    def begin(one: Given) -> Found:
        start.wait()
        return work(one)

    sys.setswitchinterval(SOON)
    try:
        with ThreadPoolExecutor(len(given)) as pool:
            return list(pool.map(begin, given))
    finally:
        sys.setswitchinterval(interval)
