"""What launches may still read when the calls that made them have returned."""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

QUEUE = 64
"""Calls in one queue."""

Key: TypeAlias = tuple[int, int, int]
"""Of a queue: the number of the GPU, the address of the stream, and the thread, 0 but where each has a stream of this address."""


class Kept:
    """Views of memory that belongs to other libraries, each kept until the event behind its launch has passed: a queue for each
    stream, in the order of the launches.

    Later calls of any stream drop what has passed, and so does nothing else: the views of the last call are kept until the next
    one. Nothing waits, with one exception: a call on a stream of which `QUEUE` calls have not run waits for the oldest of them.
    So memory is bounded, and the GPU always has work. A stream may end before its queue: its events pass all the same, and an
    empty queue is dropped. At the end of the process what is left is waited for, before the libraries that own it are taken down.
    """

    def __init__(self) -> None:
        self._queues: dict[Key, deque[tuple[Any, Sequence[Any]]]] = {}
        self._lock = threading.Lock()
        self._ends = False

    def __len__(self) -> int:
        """The number of calls whose views are kept."""
        return sum(map(len, list(self._queues.values())))

    def add(self, key: Key, event: Any, views: Sequence[Any]) -> None:
        """Keep views until a recorded event (cupy.cuda.Event) passes; drop all that have."""
        with self._lock:
            self._queues.setdefault(key, deque()).append((event, views))
            if not self._ends:  # behind the imports of those libraries, so that this comes before what they do at the end
                atexit.register(self.finish)
                self._ends = True
        passed = self._taken()  # dropped without the lock: it belongs to others, who may do anything then
        while (oldest := self._oldest(key)) is not None:
            oldest[0].synchronize()
            passed.append(oldest)

    def finish(self) -> None:
        """Wait for all, and drop it. A GPU that has failed has nothing more to read."""
        with self._lock:
            left = [entry for queue in self._queues.values() for entry in queue]
            self._queues.clear()
        for event, _ in left:
            with suppress(RuntimeError):
                event.synchronize()

    def _taken(self) -> list[tuple[Any, Sequence[Any]]]:
        """What has passed, which is no longer kept."""
        passed = []
        with self._lock:
            for key, queue in list(self._queues.items()):
                while queue and queue[0][0].done:
                    passed.append(queue.popleft())
                if not queue:
                    del self._queues[key]
        return passed

    def _oldest(self, key: Key) -> tuple[Any, Sequence[Any]] | None:
        """What is first in a queue that is too long."""
        with self._lock:
            queue = self._queues.get(key, ())
            return queue.popleft() if isinstance(queue, deque) and len(queue) > QUEUE else None


KEPT = Kept()
"""Of all calls of the process."""
