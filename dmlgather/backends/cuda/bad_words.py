"""Words in device memory for the smallest offset of a bad index, one for each stream of a program."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Any

from dmlgather.backends.cuda.driver import DeviceMemory, require
from dmlgather.backends.devices import PER_THREAD

WORDS = 32
"""Streams of one program that keep their words, and words that are allocated at a time."""
NOTHING_BAD = b"\xff" * 8


class BadWord:
    """A word for the launches on one stream. `BadWords` gives it to another stream when nobody holds it."""

    def __init__(self, words: BadWords, address: int, event: Any) -> None:
        self.address, self._event = address, event
        self._runtime, self._free, self._pinned = words.runtime, words.free, words.pinned
        self._captured = False

    def __del__(self) -> None:
        self._free.append((self.address, self._event))

    def launched(self, stream: int) -> None:
        """Behind a launch on the stream that writes the word."""
        if self._captured:
            return
        if self._runtime.streamIsCapturing(stream):
            self._captured = True
            self._pinned.append(self)
        else:
            self._runtime.eventRecord(self._event.ptr, stream)


class BadWords:
    """The words of one program.

    The last `WORDS` streams keep theirs; one that comes again after as many others gets another. A word serves again when its
    last launch has run and its outcome is dropped, so that any number of streams, one after the other, need few words. Nothing
    waits. A word that a graph writes is kept as long as the program, because the graph may run at any time.
    """

    def __init__(self, device: int) -> None:
        cupy = require(device)
        self.runtime, self._cuda, self._device = cupy.cuda.runtime, cupy.cuda, device
        self.free = deque[tuple[int, Any]]()
        """Addresses that no stream has, and the event behind the last launch that writes there, None if there was none."""
        self.pinned: list[BadWord] = []
        self._of: OrderedDict[tuple[int, int], BadWord] = OrderedDict()
        self._last: tuple[tuple[int, int], BadWord] | None = None
        self._chunks: list[DeviceMemory] = []
        self._lock = threading.Lock()
        self._grow()

    def of(self, stream: int) -> BadWord | None:
        """The stream's word; None where it has none by now."""
        with self._lock:
            return self._of.get(_key(stream))

    def reset(self, stream: int) -> BadWord:
        """The stream's word, which a memset on the stream resets to "nothing bad"."""
        key, last = _key(stream), self._last
        word = last[1] if last is not None and last[0] == key else self._used(key)
        self.runtime.memsetAsync(word.address, NOTHING_BAD[0], len(NOTHING_BAD), stream)
        return word

    def _used(self, key: tuple[int, int]) -> BadWord:
        """The word of the stream that is now the last one."""
        left = None
        with self._lock:
            word = self._of.get(key)
            if word is None:
                word = self._of[key] = self._claimed()
                if len(self._of) > WORDS:
                    left = self._of.popitem(last=False)
            else:
                self._of.move_to_end(key)
            self._last = key, word
        del left  # free from here on, unless somebody holds it
        return word

    def _claimed(self) -> BadWord:
        address, event = self.free.popleft() if self.free else self._grow()
        if event is not None and not event.done:
            self.free.append((address, event))
            address, event = self._grow()
        if event is None:
            with self._cuda.Device(self._device):
                event = self._cuda.Event(disable_timing=True)
        return BadWord(self, address, event)

    def _grow(self) -> tuple[int, Any]:
        """One of new words; the others are free, before those that were used."""
        chunk = DeviceMemory(NOTHING_BAD * WORDS, self._device)
        self._chunks.append(chunk)
        self.free.extendleft((chunk.pointer + len(NOTHING_BAD) * number, None) for number in range(WORDS))
        return self.free.popleft()


def _key(stream: int) -> tuple[int, int]:
    return stream, threading.get_ident() if stream == PER_THREAD else 0
