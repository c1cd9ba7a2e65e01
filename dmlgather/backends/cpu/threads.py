"""A pool of threads that sleep between calls; a call wakes some of them if it moves enough bytes to pay for that."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from queue import SimpleQueue

from dmlgather import host

PARTS = 4
"""Parts per thread, if there are as many blocks: enough that no thread works much longer than the others."""

BlockWork = Callable[[int, int], int | None]
"""Executes blocks first … last - 1 and returns the smallest offset of a bad index among them."""

Begin = Callable[[], BlockWork]
"""Makes the function with which one thread executes its blocks, scratch memory included."""


def run_blocks(begin: Begin, count: int, shares: int) -> int | None:
    """Execute `count` blocks on up to `shares` threads and return the smallest offset of a bad index.

    Every thread, the caller's included, takes parts until none is left, so that a busy core delays one part and not one share.
    """
    if min(shares, count) < 2:
        return begin()(0, count)
    job = _Job(begin, count, min(count, PARTS * shares))
    workers = _pool.take(shares - 1)
    job.pending.extend(workers)
    for worker in workers:
        worker.start(job)
    try:
        found = [job.drain()]
    finally:
        job.parts.clear()
        # Do not wait for workers that have not joined yet; wait for all others, even after an error, so that no thread writes to
        # the caller's output after this call.
        late = sum(job.claim() for _ in workers)
        ended = [job.ended.get() for _ in range(len(workers) - late)]
        del job.begin  # so that a worker that has not gone back to sleep keeps no array alive
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return _smallest(found)


class _Job:
    """The parts of one call. pending: an entry per worker that has not joined. The worker removes it to join; the caller removes
    it to go on without that worker.
    """

    def __init__(self, begin: Begin, count: int, cuts: int) -> None:
        self.begin = begin
        self.parts = deque(pairwise([count * cut // cuts for cut in range(cuts + 1)]))
        self.pending: list[_Worker] = []
        self.ended: SimpleQueue[int | BaseException | None] = SimpleQueue()

    def drain(self) -> int | None:
        """Execute parts until none is left."""
        found: list[int | None] = []
        work = self.begin()
        while True:
            try:
                first, last = self.parts.popleft()
            except IndexError:
                return _smallest(found)
            found.append(work(first, last))

    def claim(self) -> bool:
        """Remove one pending entry, if one is left."""
        try:
            self.pending.pop()
        except IndexError:
            return False
        return True

    def join(self) -> None:
        """Execute parts in a worker's thread."""
        if not self.claim():
            return
        try:
            self.ended.put(self.drain())
        except BaseException as error:  # raised again in the caller's thread
            self.ended.put(error)


class _Worker:
    """A thread that sleeps until it is given a job. Waking it through a bare lock takes half as long as through an executor."""

    def __init__(self, pool: _Pool, number: int) -> None:
        self.pool = pool
        self.job: _Job | None = None
        self.wake = threading.Lock()
        self.wake.acquire()
        threading.Thread(target=self.live, name=f"dmlgather-{number}", daemon=True).start()

    def start(self, job: _Job) -> None:
        """Give the job to this worker, which no other call uses."""
        self.job = job
        self.wake.release()

    def live(self) -> None:
        """Join one job after the other."""
        while True:
            self.wake.acquire()
            assert self.job is not None
            self.job.join()
            self.job = None
            self.pool.idle.append(self)


class _Pool:
    """The worker threads of this process: all, and those that sleep."""

    def __init__(self) -> None:
        self.all: list[_Worker] = []
        self.idle: list[_Worker] = []
        self.lock = threading.Lock()

    def take(self, wanted: int) -> list[_Worker]:
        """Up to `wanted` sleeping workers. There are never more workers than other CPUs."""
        found: list[_Worker] = []
        with self.lock:
            while len(found) < wanted:
                if self.idle:
                    found.append(self.idle.pop())
                elif len(self.all) < max(1, host.cpus() - 1):
                    self.all.append(_Worker(self, len(self.all)))
                    found.append(self.all[-1])
                else:
                    break
        return found


_pool = _Pool()


def _forget() -> None:
    """Threads do not survive a fork, and a lock that another thread held stays held."""
    _pool.all, _pool.idle, _pool.lock = [], [], threading.Lock()


def _smallest(offsets: Iterable[int | None]) -> int | None:
    return min((offset for offset in offsets if offset is not None), default=None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
