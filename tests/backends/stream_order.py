"""What happens before what on streams, by what was asked of them: the judge of a call's order, which knows nothing of dmlgather.

An order is a list of entries. ("launch", stream), and ("work", stream, name) by the test itself, are work on a stream, which
comes behind all earlier work there. ("record", event, stream) and ("wait", stream, event) order streams. 0 and 1 are one stream.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

XLA = 500
"""The stream on which the stand-in for JAX writes."""


def pasts(order: Iterable[tuple[Any, ...]]) -> dict[str, frozenset[str]]:
    """For each work, what is over before it begins. Launches are called "launch 0", "launch 1", …."""
    done: defaultdict[int, frozenset[str]] = defaultdict(frozenset)
    events: dict[int, frozenset[str]] = {}
    found: dict[str, frozenset[str]] = {}
    launches = 0
    for what, *more in order:
        if what in ("launch", "work"):
            stream = more[0] or 1
            name = more[1] if what == "work" else f"launch {launches}"
            launches += what == "launch"
            found[name] = done[stream]
            done[stream] |= {name}
        elif what == "record":
            events[more[0]] = done[more[1] or 1]
        elif what == "wait":
            done[more[0] or 1] |= events[more[1]]
    return found


def check(order: Iterable[tuple[Any, ...]]) -> int:
    """AssertionError unless what is called "made …" is over before each launch, and each launch before what is called "next …".
    The number of launches.
    """
    found = pasts(order)
    launches = {name for name in found if name.startswith("launch")}
    made = {name for name in found if name.startswith("made")}
    for name in launches:
        assert made <= found[name], f"{sorted(made - found[name])} may come behind {name}"
    for name in found:
        if name.startswith("next"):
            assert launches <= found[name], f"{name} may come before {sorted(launches - found[name])}"
    return len(launches)


class JaxArray:
    """What dmlgather uses of a jax.Array on a GPU. When the last view of its memory is gone, ("free", name) is noted."""

    def __init__(self, held: np.ndarray[Any, Any], driver: Any, name: str = "array") -> None:
        self.held, self._driver, self._name = held, driver, name
        self.shape, self.dtype = held.shape, held.dtype

    def is_deleted(self) -> bool:
        return False

    def devices(self) -> set[str]:
        return {"cuda:0"}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: int) -> np.ndarray[Any, Any]:
        event = self._driver.cuda.Event(disable_timing=True)
        self._driver.eventRecord(event.ptr, XLA)
        self._driver.streamWaitEvent(stream, event.ptr, 0)
        view = self.held.view()
        weakref.finalize(view, self._driver.order.append, ("free", self._name))
        return view


def jax_of(driver: Any) -> SimpleNamespace:
    """As much of JAX as is asked for."""
    return SimpleNamespace(
        Array=JaxArray,
        core=SimpleNamespace(Tracer=type(None)),
        numpy=SimpleNamespace(issubdtype=lambda *_: False),
        dtypes=SimpleNamespace(extended=None),
        enable_x64=lambda on: nullcontext(),
        dlpack=SimpleNamespace(from_dlpack=lambda array: JaxArray(array.held, driver)),
    )


class Interfaced:
    """An array with nothing but `__cuda_array_interface__`, version 3. stream: as there."""

    def __init__(self, held: np.ndarray[Any, Any], stream: int | None) -> None:
        self.held = held
        self.__cuda_array_interface__ = {**held.__array_interface__, "version": 3, "stream": stream}
