"""Timing that survives a busy machine: contenders take turns round by round, and medians are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def interleave(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Wall-clock seconds of each contender in each round. Each runs once untimed, then all take turns; who starts a round
    changes, because whoever follows a cache-hungry call pays for it.
    """
    names = list(contenders)
    for call in contenders.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            call = contenders[name]
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    return seconds
