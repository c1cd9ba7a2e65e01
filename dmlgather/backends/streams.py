"""The order of a call among the streams of a GPU: whose work it waits for, who waits for it, and what is kept until it has run.

Streams wait for each other by events. The host waits for none of them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dmlgather.backends.devices import LEGACY, PER_THREAD, Device
from dmlgather.backends.kept import KEPT


class Handover:
    """What a call owes to others when it is over, by the number of the GPU.

    followers: streams that are to wait for it. views: of memory that its owner may use for something else once they are gone.
    """

    def __init__(self) -> None:
        self.followers: defaultdict[int, set[int]] = defaultdict(set)
        self.views: defaultdict[int, list[Any]] = defaultdict(list)

    def end(self) -> None:
        """Behind the last launch: an event on each GPU tells the followers, and `KEPT`, that all has run."""
        for number in {*self.followers, *self.views}:
            here = current(number)
            if is_capturing(here):
                continue
            event = _recorded(number, here)
            for stream in self.followers[number]:
                _wait(stream, event)
            if self.views[number]:
                KEPT.add((number, here, threading.get_ident() if here == PER_THREAD else 0), event, self.views[number])


class _Threads(threading.local):
    handover: Handover | None = None
    """The call that the thread makes."""


_this_thread = _Threads()


@contextmanager
def handover() -> Iterator[None]:
    """A call on CuPy's current streams, to which `meet` and `keep` belong."""
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


def is_capturing(stream: int) -> bool:
    """Whether a graph is being captured on the stream."""
    import cupy

    return bool(cupy.cuda.runtime.streamIsCapturing(stream))


def meet(number: int, stream: int) -> bool:
    """CuPy's current stream of GPU `number` waits for what `stream` has to do by now, and `stream` will wait for this thread's
    call. False where both are one stream, so that there is nothing to do.

    While a graph is captured nothing waits: it runs whenever its owner launches it, and its owner orders it.
    """
    here = current(number)
    if is_same(here, stream):
        return False
    if not is_capturing(here):
        _wait(here, _recorded(number, stream))
        if _this_thread.handover is not None:
            _this_thread.handover.followers[number].add(stream)
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


def _wait(stream: int, event: Any) -> None:
    import cupy

    cupy.cuda.runtime.streamWaitEvent(stream, event.ptr, 0)


@dataclass(frozen=True, slots=True)
class _CudaStream:
    """An address as the object that the CUDA stream protocol asks for. Stream 0 goes by its other address: of CuPy's DLPack,
    0 means the stream of the thread, where CuPy works on those.
    """

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer or LEGACY
