"""Words in device memory that receive the smallest offset of a bad index."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Any

from dmlgather.backends.cuda.driver import DeviceMemory, require
from dmlgather.backends.devices import PER_THREAD

WORDS = 32
"""Most streams that have a word of a program at the same time."""
NOTHING_BAD = b"\xff" * 8
"""The largest 64-bit offset."""


class BadWord:
    """Eight bytes of device memory that receive the smallest offset of a bad index, for launches on one stream.

    When this object is deleted, another stream can use the memory.
    """

    def __init__(self, words: BadWords, address: int, event: Any) -> None:
        self.address, self._event = address, event
        self._runtime, self._free, self._pinned = words.runtime, words.free, words.pinned
        self._captured = False

    def __del__(self) -> None:
        self._free.append((self.address, self._event))

    def launched(self, stream: int) -> None:
        """After a launch, record an event. No other stream gets the memory before the event is done.

        In a graph capture, keep the word as long as the program instead, because the graph may run at any time.
        """
        if self._captured:
            return
        if self._runtime.streamIsCapturing(stream):
            self._captured = True
            self._pinned.append(self)
        else:
            self._runtime.eventRecord(self._event.ptr, stream)


class BadWords:
    """The `BadWord` objects of one program: one for each of the `WORDS` most recently used streams.

    Another stream gets a word's memory only after the last launch with this word has run and its outcome is deleted. So a few
    words are enough for any number of streams, and no call waits for the GPU.
    """

    def __init__(self, device: int) -> None:
        cupy = require(device)
        self.runtime, self._cuda, self._device = cupy.cuda.runtime, cupy.cuda, device
        self.free = deque[tuple[int, Any]]()
        """Address of each free word, and the event after its last launch, or None."""
        self.pinned: list[BadWord] = []
        self._of: OrderedDict[tuple[int, int], BadWord] = OrderedDict()
        self._last: tuple[tuple[int, int], BadWord] | None = None
        self._chunks: list[DeviceMemory] = []
        self._lock = threading.Lock()
        self._grow()

    def of(self, stream: int) -> BadWord | None:
        """Return the stream's word, or None if it has none. A stream can lose its word to another stream."""
        with self._lock:
            return self._of.get(_key(stream))

    def reset(self, stream: int) -> BadWord:
        """Set the stream's word to `NOTHING_BAD`, by a memset on the stream, and return the word."""
        key, last = _key(stream), self._last
        word = last[1] if last is not None and last[0] == key else self._recent(key)
        self.runtime.memsetAsync(word.address, NOTHING_BAD[0], len(NOTHING_BAD), stream)
        return word

    def _recent(self, key: tuple[int, int]) -> BadWord:
        dropped = None
        with self._lock:
            word = self._of.get(key)
            if word is None:
                word = self._of[key] = self._new()
                if len(self._of) > WORDS:
                    dropped = self._of.popitem(last=False)
            else:
                self._of.move_to_end(key)
            self._last = key, word
        del dropped  # outside the lock, because this frees the word unless an outcome holds it
        return word

    def _new(self) -> BadWord:
        address, event = self.free.popleft() if self.free else self._grow()
        if event is not None and not event.done:
            self.free.append((address, event))
            address, event = self._grow()
        if event is None:
            with self._cuda.Device(self._device):
                event = self._cuda.Event(disable_timing=True)
        return BadWord(self, address, event)

    def _grow(self) -> tuple[int, Any]:
        chunk = DeviceMemory(NOTHING_BAD * WORDS, self._device)
        self._chunks.append(chunk)
        self.free.extendleft((chunk.pointer + len(NOTHING_BAD) * number, None) for number in range(WORDS))
        return self.free.popleft()


def _key(stream: int) -> tuple[int, int]:
    return stream, threading.get_ident() if stream == PER_THREAD else 0
