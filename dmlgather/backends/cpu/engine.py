"""The compiled engine: where it comes from, and whether it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from dmlgather.plan import IndexPlan


class EngineProgram(Protocol):
    """A canonical plan that the engine has prepared. It may run in any number of threads at once."""

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """The plan on these buffers, which are checked, as one function; it returns what `run` returns."""

    def run(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
        """Execute the plan on buffers that are checked. Returns the smallest offset of a bad index under RAISE."""

    def describe(self) -> str:
        """The inner loop, blocks, instruction set and threads."""


class Engine(Protocol):
    """The compiled engine of this process."""

    def prepare(self, canonical: IndexPlan, threads: int = 0, block_units: int = 0, loops: str = "") -> EngineProgram:
        """A program for a canonical plan. threads, block_units and loops (the instruction set) are for tests."""


def load() -> Engine | None:
    """The engine, None where there is none."""
    return None


def status() -> str:
    """The engine that is in use, or why there is none, in one line."""
    return "this installation has no compiled engine"
