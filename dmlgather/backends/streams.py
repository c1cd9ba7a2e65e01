"""Stream ordering: a call waits for the streams that wrote its arrays, and later users of the arrays wait for the call.

Streams wait for each other by events. The host does not wait. Memory of other libraries is kept until the call has run.
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

Key: TypeAlias = tuple[int, int, int]
"""Number of the GPU, address of the stream, and for cudaStreamPerThread the thread, else 0."""


class Kept:
    """Arrays of other libraries that a GPU may still use. The next call drops those of all calls that have run.

    Each stream has a queue of calls. If `QUEUE` calls of a stream have not run, its next call waits for the oldest. So memory
    is bounded, and the GPU always has work. At exit, the process waits for all calls, before the libraries that own the memory
    shut down.
    """

    def __init__(self) -> None:
        self._queues: dict[Key, deque[tuple[Any, Sequence[Any]]]] = {}
        self._lock = threading.Lock()
        self._registered = False

    def __len__(self) -> int:
        """Return the number of calls whose arrays are kept. Some of these calls may have run already."""
        return sum(map(len, list(self._queues.values())))

    def add(self, key: Key, event: Any, views: Sequence[Any]) -> None:
        """Keep these arrays until `event` is done. Drop the arrays of all events that are done already."""
        with self._lock:
            self._queues.setdefault(key, deque()).append((event, views))
            if not self._registered:  # late, so that `finish` runs before the libraries' own exit functions
                atexit.register(self.finish)
                self._registered = True
        done = self._pop_done()  # deleted without the lock: deleting other libraries' memory may run any code
        while (oldest := self._pop_overflow(key)) is not None:
            oldest[0].synchronize()
            done.append(oldest)

    def finish(self) -> None:
        """Wait for all events, and drop all arrays. Ignore errors: a GPU that has failed does not read memory."""
        with self._lock:
            entries = [entry for queue in self._queues.values() for entry in queue]
            self._queues.clear()
        for event, _ in entries:
            with suppress(RuntimeError):
                event.synchronize()

    def _pop_done(self) -> list[tuple[Any, Sequence[Any]]]:
        done = []
        with self._lock:
            for key, queue in list(self._queues.items()):
                while queue and queue[0][0].done:
                    done.append(queue.popleft())
                if not queue:
                    del self._queues[key]
        return done

    def _pop_overflow(self, key: Key) -> tuple[Any, Sequence[Any]] | None:
        with self._lock:
            queue = self._queues.get(key, ())
            return queue.popleft() if isinstance(queue, deque) and len(queue) > QUEUE else None


KEPT = Kept()


class StreamOrder:
    """The work that is left for the end of a call. Both attributes are dicts with GPU numbers as keys.

    `followers`: the streams that must wait for the call, as (number of the stream's GPU, address of the stream).
    `views`: the arrays to keep until the call has run.
    """

    def __init__(self) -> None:
        self.followers: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        self.views: defaultdict[int, list[Any]] = defaultdict(list)

    def end(self) -> None:
        """Make all `followers` wait for the call, and keep the arrays in `views` until it has run."""
        for number in {*self.followers, *self.views}:
            current_stream = current(number)
            if is_capturing(number, current_stream):
                continue
            event = _recorded(number, current_stream)
            for follower in self.followers[number]:
                _wait(*follower, event)
            if self.views[number]:
                thread = threading.get_ident() if current_stream == PER_THREAD else 0
                KEPT.add((number, current_stream, thread), event, self.views[number])


class _Threads(threading.local):
    order: StreamOrder | None = None


_this_thread = _Threads()


@contextmanager
def ordered_call(*, within: bool = False) -> Iterator[None]:
    """Treat the body as one call. At the end, make streams wait and keep arrays, as `order_with` and `keep` have requested.

    `within`: if this thread is in such a call already, join it.
    """
    if within and _this_thread.order is not None:
        yield
        return
    outer, order = _this_thread.order, StreamOrder()
    _this_thread.order = order
    try:
        yield
    finally:
        _this_thread.order = outer
        order.end()


@contextmanager
def on_stream(pointer: int, device: Device) -> Iterator[None]:
    """In the body, make the stream at this address CuPy's current stream."""
    import cupy

    with device.current(), cupy.cuda.Stream.from_external(_CudaStream(pointer)):
        yield


def current(number: int) -> int:
    """Return the address of CuPy's current stream of a GPU."""
    import cupy

    return int(cupy.cuda.get_current_stream(number).ptr)


def is_same(one: int, other: int) -> bool:
    """Return True if two addresses name the same stream. For example, 0 and `LEGACY` do."""
    return (one or LEGACY) == (other or LEGACY)


def is_capturing(number: int, stream: int) -> bool:
    """Return True if a graph is being captured on a stream."""
    import cupy

    with cupy.cuda.Device(number):
        return bool(cupy.cuda.runtime.streamIsCapturing(stream))


def order_with(number: int, stream: int, owner: int | None = None) -> bool:
    """Order CuPy's current stream of GPU `number` with `stream`, in both directions. Return False if they are the same stream.

    The current stream waits for `stream` now. At the end of this thread's call, `stream` waits for the current stream. During a
    graph capture, neither waits: the code that launches the graph must order the streams.
    `owner`: the number of the GPU that `stream` belongs to; None for `number`.
    """
    current_stream, owner = current(number), number if owner is None else owner
    if owner == number and is_same(current_stream, stream):
        return False
    if not is_capturing(number, current_stream):
        _wait(number, current_stream, _recorded(owner, stream))
        if _this_thread.order is not None:
            _this_thread.order.followers[number].add((owner, stream))
    return True


def keep(number: int, view: Any) -> None:
    """Keep the memory of an array on GPU `number` alive until this thread's call has run."""
    if _this_thread.order is not None:
        _this_thread.order.views[number].append(view)


def _recorded(number: int, stream: int) -> Any:
    import cupy

    with cupy.cuda.Device(number):
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, stream)
    return event


def _wait(number: int, stream: int, event: Any) -> None:
    import cupy

    with cupy.cuda.Device(number):  # address 0 names a stream of the current GPU
        cupy.cuda.runtime.streamWaitEvent(stream, event.ptr, 0)


@dataclass(frozen=True, slots=True)
class _CudaStream:
    """A stream's address with CUDA's stream protocol.

    Address 0 becomes `LEGACY`, because CuPy may take 0 for the thread's own stream.
    """

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer or LEGACY
