"""The choice between the engine and NumPy for a plan on the CPU. Elements that hold references always use NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.backends.cpu import CpuProgram, engine, prepare
from dmlgather.plan import IndexPlan, OutOfBounds
from tests.backends.shapes import Kind, gather

PLAN = gather((4, 2), (3,), 0, Kind(8)).plan


class RecordingEngine:
    """A stand-in for the engine and its program that records requests and moves nothing."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def prepare(self, canonical: IndexPlan, threads: int = 0, block_units: int = 0, loops: str = "") -> RecordingEngine:
        self.asked.append((canonical, threads, block_units, loops))
        return self

    def bind(self, *buffers: NDArray[Any] | None) -> Callable[[], int | None]:
        self.asked.append(buffers)
        return lambda: 7

    def run(self, *buffers: NDArray[Any] | None) -> int | None:
        return self.bind(*buffers)()

    def describe(self) -> str:
        return "recorded"


def test_the_engine_runs_every_plan_of_plain_elements() -> None:
    recording: Any = RecordingEngine()
    program = CpuProgram(PLAN, recording, threads=3, block_units=5, loops="avx2")
    data, indices, out = np.arange(8.0), np.array([1, 0, 3]), np.zeros(6)
    assert program.describe() == "recorded"
    assert program.run(data, indices, out) == 7
    assert program.run(data, indices, out) == 7
    assert recording.asked == [(program.canonical, 3, 5, "avx2"), (data, indices, out), (data, indices, out)]
    assert not out.any()


def test_numpy_runs_elements_that_hold_references() -> None:
    recording: Any = RecordingEngine()
    out = np.zeros(6, object)
    things = np.array([object() for _ in range(8)], object)
    assert CpuProgram(PLAN, recording).run(things, np.array([1, 0, 3]), out) is None
    assert out.tolist() == things.reshape(4, 2)[[1, 0, 3]].reshape(-1).tolist()
    assert recording.asked == []


def test_buffers_are_refused_before_the_engine_sees_them() -> None:
    recording: Any = RecordingEngine()
    with pytest.raises(ValueError, match="the output buffer has 5 elements, expected at least 6"):
        CpuProgram(PLAN, recording).run(np.zeros(8), np.zeros(3, np.int64), np.zeros(5))
    assert recording.asked == []


def test_without_the_engine_numpy_runs_and_says_why() -> None:
    assert CpuProgram(PLAN, None).describe() == (
        "take: units are taken at the addresses that the indices lead to; moves [3] units of 16 bytes; "
        f"by NumPy, as {engine.status()}"
    )


@pytest.mark.parametrize(
    ("plan", "moves"),
    [
        (gather((7, 0), (5,), 0, Kind(policy=OutOfBounds.RAISE)).plan, "nothing"),
        (gather((7, 0), (5,)).plan, "nothing"),
        (IndexPlan((), (), (), 4, in_extent=1, out_extent=1), "[1] units of 4 bytes"),
        (gather((2, 2**17), (3,), 0, Kind(8)).plan, "[3, 131072] units of 8 bytes"),
    ],
)
def test_a_description_states_what_numpy_moves(plan: IndexPlan, moves: str) -> None:
    assert f"; moves {moves}; " in CpuProgram(plan, None).describe()


def test_prepare_uses_the_loaded_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "load", RecordingEngine)
    assert prepare(PLAN).describe() == "recorded"
    monkeypatch.setattr(engine, "load", lambda: None)
    assert prepare(PLAN).describe().startswith("take: ")
