"""Threads: a few that are kept asleep between calls, woken where a call moves enough bytes to pay for it."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from queue import SimpleQueue

from dmlgather import host

PARTS = 4
"""Parts per thread, where there are as many blocks: enough that the last one to finish is not long after the others."""

Work = Callable[[int, int], int | None]
"""Does blocks first … last - 1 and returns the smallest offset of a bad index among them."""

Begin = Callable[[], Work]
"""One thread's part of a call: what it does blocks with, scratch memory included."""


def share(begin: Begin, count: int, shares: int) -> int | None:
    """Do what `begin` begins over `count` blocks on up to `shares` threads and return the smallest offset that any part returned.

    Threads, the caller's among them, take parts until none is left, so that a busy core delays one part and not one share.
    """
    if min(shares, count) < 2:
        return begin()(0, count)
    job = _Job(begin, count, min(count, PARTS * shares))
    helpers = _crew.hire(shares - 1)
    job.seats.extend(helpers)
    for helper in helpers:
        helper.start_on(job)
    try:
        found = [job.drain()]
    finally:
        job.parts.clear()
        # Whoever has not sat down by now is not waited for. For all others: whatever happened, nobody writes to the caller's
        # output after this call.
        late = sum(job.leave() for _ in helpers)
        ended = [job.ended.get() for _ in range(len(helpers) - late)]
        del job.begin  # a helper that is about to fall asleep keeps no array alive
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return _smallest(found)


class _Job:
    """The parts of one call, and a seat for each helper: whoever takes it, the helper or the caller, decides if it takes part."""

    def __init__(self, begin: Begin, count: int, cuts: int) -> None:
        self.begin = begin
        self.parts = deque(pairwise([count * cut // cuts for cut in range(cuts + 1)]))
        self.seats: list[_Helper] = []
        self.ended: SimpleQueue[int | BaseException | None] = SimpleQueue()

    def drain(self) -> int | None:
        """Do parts until none is left."""
        found: list[int | None] = []
        work = self.begin()
        while True:
            try:
                first, last = self.parts.popleft()
            except IndexError:
                return _smallest(found)
            found.append(work(first, last))

    def leave(self) -> bool:
        """Take one seat, if one is left."""
        try:
            self.seats.pop()
        except IndexError:
            return False
        return True

    def help(self) -> None:
        """A helper's part in the job."""
        if not self.leave():
            return
        try:
            self.ended.put(self.drain())
        except BaseException as error:  # raised again in the caller's thread
            self.ended.put(error)


class _Helper:
    """A thread that sleeps until it is given a job. Waking it through a bare lock takes half as long as through an executor."""

    def __init__(self, crew: _Crew, number: int) -> None:
        self.crew = crew
        self.job: _Job | None = None
        self.wake = threading.Lock()
        self.wake.acquire()
        threading.Thread(target=self.live, name=f"dmlgather-{number}", daemon=True).start()

    def start_on(self, job: _Job) -> None:
        """Give the job to this helper, which nobody else has hired."""
        self.job = job
        self.wake.release()

    def live(self) -> None:
        """Help with one job after the other."""
        while True:
            self.wake.acquire()
            assert self.job is not None
            self.job.help()
            self.job = None
            self.crew.idle.append(self)


class _Crew:
    """The helpers of this process: all, and those that sleep."""

    def __init__(self) -> None:
        self.all: list[_Helper] = []
        self.idle: list[_Helper] = []
        self.lock = threading.Lock()

    def hire(self, wanted: int) -> list[_Helper]:
        """Up to `wanted` helpers that have nothing to do; there are never more than other CPUs."""
        found: list[_Helper] = []
        with self.lock:
            while len(found) < wanted:
                if self.idle:
                    found.append(self.idle.pop())
                elif len(self.all) < max(1, host.cpus() - 1):
                    self.all.append(_Helper(self, len(self.all)))
                    found.append(self.all[-1])
                else:
                    break
        return found


_crew = _Crew()


def _forget() -> None:
    """Threads do not survive a fork, and a lock that another thread held stays held."""
    _crew.all, _crew.idle, _crew.lock = [], [], threading.Lock()


def _smallest(offsets: Iterable[int | None]) -> int | None:
    return min((offset for offset in offsets if offset is not None), default=None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
