"""Calls that run on another GPU than their arrays. Copies wait for the writers of their source, later users of a source or a
result wait for the copies, and memory returns to its pool only after it was read. Judge: NumPy.

A fault shows if work is late, under SIMCUDA_LATE=1 or in a random order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import arrays, streams
from tests import seeds

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu(devices=2)

ROWS, WIDTH, COUNT = 50, 24, 40
DESC = dg.GatherOperatorDesc.of(((ROWS, WIDTH), "float32"), ((COUNT,), "int64"), axis=0)
SPOILT = np.float32(-5)


class Held:
    """A table and indices on one GPU, freshly written by a slow stream, and the expected result of a gather."""

    def __init__(self, number: int, *, transposed: bool = False) -> None:
        rng = seeds.numpy_rng()
        self.number, self.table, self.ids = number, rng.random((ROWS, WIDTH), np.float32), rng.integers(0, ROWS, COUNT)
        with cupy.cuda.Device(number):
            lying = cupy.asarray(np.asfortranarray(self.table) if transposed else self.table)
            assert lying.flags.f_contiguous == transposed
            self.x, self.i = lying, cupy.asarray(self.ids)
        self.expected = self.table[self.ids]

    def spoil(self) -> None:
        """Overwrite the inputs on the caller's stream after the call."""
        with cupy.cuda.Device(self.number):
            self.x.fill(SPOILT)
            self.i.fill(0)

    def drop(self) -> None:
        """Drop the inputs and let other arrays take their memory."""
        del self.x, self.i
        reuse(self.number, ROWS * WIDTH, np.float32)
        reuse(self.number, COUNT, np.int64)


def reuse(number: int, count: int, dtype: Any) -> None:
    """Write new arrays of this size, which take free memory of the pool."""
    with cupy.cuda.Device(number):
        for _ in range(4):
            cupy.full(count, SPOILT, dtype)


def new(number: int) -> Any:
    with cupy.cuda.Device(number):
        return cupy.full((COUNT, WIDTH), SPOILT)


def compiled(target: int) -> dg.CompiledOperator:
    return dg.compile(DESC, device=f"cuda:{target}")


CALLS: dict[str, Callable[[Held, int], Any]] = {
    "operator": lambda held, target: compiled(target)(held.x, held.i),
    "into_the_home": lambda held, target: compiled(target)(held.x, held.i, out=new(held.number)),
    "into_the_target": lambda held, target: compiled(target)(held.x, held.i, out=new(target)),
    "out_elsewhere": lambda held, target: compiled(held.number)(held.x, held.i, out=new(target)),
    "eager": lambda held, target: dg.onnx.gather(held.x, held.i, axis=0, device=f"cuda:{target}"),
    "silent": lambda held, target: dg.openvino.gather(held.x, held.i, 0, device=f"cuda:{target}"),
    "chain": lambda held, target: dg.index[held.i][::-1][::-1](held.x, device=f"cuda:{target}"),
    "chain_into_out": lambda held, target: dg.index[held.i][::-1][::-1](held.x, out=new(target), device=f"cuda:{held.number}"),
}


@pytest.mark.parametrize("transposed", [False, True], ids=["packed", "transposed"])
@pytest.mark.parametrize("then", ["spoil", "drop"])
@pytest.mark.parametrize("home", [0, 1])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_read_from_another_gpu_in_order(call: Callable[[Held, int], Any], home: int, then: str, transposed: bool) -> None:
    held = Held(home, transposed=transposed)
    found = call(held, 1 - home)
    getattr(held, then)()
    for number in (0, 1):  # temporary arrays of the call
        for count, dtype in ((ROWS * WIDTH, np.float32), (COUNT, np.int64), (COUNT * WIDTH, np.float32)):
            reuse(number, count, dtype)
    assert found.get().tobytes() == held.expected.tobytes()


@pytest.mark.parametrize("home", [0, 1])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_on_non_blocking_streams_run_in_order(call: Callable[[Held, int], Any], home: int) -> None:
    """The results are read on the current stream of their GPU."""
    with ExitStack() as stack:
        for number in (0, 1):
            with cupy.cuda.Device(number):
                stack.enter_context(cupy.cuda.Stream(non_blocking=True))
        held = Held(home)
        found = call(held, 1 - home)
        held.spoil()
        with found.device:
            assert found.get().tobytes() == held.expected.tobytes()


@pytest.mark.parametrize("name", ["operator", "eager", "silent", "chain"])
def test_memory_freed_on_another_stream_is_kept_until_read(name: str) -> None:
    """The stream of the allocation waits for no other stream, so only a reference protects the memory from reuse."""
    with cupy.cuda.Stream(non_blocking=True) as maker:
        held = Held(0)
        maker.synchronize()
    found = CALLS[name](held, 1)
    with maker:
        held.drop()
        maker.synchronize()
    assert found.get().tobytes() == held.expected.tobytes()


@pytest.mark.parametrize("captured", [0, 1])
def test_a_capture_refuses_a_copy_between_gpus(captured: int) -> None:
    """The refusal is an error with advice on either GPU, and the stream stays usable."""
    held, op, out = Held(0), dg.compile(DESC, device="cuda:1"), new(0)
    op(held.x, held.i, out=out)
    for number in (0, 1):
        cupy.cuda.Device(number).synchronize()
    with cupy.cuda.Device(captured), cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(RuntimeError, match=r"^a graph is captured, but an array has to be copied from cuda:0 to cuda:1: "):
            op(held.x, held.i, out=out)
        stream.end_capture()
        stream.synchronize()
    assert op(held.x, held.i, out=out).get().tobytes() == held.expected.tobytes()


@pytest.fixture
def nothing_kept() -> Iterator[None]:
    streams.KEPT.finish()
    yield
    streams.KEPT.finish()


BROKEN: dict[str, tuple[Any, str, Any]] = {
    "the copy waits for nobody": (streams, "order_with", lambda number, stream, owner=None: False),
    "the source goes back to its pool": (streams, "keep", lambda number, view: None),
    "CuPy copies": (arrays, "_from_gpu_to_gpu", lambda array, source, target: _as_cupy_does(array, target)),
}


def _as_cupy_does(array: Any, target: Any) -> Any:
    with target.current():
        return cupy.asarray(array, blocking=True)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_removed_waiting_is_noticed(nothing_kept: None, monkeypatch: pytest.MonkeyPatch, broken: tuple[Any, str, Any]) -> None:
    from tests.gpus import late

    if not late():
        pytest.skip("shows for certain only where all is late: SIMCUDA_LATE=1")
    monkeypatch.setattr(*broken)
    wrong = 0
    trials = [
        partial(test_calls_read_from_another_gpu_in_order, call, 0, then, False)
        for call in CALLS.values()
        for then in ("spoil", "drop")
    ]
    for trial in (*trials, partial(test_memory_freed_on_another_stream_is_kept_until_read, "operator")):
        try:
            trial()
        except (AssertionError, IndexError):  # new indices
            wrong += 1
    assert wrong
