"""In what order calls ask streams and events of a GPU, and when they let memory go, over stand-ins that write it down.

Judged by `stream_order`: each launch comes behind those who wrote its arrays, and before those who use them next.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import streams, torch_tensors
from dmlgather.backends.streams import QUEUE
from dmlgather.distributed import chunk_operators
from tests import seeds
from tests.backends.stream_order import XLA, Interfaced, JaxArray, check, jax_of
from tests.gpu_page import PageDriver, Tensor, stand_in
from tests.test_operator import COUNT, ROWS, WIDTH, gather
from tests.test_operator_devices import DeviceArray

CUPY, TORCH, SIDE, OTHER = 1000, 7, 9, 31
"""CuPy's current stream, PyTorch's, one that a caller gives, and one of a third library."""


@pytest.fixture
def gpu() -> Iterator[PageDriver]:
    chunk_operators.compiled.cache_clear()
    with ExitStack() as stack:
        stack.callback(chunk_operators.compiled.cache_clear)
        driver = stand_in(stack)
        stack.enter_context(pytest.MonkeyPatch.context()).setitem(sys.modules, "jax", jax_of(driver))
        yield driver


class Library:
    """Whose arrays: how one is made, and the stream on which they are written and used, None where there is none to know."""

    def __init__(self, make: Callable[[PageDriver, Any], Any], stream: int | None) -> None:
        self.make, self.stream = make, stream


LIBRARIES = {
    "cupy": Library(lambda gpu, held: DeviceArray(held), CUPY),
    "torch": Library(lambda gpu, held: Tensor(held), TORCH),
    "jax": Library(lambda gpu, held: JaxArray(held, gpu), None),
    "interface, stream 31": Library(lambda gpu, held: Interfaced(held, OTHER), OTHER),
    "interface, legacy": Library(lambda gpu, held: Interfaced(held, 1), 0),
    "interface, per thread": Library(lambda gpu, held: Interfaced(held, 2), 2),
    "interface, no stream": Library(lambda gpu, held: Interfaced(held, None), None),
}


class Call:
    """A call of a row gather on arrays of these libraries: data, indices, output (None: a new one)."""

    def __init__(self, gpu: PageDriver, *libraries: str | None) -> None:
        self.gpu = gpu
        rng = seeds.numpy_rng()
        held = rng.random((ROWS, WIDTH), np.float32), rng.integers(-ROWS, ROWS, (1, COUNT)), np.zeros((COUNT, WIDTH), np.float32)
        self.libraries = [LIBRARIES[name] for name in libraries if name is not None]
        self.data, self.ids, self.out = (
            None if name is None else LIBRARIES[name].make(gpu, array) for name, array in zip(libraries, held, strict=True)
        )
        self.expected = held[0][held[1][0]].tobytes()

    def made(self) -> None:
        """The owners write the arrays."""
        for number, each in enumerate(self.libraries):
            if each.stream is not None:
                self.gpu.order.append(("work", each.stream, f"made {number}"))

    def used(self, result: Any) -> None:
        """The owners use the arrays and the result."""
        assert result.held.tobytes() == self.expected
        for number, each in enumerate(self.libraries):
            if each.stream is not None:
                self.gpu.order.append(("work", each.stream, f"next {number}"))


def called(call: Call, **more: Any) -> Any:
    return dg.compile(gather())(call.data, call.ids, out=call.out, **more)


def on_buffers(call: Call, **more: Any) -> Any:
    operator = dg.compile(gather())
    with pytest.MonkeyPatch.context() as patch:
        prepared = operator._prepared
        patch.setattr(operator, "_prepared", lambda *found, buffers: prepared(*found))  # the arrays are no buffers
        operator.run_buffers(call.data, call.ids, out=call.out, **more)
    return call.out


def bound(call: Call) -> Any:
    run = dg.compile(gather()).bind(call.data, call.ids, out=call.out)
    call.made()  # behind the exchange
    run()
    return call.out


def eager(call: Call) -> Any:
    return dg.onnx.gather(call.data, call.ids, out_of_bounds="clamp")


def fused(call: Call, **more: Any) -> Any:
    gather_rows = dg.fuse([dg.onnx.gather.problem(((ROWS, WIDTH), "float32"), ((1, COUNT), "int64"), out_of_bounds="clamp")])
    return gather_rows(call.data, call.ids, **more)


INPUTS = [
    ("torch", "torch"), ("cupy", "torch"), ("torch", "cupy"), ("jax", "torch"), ("jax", "jax"), ("torch", "jax"), ("jax", "cupy"),
    ("interface, stream 31", "interface, legacy"), ("interface, per thread", "torch"), ("cupy", "interface, stream 31"),
    ("interface, no stream", "interface, legacy"), ("torch", "interface, no stream"),
]  # fmt: skip
WITH_OUT = [
    ("torch", "torch", "torch"), ("cupy", "torch", "torch"), ("torch", "cupy", "cupy"), ("cupy", "cupy", "torch"),
    ("jax", "torch", "torch"), ("jax", "jax", "cupy"), ("torch", "jax", "interface, stream 31"), ("torch", "torch", "cupy"),
    ("interface, per thread", "torch", "torch"), ("interface, no stream", "interface, legacy", "cupy"),
    ("cupy", "interface, stream 31", "interface, per thread"), ("cupy", "cupy", "interface, legacy"),
]  # fmt: skip
RUNS: list[tuple[Callable[[Call], Any], tuple[str | None, ...]]] = [
    *((run, (*mixture, None)) for run in (called, eager, fused) for mixture in INPUTS),
    *((run, mixture) for run in (called, bound, on_buffers) for mixture in WITH_OUT),
]


def shown(value: Any) -> str:
    return value.__name__ if callable(value) else " | ".join(str(name or "new") for name in value)


@pytest.mark.parametrize(("run", "libraries"), RUNS, ids=shown)
def test_a_call_comes_behind_those_who_wrote_its_arrays_and_before_those_who_use_them(
    gpu: PageDriver, run: Callable[[Call], Any], libraries: tuple[str | None, ...]
) -> None:
    call = Call(gpu, *libraries)
    call.made()
    call.used(run(call))
    assert check(gpu.order) == 1
    assert not [entry for entry in gpu.order if entry[0] == "synchronize"]
    assert gpu.waited == []
    assert gpu.current == {}


@pytest.mark.parametrize("run", [called, eager, fused], ids=shown)
def test_tensors_alone_are_pytorchs_business_alone(gpu: PageDriver, run: Callable[[Call], Any]) -> None:
    """On its stream there is nothing to wait for, to record or to keep, so that torch.cuda.graph can capture the call."""
    call = Call(gpu, "torch", "torch", None)
    with sys.modules["torch"].cuda.stream(SimpleNamespace(cuda_stream=SIDE)):
        run(call)
    assert gpu.order == [("launch", SIDE)]


@pytest.mark.parametrize("libraries", [each for each in WITH_OUT if "torch" in each], ids=shown)
@pytest.mark.parametrize("run", [called, fused, on_buffers], ids=shown)
def test_a_given_stream_is_ordered_with_pytorchs_and_pytorch_is_told_of_it(
    gpu: PageDriver, run: Callable[..., Any], libraries: Any
) -> None:
    if run is fused:
        libraries = (*libraries[:2], None)
    call = Call(gpu, *libraries)
    for number, each in enumerate(call.libraries):
        if each.stream != CUPY:  # whose order with a given stream is the caller's
            gpu.order.append(("work", each.stream or XLA, f"made {number}"))
    run(call, stream=SIDE)
    if "torch" in libraries:
        gpu.order.append(("work", TORCH, "next"))
    assert check(gpu.order) == 1
    assert ("launch", SIDE) in gpu.order
    told = {entry[1:] for entry in gpu.order if entry[0] == "record_stream"}
    tensors = [array for array in (call.data, call.ids, call.out) if isinstance(array, Tensor)]
    assert told >= {(tensor.data_ptr(), SIDE) for tensor in tensors}
    assert {stream for _, stream in told} <= {SIDE}


@pytest.mark.parametrize("stream", [None, SIDE])
def test_a_result_for_pytorch_is_memory_of_pytorch(gpu: PageDriver, stream: int | None) -> None:
    """Of CuPy's, it would not know what PyTorch's streams still read when it is dropped."""
    made: list[Any] = []
    torch = sys.modules["torch"]
    plain = torch.empty

    def empty(*sizes: Any, **more: Any) -> Any:
        made.append(plain(*sizes, **more))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty", empty)
        results = [called(Call(gpu, "torch", "torch", None), stream=stream), eager(Call(gpu, "torch", "cupy", None))]
    assert [*map(id, results)] == [*map(id, made)]


def test_pytorchs_default_stream_is_told_by_its_own_name(gpu: PageDriver) -> None:
    """An external stream at address 1 would be another one."""
    for stream in (0, 1):
        gpu.order.clear()
        called(Call(gpu, "torch", "torch", "torch"), stream=stream)
        assert {entry[2] for entry in gpu.order if entry[0] == "record_stream"} == {0}


class TestPerThread:
    """CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1: CuPy's current stream is 2, which PyTorch's DLPack refuses; in CuPy's, 0 means 2."""

    @pytest.fixture(autouse=True)
    def per_thread(self, gpu: PageDriver) -> None:
        gpu.current[0] = gpu._default = 2

    @pytest.mark.parametrize(("run", "libraries"), RUNS, ids=shown)
    def test_the_order_is_kept(
        self, gpu: PageDriver, monkeypatch: pytest.MonkeyPatch, run: Callable[[Call], Any], libraries: tuple[str | None, ...]
    ) -> None:
        monkeypatch.setattr(LIBRARIES["cupy"], "stream", 2)
        monkeypatch.setattr(LIBRARIES["torch"], "stream", 0)
        call = Call(gpu, *libraries)
        with sys.modules["torch"].cuda.stream(SimpleNamespace(cuda_stream=0)):
            gpu.order.append(("work", XLA, "made by XLA") if "jax" in libraries else ("work", 99, "nothing"))
            call.made()
            call.used(run(call))
        assert check(gpu.order) == 1
        assert gpu.current == {0: 2}

    def test_tensors_are_kept_where_pytorch_cannot_be_told(self, gpu: PageDriver) -> None:
        gpu.busy.add(2)
        call = Call(gpu, "cupy", "torch", "torch")
        called(call)
        assert not [entry for entry in gpu.order if entry[0] == "record_stream"]
        assert len(streams.KEPT) == 1
        gpu.busy.clear()


def frees(gpu: PageDriver) -> list[str]:
    gc.collect()
    return [entry[1] for entry in gpu.order if entry[0] == "free"]


def rows(gpu: PageDriver, name: str) -> Any:
    return JaxArray(np.ones((ROWS, WIDTH), np.float32), gpu, name)


def ids(gpu: PageDriver) -> Any:
    return DeviceArray(np.zeros((1, COUNT), np.int64))


def model() -> Any:
    from onnx.parser import parse_model

    inputs = f"float[{ROWS},{WIDTH}] x, int64[1,{COUNT}] i"
    text = f"g ({inputs}) => (float[1,{COUNT},{WIDTH}] y) {{ y = Gather(x, i) }}"
    return parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')


RUNS_ON_JAX: dict[str, Callable[[Any, Any], Any]] = {
    "called": lambda x, i: dg.compile(gather())(x, i),  # noqa: PLW0108 - an operator keeps what a stand-in prepared
    "with out": lambda x, i: dg.compile(gather())(x, i, out=DeviceArray(np.zeros((COUNT, WIDTH), np.float32))),
    "bound": lambda x, i: dg.compile(gather()).bind(x, i, out=DeviceArray(np.zeros((COUNT, WIDTH), np.float32)))(),
    "a model": lambda x, i: dg.onnx.Backend.prepare(model(), "CUDA").run([x, i]),
    "a chunk's rows": lambda x, i: chunk_operators.take(x, 0, i.held[0]),
    "eager": lambda x, i: dg.onnx.gather(x, i, out_of_bounds="clamp"),
    "fused": lambda x, i: dg.fuse([dg.onnx.gather.problem((x.shape, x.dtype), (i.shape, i.dtype), out_of_bounds="clamp")])(x, i),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS_ON_JAX.values(), ids=RUNS_ON_JAX)
def test_an_array_of_jax_outlives_the_launch_that_reads_it(gpu: PageDriver, run: Callable[[Any, Any], Any]) -> None:
    gpu.busy.add(CUPY)
    run(rows(gpu, "first"), ids(gpu))
    run(rows(gpu, "second"), ids(gpu))
    assert frees(gpu) == []
    gpu.busy.clear()
    run(rows(gpu, "third"), ids(gpu))
    assert {*frees(gpu)} == {"first", "second", "third"}
    assert len(streams.KEPT) == 0
    assert not [entry for entry in gpu.order if entry[0] == "synchronize"]


def test_the_event_is_behind_the_launch_on_its_stream(gpu: PageDriver) -> None:
    gpu.busy.add(SIDE)
    dg.compile(gather())(rows(gpu, "only"), ids(gpu), stream=SIDE)
    launched = gpu.order.index(("launch", SIDE))
    assert [entry[0] for entry in gpu.order[launched + 1 :] if entry[-1] == SIDE] == ["record"]
    assert frees(gpu) == []


@pytest.mark.slow
def test_a_queue_that_is_full_waits_for_its_oldest_call_alone(gpu: PageDriver) -> None:
    gpu.busy.add(CUPY)
    operator = dg.compile(gather())
    for number in range(QUEUE):
        operator(rows(gpu, str(number)), ids(gpu))
    assert (len(streams.KEPT), frees(gpu)) == (QUEUE, [])
    assert not [entry for entry in gpu.order if entry[0] == "synchronize"]
    operator(rows(gpu, "one more"), ids(gpu), stream=SIDE)  # a queue of its own, which is empty at once
    assert (len(streams.KEPT), frees(gpu)) == (QUEUE, ["one more"])
    operator(rows(gpu, "too many"), ids(gpu))
    (waited,) = [entry for entry in gpu.order if entry[0] == "synchronize"]
    assert waited[1] == next(entry[1] for entry in gpu.order if entry[0] == "record" and entry[2] == CUPY)
    assert frees(gpu)[:2] == ["one more", "0"]
    assert len(streams.KEPT) <= QUEUE


def test_streams_that_end_leave_no_queues(gpu: PageDriver) -> None:
    operator = dg.compile(gather())
    for stream in range(3000, 3200):
        gpu.busy.add(stream)
        operator(rows(gpu, str(stream)), ids(gpu), stream=stream)
    assert len(streams.KEPT) == len(streams.KEPT._queues) == 200
    gpu.busy.clear()
    operator(rows(gpu, "last"), ids(gpu))
    assert len(streams.KEPT) == len(streams.KEPT._queues) == 0


def test_the_end_of_the_process_waits_for_what_is_left(gpu: PageDriver) -> None:
    gpu.busy.add(CUPY)
    dg.compile(gather())(rows(gpu, "only"), ids(gpu))
    streams.KEPT.finish()
    assert [entry[0] for entry in gpu.order if entry[0] in ("launch", "synchronize", "free")] == ["launch", "synchronize", "free"]


def test_the_end_comes_before_what_libraries_do_that_were_imported_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions for the end run in the reverse order."""
    registered: list[Any] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    queues = streams.Kept()
    assert registered == []
    for _ in range(2):
        queues.add((0, 1, 0), SimpleNamespace(done=True), [])
        assert registered == [queues.finish]


def test_a_call_that_fails_keeps_nothing_for_long(gpu: PageDriver) -> None:
    with pytest.raises(ValueError, match="expected shape"):
        dg.compile(gather())(JaxArray(np.ones((2, 2), np.float32), gpu), ids(gpu))
    assert (len(streams.KEPT), frees(gpu)) == (0, ["array"])
    assert streams._this_thread.handover is None


def test_nothing_waits_while_a_graph_is_captured(gpu: PageDriver) -> None:
    """A wait for a stream outside of the capture would end it."""
    call = Call(gpu, "torch", "torch", "torch")
    operator = dg.compile(gather())
    run = operator.bind(call.data, call.ids, out=call.out)
    run(SIDE)
    gpu.order.clear()
    gpu.captures[SIDE] = []
    run(SIDE)
    assert {entry[0] for entry in gpu.order} == {"record_stream"}
    assert len(gpu.captures.pop(SIDE)) == 1


BROKEN: dict[str, tuple[Any, str, Any]] = {
    "no stream waits": (streams, "_wait", lambda stream, event: None),
    "nobody waits for the call": (streams.Handover, "end", lambda self: None),
    "everything is one stream": (streams, "is_same", lambda one, other: True),
    "events are recorded on the wrong stream": (streams, "_recorded", lambda number, stream: recorded_on_another()),
    "tensors are not met": (torch_tensors, "current_stream", streams.current),
    "the interface's stream is not read": (streams, "meet", lambda number, stream: False),
}


def recorded_on_another() -> Any:
    cupy = sys.modules["cupy"]
    event = cupy.cuda.Event(disable_timing=True)
    cupy.cuda.runtime.eventRecord(event.ptr, 4)
    return event


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("run", [called, bound, on_buffers], ids=shown)
def test_a_broken_order_is_noticed(
    gpu: PageDriver, monkeypatch: pytest.MonkeyPatch, run: Callable[[Call], Any], broken: tuple[Any, str, Any]
) -> None:
    monkeypatch.setattr(*broken)
    call = Call(gpu, "cupy", "torch", "interface, stream 31")
    call.made()
    call.used(run(call))
    with pytest.raises(AssertionError, match=r"may come (behind|before)"):
        check(gpu.order)


FORGETFUL: dict[str, tuple[Any, str, Any]] = {
    "views are dropped": (streams, "keep", lambda number, view: None),
    "the queue forgets": (streams.Kept, "add", lambda self, key, event, views: None),
    "events count as passed": (streams.Kept, "_taken", lambda self: [self._queues.clear()]),
}


@pytest.mark.parametrize("broken", FORGETFUL.values(), ids=FORGETFUL)
def test_memory_that_is_let_go_too_early_is_noticed(gpu: PageDriver, monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    monkeypatch.setattr(*broken)
    with pytest.raises(AssertionError):
        test_an_array_of_jax_outlives_the_launch_that_reads_it(gpu, RUNS_ON_JAX["called"])
