"""The order of a call among the streams of a GPU: whose work it waits for, who waits for it, and what is kept until it has run.

Streams wait for each other by events. The host waits for none of them.
"""

from __future__ import annotations

import atexit
import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from dmlgather.backends.devices import LEGACY, PER_THREAD, Device

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


class Handover:
    """What a call owes to others when it is over, by the number of the GPU.

    followers: streams that are to wait for it, each by the number of its GPU and its address. views: of memory that its owner may
    use for something else once they are gone.
    """

    def __init__(self) -> None:
        self.followers: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        self.views: defaultdict[int, list[Any]] = defaultdict(list)

    def end(self) -> None:
        """Behind the last launch: an event on each GPU tells the followers, and `KEPT`, that all has run."""
        for number in {*self.followers, *self.views}:
            here = current(number)
            if is_capturing(number, here):
                continue
            event = _recorded(number, here)
            for follower in self.followers[number]:
                _wait(*follower, event)
            if self.views[number]:
                KEPT.add((number, here, threading.get_ident() if here == PER_THREAD else 0), event, self.views[number])


class _Threads(threading.local):
    handover: Handover | None = None
    """The call that the thread makes."""


_this_thread = _Threads()


@contextmanager
def handover(*, within: bool = False) -> Iterator[None]:
    """A call on CuPy's current streams, to which `meet` and `keep` belong. within: part of the call that the thread makes, if it
    makes one.
    """
    if within and _this_thread.handover is not None:
        yield
        return
    before, mine = _this_thread.handover, Handover()
    _this_thread.handover = mine
    try:
        yield
    finally:
        _this_thread.handover = before
        mine.end()


@contextmanager
def on_stream(pointer: int, device: Device) -> Iterator[None]:
    """Makes a stream of a GPU CuPy's current one."""
    import cupy

    with device.current(), cupy.cuda.Stream.from_external(_CudaStream(pointer)):
        yield


def current(number: int) -> int:
    """The address of CuPy's current stream of GPU `number`, in this thread."""
    import cupy

    return int(cupy.cuda.get_current_stream(number).ptr)


def is_same(one: int, other: int) -> bool:
    """Whether two addresses are one stream of a GPU."""
    return (one or LEGACY) == (other or LEGACY)


def is_capturing(number: int, stream: int) -> bool:
    """Whether a graph is being captured on a stream of GPU `number`."""
    import cupy

    with cupy.cuda.Device(number):
        return bool(cupy.cuda.runtime.streamIsCapturing(stream))


def meet(number: int, stream: int, owner: int | None = None) -> bool:
    """CuPy's current stream of GPU `number` waits for what `stream` has to do by now, and `stream` will wait for this thread's
    call. False where both are one stream, so that there is nothing to do.

    owner: the GPU of `stream`, None for the same. While a graph is captured nothing waits: it runs whenever its owner launches
    it, and its owner orders it.
    """
    here, owner = current(number), number if owner is None else owner
    if owner == number and is_same(here, stream):
        return False
    if not is_capturing(number, here):
        _wait(number, here, _recorded(owner, stream))
        if _this_thread.handover is not None:
            _this_thread.handover.followers[number].add((owner, stream))
    return True


def keep(number: int, view: Any) -> None:
    """Keep a view of memory on GPU `number` until this thread's call has run."""
    if _this_thread.handover is not None:
        _this_thread.handover.views[number].append(view)


def _recorded(number: int, stream: int) -> Any:
    """An event behind what a stream of GPU `number` has to do by now."""
    import cupy

    with cupy.cuda.Device(number):
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, stream)
    return event


def _wait(number: int, stream: int, event: Any) -> None:
    """A stream of GPU `number` waits for an event, of this GPU or another. The GPU is made the current one, because addresses
    such as 0 name a stream of that.
    """
    import cupy

    with cupy.cuda.Device(number):
        cupy.cuda.runtime.streamWaitEvent(stream, event.ptr, 0)


@dataclass(frozen=True, slots=True)
class _CudaStream:
    """An address as the object that the CUDA stream protocol asks for. Stream 0 goes by its other address: of CuPy's DLPack,
    0 means the stream of the thread, where CuPy works on those.
    """

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer or LEGACY
