"""Threads that run the same function at the same time, and switch as often as possible."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Argument = TypeVar("Argument")
Outcome = TypeVar("Outcome")

SWITCH_SECONDS = 1e-6
"""Time after which a thread lets another thread run."""


def at_once(work: Callable[[Argument], Outcome], each: Iterable[Argument]) -> list[Outcome]:
    """Call `work` with each argument, and return the results. Each call has its own thread; all start together."""
    arguments = list(each)
    start, interval = Barrier(len(arguments)), sys.getswitchinterval()

    def begin(argument: Argument) -> Outcome:
        start.wait()
        return work(argument)

    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with ThreadPoolExecutor(len(arguments)) as pool:
            return list(pool.map(begin, arguments))
    finally:
        sys.setswitchinterval(interval)
