"""Timing on a busy machine: contenders take turns in rounds, with warm and cold caches."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from benchmarks.bench_report import Role, Usage

SETTLE_S = 0.010
"""Pause before each sample, in seconds. The threads of torch and onnxruntime spin for a while after a call."""

LEAST_S = 0.001
"""Shortest warm sample, in seconds. Shorter calls are repeated, and the mean is taken."""

LEAST_ROUNDS, MOST_ROUNDS = 5, 25
"""Default rounds of a contender that is less than twice as slow as the first one."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run a case.

    `own_clock`: True if it creates its own streams on a GPU. Then it is timed by wall clock, and its call waits for the result.
    """

    name: str
    role: Role
    spelling: str
    run: Callable[[], Any]
    preallocated: bool = True
    own_clock: bool = False


@dataclass(slots=True)
class Samples:
    """Seconds per call, one entry per round. Lists that the clock does not measure are empty."""

    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)


class Clock(ABC):
    """A clock for contenders. `flushed_bytes`: bytes written before each cold call; 0 without cold calls."""

    flushed_bytes: int

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which contenders run."""
        return nullcontext()

    def kind(self, contender: Contender) -> Literal["wall", "events"]:  # noqa: ARG002 - other clocks differ between contenders
        """Return how a contender is timed: by wall clock or by CUDA events."""
        return "wall"

    @abstractmethod
    def sample(self, contender: Contender, repeat: int, into: Samples) -> None:
        """Make an untimed call, `repeat` warm calls and one cold call, if the clock has cold ones. Add the times to `into`."""


class HostClock(Clock):
    """A clock of wall time on the CPU."""

    def __init__(self, cache_bytes: int) -> None:
        self.flushed_bytes = 2 * cache_bytes
        self._lines = np.zeros(self.flushed_bytes // 8, np.uint64)

    def sample(self, contender: Contender, repeat: int, into: Samples) -> None:
        time.sleep(SETTLE_S)
        contender.run()
        into.warm.append(seconds(contender.run, repeat))
        self._lines += np.uint64(1)  # evicts the data; a fill might bypass the cache
        into.cold.append(seconds(contender.run, 1))


class DeviceClock(Clock):
    """A clock of CUDA events on one stream. Contenders with their own streams are timed by wall clock."""

    def __init__(self, cupy: Any, cache_bytes: int) -> None:
        self.flushed_bytes = 2 * cache_bytes
        self._cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._begin, self._end = cupy.cuda.Event(), cupy.cuda.Event()
        self._lines = cupy.empty(self.flushed_bytes, np.uint8)

    def current(self) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self.stream
        return stream

    def kind(self, contender: Contender) -> Literal["wall", "events"]:
        return "wall" if contender.own_clock else "events"

    def sample(self, contender: Contender, repeat: int, into: Samples) -> None:
        """Add a sample. `host`: the time until the warm calls return."""
        contender.run()
        self._wait()
        if contender.own_clock:
            into.warm.append(seconds(contender.run, repeat))
            self._flush()
            self._wait()
            into.cold.append(seconds(contender.run, 1))
            return
        device, host = self._between(contender.run, repeat)
        into.warm.append(device)
        into.host.append(host)
        self._flush()  # still running when the call is issued, so that the events include no host time
        into.cold.append(self._between(contender.run, 1)[0])

    def _between(self, run: Callable[[], Any], repeat: int) -> tuple[float, float]:
        self._begin.record(self.stream)
        host = seconds(run, repeat)
        self._end.record(self.stream)
        self._end.synchronize()
        return self._cupy.cuda.get_elapsed_time(self._begin, self._end) / 1e3 / repeat, host

    def _flush(self) -> None:
        self._cupy.cuda.runtime.memsetAsync(self._lines.data.ptr, 0, self.flushed_bytes, self.stream.ptr)

    def _wait(self) -> None:
        self._cupy.cuda.runtime.deviceSynchronize()


def interleave(contenders: Sequence[Contender], clock: Clock, rounds: int | None, budget_s: float) -> list[Samples]:
    """Time contenders in turns, and return the samples of each.

    Each round starts with another contender, because a call that fills the caches slows down the next one.

    `rounds`: number of rounds of every contender. If it is None, a trial round measures how many times slower than the first
    each contender is. Below 2, it gets `LEAST_ROUNDS` to `MOST_ROUNDS` rounds, as `budget_s` seconds allow. Otherwise it gets
    10 / slowness rounds, or only the trial if that is less than one.
    """
    trials = [Samples() for _ in contenders]
    costs = []
    for contender, trial in zip(contenders, trials, strict=True):
        begin = time.perf_counter()
        clock.sample(contender, 1, trial)
        costs.append(time.perf_counter() - begin)
    quickest = [max(min([*trial.warm, *trial.cold]), 1e-7) for trial in trials]
    counts = [rounds] * len(contenders) if rounds else _counts([seconds / quickest[0] for seconds in quickest], costs, budget_s)
    samples = [Samples() if count else trial for count, trial in zip(counts, trials, strict=True)]
    for number in range(max(counts)):
        for offset in range(len(contenders)):
            place = (number + offset) % len(contenders)
            if number < counts[place]:
                clock.sample(contenders[place], max(1, round(LEAST_S / quickest[place])), samples[place])
    return samples


def _counts(slowness: Sequence[float], costs: Sequence[float], budget_s: float) -> list[int]:
    """Return the number of rounds of each contender. `costs`: seconds of one sample."""
    counts = [min(LEAST_ROUNDS, int(10 / times)) for times in slowness]
    spare = max(0.0, budget_s - sum(cost * count for cost, count in zip(costs, counts, strict=True)))
    close = sum(cost for cost, times in zip(costs, slowness, strict=True) if times < 2)
    extra = min(MOST_ROUNDS - LEAST_ROUNDS, int(spare / max(close, 1e-6)))
    return [count + extra * (times < 2) for count, times in zip(counts, slowness, strict=True)]


def seconds(run: Callable[[], Any], repeat: int) -> float:
    """Return the mean wall time of `repeat` calls."""
    if repeat == 1:
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin
    iterations = range(repeat)
    begin = time.perf_counter()
    for _ in iterations:
        run()
    return (time.perf_counter() - begin) / repeat
