"""The order of calls on streams of a GPU, and the time at which they release memory.

Judged by NumPy's indexing. All work is as late as CUDA allows, and freed memory is overwritten at once
(tests/other_libraries.py), so a wrong order gives a wrong result.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import streams, torch_tensors
from dmlgather.distributed import chunk_operators
from tests import seeds
from tests.gpus import as_late_as_allowed, late, placed, same_streams
from tests.other_libraries import Interfaced, JaxArray, Rig, Storage, Tensor, TorchStream, lane
from tests.test_operator import COUNT, ROWS, WIDTH, gather

gpu = pytest.mark.gpu
Array = np.ndarray[Any, Any]


@pytest.fixture
def rig() -> Iterator[Rig]:
    chunk_operators.compiled.cache_clear()
    with ExitStack() as stack:
        stack.callback(chunk_operators.compiled.cache_clear)
        stack.callback(streams.KEPT.finish)
        yield Rig(stack)


@pytest.fixture
def per_thread() -> Iterator[Rig]:
    """CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1: CuPy's current stream is 2, which PyTorch's DLPack refuses. CuPy's DLPack takes 0
    for 2.
    """
    with ExitStack() as stack:
        stack.callback(streams.KEPT.finish)
        yield Rig(stack, per_thread=True)


class Call:
    """A gather of rows whose data, indices and output belong to these libraries. None: the call makes a new output."""

    def __init__(self, rig: Rig, *names: str | None) -> None:
        self.rig, self.names, rng = rig, names, seeds.numpy_rng()
        given: list[Any] = [
            rng.random((ROWS, WIDTH), np.float32),
            rng.integers(-ROWS, ROWS, (1, COUNT)),
            np.zeros((COUNT, WIDTH), np.float32),
        ]
        self.owners = [None if name is None else rig.libraries[name] for name in names]
        self.arrays: list[Any] = [owner and owner.array(array) for owner, array in zip(self.owners, given, strict=True)]
        self.expected = given[0][given[1][0]].tobytes()
        if "interface, no stream" in names:
            rig.libraries["interface, no stream"].stream.synchronize()

    data = property(lambda self: self.arrays[0])
    ids = property(lambda self: self.arrays[1])
    out = property(lambda self: self.arrays[2])

    def run(self, way: Callable[..., Any], **more: Any) -> Any:
        """Return the result. Assert that the host did not wait, if the GPU works late."""
        way(Call(self.rig, *self.names), **more)  # the first call compiles, and so waits
        marks = []
        for owner in self.owners:
            if owner is not None and owner.known:
                marks.append(sys.modules["cupy"].cuda.Event(disable_timing=True))
                marks[-1].record(owner.stream)
        result = way(self, **more)
        assert not late() or not any(mark.done for mark in marks), "the host waited"
        return result

    def used(self, result: Any) -> None:
        """Overwrite and drop the arrays on their libraries' streams. Then assert that the result is right."""
        used = [(array, each.stream) for array, each in zip(self.arrays, self.owners[:2], strict=False) if each and each.known]
        for array, stream in used:
            with stream:
                getattr(array, "held", array).fill(1)
        for _, stream in reversed(used):  # a call runs on the first array's stream, or CuPy's; other streams must wait for it
            stream.synchronize()
        used, self.arrays, array = [], [], None
        self.rig.spoil()
        owner = self.owners[2] or self.owners[0]
        assert owner is not None
        theirs = self.owners[2] is not None or isinstance(result, Tensor | JaxArray)
        with (self.rig.jax.xla if isinstance(result, JaxArray) else owner.stream) if theirs else self.rig.now:
            assert getattr(result, "held", result).get().tobytes() == self.expected


def called(call: Call, **more: Any) -> Any:
    return dg.compile(gather())(call.data, call.ids, out=call.out, **more)


def _no_buffers(prepared: Any, *found: Any, buffers: bool) -> Any:
    return prepared(*found)  # treat the arrays as tensors: only the streams matter here


def on_buffers(call: Call, **more: Any) -> Any:
    operator = dg.compile(gather())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "_prepared", partial(_no_buffers, operator._prepared))
        operator.run_buffers(call.data, call.ids, out=call.out, **more)
    return call.out


def bound(call: Call) -> Any:
    dg.compile(gather()).bind(call.data, call.ids, out=call.out)()
    return call.out


def eager(call: Call) -> Any:
    return dg.onnx.gather(call.data, call.ids, out_of_bounds="clamp")


def fused(call: Call, **more: Any) -> Any:
    gather_rows = dg.fuse([dg.onnx.gather.problem(((ROWS, WIDTH), "float32"), ((1, COUNT), "int64"), out_of_bounds="clamp")])
    return gather_rows(call.data, call.ids, **more)


INPUTS = [
    ("torch", "torch"), ("cupy", "torch"), ("torch", "cupy"), ("jax", "torch"), ("jax", "jax"), ("torch", "jax"), ("jax", "cupy"),
    ("interface, stream", "interface, legacy"), ("interface, per thread", "torch"), ("cupy", "interface, stream"),
    ("interface, no stream", "interface, legacy"), ("torch", "interface, no stream"),
]  # fmt: skip
WITH_OUT = [
    ("torch", "torch", "torch"), ("cupy", "torch", "torch"), ("torch", "cupy", "cupy"), ("cupy", "cupy", "torch"),
    ("jax", "torch", "torch"), ("jax", "jax", "cupy"), ("torch", "jax", "interface, stream"), ("torch", "torch", "cupy"),
    ("interface, per thread", "torch", "torch"), ("interface, no stream", "interface, legacy", "cupy"),
    ("cupy", "interface, stream", "interface, per thread"), ("cupy", "cupy", "interface, legacy"),
]  # fmt: skip
RUNS: list[tuple[Callable[[Call], Any], tuple[str | None, ...]]] = [
    *((run, (*mixture, None)) for run in (called, eager, fused) for mixture in INPUTS),
    *((run, mixture) for run in (called, bound, on_buffers) for mixture in WITH_OUT),
]


def label(value: Any) -> str:
    return value.__name__ if callable(value) else " | ".join(str(name or "new") for name in value)


@gpu
@pytest.mark.parametrize(("run", "libraries"), RUNS, ids=label)
def test_a_call_runs_between_writers_and_users_of_its_arrays(
    rig: Rig, run: Callable[[Call], Any], libraries: tuple[str | None, ...]
) -> None:
    call = Call(rig, *libraries)
    with same_streams():
        result = call.run(run)
    call.used(result)


@gpu
@pytest.mark.parametrize(("run", "libraries"), RUNS, ids=label)
def test_per_thread_default_streams_keep_the_order(
    per_thread: Rig, run: Callable[[Call], Any], libraries: tuple[str | None, ...]
) -> None:
    test_a_call_runs_between_writers_and_users_of_its_arrays(per_thread, run, libraries)


def recorded_streams(call: Call) -> list[set[int]]:
    """Return the streams that `record_stream` named for each array of a call."""
    return [getattr(array, "held", array).data.mem._owner.recorded for array in call.arrays]


@gpu
@pytest.mark.parametrize("run", [called, bound], ids=label)
def test_calls_on_tensors_alone_can_be_captured_by_pytorch(rig: Rig, run: Callable[[Call], Any]) -> None:
    """A call on PyTorch's stream waits for nothing, records nothing and keeps nothing, so torch.cuda.graph can capture it."""
    call, side = Call(rig, "torch", "torch", "torch"), TorchStream(lane())
    rig.torch.now.synchronize()
    operator = dg.compile(gather())
    with rig.torch.cuda.stream(side):
        run_it = (
            operator.bind(call.data, call.ids, out=call.out) if run is bound else lambda: operator(*call.arrays[:2], out=call.out)
        )
        run_it()
        call.out.held.fill(0)
        side.stream.begin_capture()
        run_it()
        graph = side.stream.end_capture()
        graph.launch(side.stream)
        assert recorded_streams(call) == [set()] * 3
        assert len(streams.KEPT) == 0
        with side.stream:
            assert call.out.held.get().tobytes() == call.expected


@gpu
@pytest.mark.parametrize("libraries", [each for each in WITH_OUT if "torch" in each], ids=label)
@pytest.mark.parametrize("run", [called, fused, on_buffers], ids=label)
def test_pytorch_records_the_given_stream_and_is_ordered_with_it(rig: Rig, run: Callable[..., Any], libraries: Any) -> None:
    """PyTorch's allocator works on another stream than PyTorch, and waits only for streams that were recorded."""
    if run is fused:
        libraries = (*libraries[:2], None)
    side, home = lane(), rig.torch.now
    rig.libraries["cupy"].stream = side  # the caller orders CuPy's arrays with a given stream
    with rig.torch.cuda.stream(TorchStream(lane())):
        call = Call(rig, *libraries)
        home.synchronize()
        result = call.run(run, stream=side)
        for place, name in enumerate(libraries[:2]):
            if name == "torch":
                call.arrays[place] = None
        home.synchronize()  # spoils the tensors
        call.owners[:2] = [None if name == "torch" else owner for name, owner in zip(libraries, call.owners, strict=False)]
        side.synchronize()
        assert getattr(result, "held", result).get().tobytes() == call.expected


@gpu
@pytest.mark.parametrize("given", [False, True])
def test_pytorch_allocates_the_result_for_tensors(rig: Rig, given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of CuPy's pool would be reused while PyTorch's streams still read it."""
    made: list[Any] = []
    plain = rig.torch.empty

    def empty(*sizes: Any, **more: Any) -> Any:
        made.append(plain(*sizes, **more))
        return made[-1]

    monkeypatch.setattr(rig.torch, "empty", empty)
    calls = Call(rig, "torch", "torch", None), Call(rig, "torch", "cupy", None)
    results = [called(calls[0], stream=lane() if given else None), eager(calls[1])]
    assert [*map(id, results)] == [*map(id, made)]


@gpu
def test_pytorch_records_its_own_default_stream(rig: Rig) -> None:
    """An external stream at address 1 would be a different stream for PyTorch."""
    for stream in (0, 1):
        call = Call(rig, "torch", "torch", "torch")
        called(call, stream=stream)
        assert recorded_streams(call) == [{0}] * 3


@gpu
def test_tensors_are_kept_if_pytorch_cannot_record_the_stream(per_thread: Rig) -> None:
    """CuPy's current stream is the per-thread default stream, and PyTorch's allocator works on a third stream."""
    home = per_thread.libraries["torch"].stream = lane()
    call = Call(per_thread, "cupy", "torch", "torch")
    home.synchronize()
    result = call.run(called)
    assert recorded_streams(call)[1:] == [set()] * 2
    call.arrays[:] = []
    home.synchronize()
    per_thread.now.synchronize()
    assert result.held.get().tobytes() == call.expected


ROW_NUMBERS = np.arange(COUNT)[None] - 3
TABLE = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
EXPECTED = TABLE[ROW_NUMBERS[0]].tobytes()


def model() -> Any:
    from onnx.parser import parse_model

    inputs = f"float[{ROWS},{WIDTH}] x, int64[1,{COUNT}] i"
    text = f"g ({inputs}) => (float[1,{COUNT},{WIDTH}] y) {{ y = Gather(x, i) }}"
    return parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')


def with_out(x: Any, i: Any, *, bind: bool = False, stream: Any = None) -> Any:
    out = placed(np.zeros((COUNT, WIDTH), np.float32))
    sys.modules["cupy"].cuda.get_current_stream().synchronize()
    if bind:
        OPERATOR.bind(x, i, out=out)(stream)
        return out
    return OPERATOR(x, i, out=out, stream=stream)


OPERATOR = dg.compile(gather())
FUSED = dg.fuse([dg.onnx.gather.problem(((ROWS, WIDTH), "float32"), ((1, COUNT), "int64"), out_of_bounds="clamp")])
RUNS_ON_JAX: dict[str, Callable[[Any, Any], Any]] = {
    "called": OPERATOR.__call__,
    "with out": with_out,
    "bound": lambda x, i: with_out(x, i, bind=True),
    "a model": lambda x, i: dg.onnx.Backend.prepare(model(), "CUDA").run([x, i])[0],
    "a chunk's rows": lambda x, i: chunk_operators.take(x, 0, ROW_NUMBERS),
    "eager": lambda x, i: dg.onnx.gather(x, i, out_of_bounds="clamp"),
    "fused": FUSED.__call__,
}


class Tables:
    """Calls on new tables of JAX, to which the test keeps no reference."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self.ids = rig, placed(ROW_NUMBERS)
        rig.now.synchronize()
        gc.collect()
        self.before = len(Storage.alive)

    def kept(self) -> int:
        """Return the number of tables that are still alive."""
        gc.collect()
        return len(Storage.alive) - self.before

    def result(self, run: Callable[[Any, Any], Any] = OPERATOR.__call__) -> Any:
        return run(self._rig.libraries["jax"].array(TABLE), self.ids)

    def right(self, *results: Any) -> bool:
        """Return True if the results are right after all freed memory was overwritten."""
        gc.collect()
        self._rig.jax.home.synchronize()
        self._rig.now.synchronize()
        return [getattr(result, "held", result).get().tobytes() for result in results] == [EXPECTED] * len(results)


@pytest.fixture
def jax(rig: Rig) -> Tables:
    return Tables(rig)


@gpu
@pytest.mark.parametrize("run", RUNS_ON_JAX.values(), ids=RUNS_ON_JAX)
def test_a_jax_array_outlives_the_launch_that_reads_it(jax: Tables, run: Callable[[Any, Any], Any]) -> None:
    """The next call releases it."""
    jax.result(run)  # the first call compiles, and so waits
    results = [jax.result(run) for _ in range(2)]
    assert jax.right(*results)
    sys.modules["cupy"].cuda.Device(0).synchronize()
    jax.result(run)
    assert jax.kept() <= 1


@gpu
@as_late_as_allowed
def test_an_event_is_recorded_behind_the_launch_on_its_stream(jax: Tables) -> None:
    """Many calls poll the event meanwhile."""
    side = lane()
    jax.result()
    result = jax.result(lambda x, i: OPERATOR(x, i, stream=side))
    for _ in range(60):
        jax.result()
    gc.collect()
    assert jax.right()
    side.synchronize()
    assert jax.right(result)


@gpu
@as_late_as_allowed
def test_a_full_queue_waits_for_its_oldest_call_alone(jax: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "QUEUE", 20)
    jax.result()
    sys.modules["cupy"].cuda.Device(0).synchronize()
    results = [jax.result() for _ in range(20)]
    assert (len(streams.KEPT), jax.kept()) == (20, 20)
    other = jax.result(lambda x, i: OPERATOR(x, i, stream=lane()))  # a queue of its own
    assert (len(streams.KEPT), jax.kept()) == (21, 21)
    results.append(jax.result())
    assert (len(streams.KEPT), jax.kept()) == (21, 21), "the oldest one went"
    assert jax.right(*results)
    sys.modules["cupy"].cuda.Device(0).synchronize()
    assert jax.right(other)


@gpu
@as_late_as_allowed
def test_streams_that_end_leave_no_queues(jax: Tables) -> None:
    jax.result()
    sys.modules["cupy"].cuda.Device(0).synchronize()
    for _ in range(30):
        jax.result(lambda x, i: OPERATOR(x, i, stream=lane()))
    assert len(streams.KEPT) == len(streams.KEPT._queues) == 30
    sys.modules["cupy"].cuda.Device(0).synchronize()
    jax.result()
    assert len(streams.KEPT) == len(streams.KEPT._queues) <= 1


@gpu
def test_finish_waits_for_all_calls_that_have_not_run(jax: Tables) -> None:
    result = jax.result(lambda x, i: with_out(x, i, stream=lane()))
    streams.KEPT.finish()
    assert (len(streams.KEPT), jax.kept()) == (0, 0)
    assert jax.right(result)


def test_finish_is_registered_at_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """atexit runs functions in reverse order: `finish` must run before the functions of libraries imported earlier."""
    registered: list[Any] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    queues = streams.Kept()
    assert registered == []
    for _ in range(2):
        queues.add((0, 1, 0), SimpleNamespace(done=True), [])
        assert registered == [queues.finish]


@gpu
def test_a_failed_call_keeps_its_arrays_only_until_the_next(rig: Rig, jax: Tables) -> None:
    streams.KEPT.finish()
    for _ in range(2):
        with pytest.raises(ValueError, match="expected shape"):
            OPERATOR(rig.libraries["jax"].array(TABLE[:2]), jax.ids)
        sys.modules["cupy"].cuda.Device(0).synchronize()
    assert jax.kept() == len(streams.KEPT) <= 1
    assert jax.right(jax.result())


@gpu
def test_a_bound_call_waits_for_nothing_inside_a_capture(rig: Rig) -> None:
    """A wait for a stream outside the capture would invalidate it."""
    call, side = Call(rig, "torch", "torch", "torch"), lane()
    run = dg.compile(gather()).bind(call.data, call.ids, out=call.out)
    run(side)
    with side:
        call.out.held.fill(0)
    side.begin_capture()
    run(side)
    graph = side.end_capture()
    graph.launch(side)
    side.synchronize()
    assert call.out.held.get().tobytes() == call.expected


@gpu
def test_functions_of_the_torch_dialect_run_on_torchs_stream(rig: Rig) -> None:
    ids = ROW_NUMBERS[0] % ROWS
    with rig.torch.cuda.stream(TorchStream(lane())):
        weight, index = (Tensor(Storage.of(array, rig.torch.now)) for array in (TABLE, ids))
        result = dg.torch.index_select(weight, 0, index)
        assert dg.torch.index_select(weight, 0, index, out=result) is result
        assert isinstance(result, Tensor)
        with rig.torch.now:
            assert result.held.get().tobytes() == TABLE[ids].tobytes()
        with pytest.raises(IndexError, match=r"index\[0\] = -1 is out of range"):
            dg.torch.index_select(weight, 0, Tensor(Storage.of(np.array([-1]), rig.torch.now)))


@pytest.mark.gpu(devices=2)
def test_arrays_with_the_cuda_array_interface_alone_are_taken(rig: Rig) -> None:
    """Numba's arrays are like this. Their pointer says on which GPU they are."""
    cupy = sys.modules["cupy"]
    x, i, out = (Interfaced(placed(array, 1)) for array in (TABLE, ROW_NUMBERS, np.zeros((COUNT, WIDTH), np.float32)))
    assert OPERATOR(x, i, out=out) is out
    result = OPERATOR(x, i)
    assert isinstance(result, cupy.ndarray)
    assert result.device.id == 1
    assert out.held.get().tobytes() == result.get().tobytes() == EXPECTED
    nothing = dg.onnx.gather(Interfaced(cupy.zeros((0, 3), np.float32)), Interfaced(cupy.zeros(0, np.int64)))
    assert nothing.shape == (0, 3)


BROKEN: dict[str, tuple[Any, str, Any]] = {
    "no stream waits": (streams, "_wait", lambda number, stream, event: None),
    "nobody waits for the call": (streams.StreamOrder, "end", lambda self: None),
    "everything is one stream": (streams, "is_same", lambda one, other: True),
    "events are recorded on the wrong stream": (streams, "_recorded", lambda number, stream: recorded_on_another()),
    "tensors are not met": (torch_tensors, "current_stream", streams.current),
    "the interface's stream is not read": (streams, "order_with", lambda number, stream, owner=None: False),
}


def recorded_on_another() -> Any:
    event = sys.modules["cupy"].cuda.Event(disable_timing=True)
    event.record(lane())
    return event


@gpu
@as_late_as_allowed
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("run", [called, bound, on_buffers], ids=label)
def test_a_broken_order_is_noticed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, run: Callable[[Call], Any], broken: tuple[Any, str, Any]
) -> None:
    monkeypatch.setattr(*broken)
    with pytest.raises(AssertionError):
        test_a_call_runs_between_writers_and_users_of_its_arrays(rig, run, ("cupy", "torch", "interface, stream"))


FORGETFUL: dict[str, tuple[Any, str, Any]] = {
    "views are dropped": (streams, "keep", lambda number, view: None),
    "the queue forgets": (streams.Kept, "add", lambda self, key, event, views: None),
    "events count as passed": (streams.Kept, "_pop_done", lambda self: [self._queues.clear()]),
}


@gpu
@as_late_as_allowed
@pytest.mark.parametrize("broken", FORGETFUL.values(), ids=FORGETFUL)
def test_memory_released_too_early_is_noticed(jax: Tables, monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    monkeypatch.setattr(*broken)
    with pytest.raises(AssertionError):
        test_a_jax_array_outlives_the_launch_that_reads_it(jax, RUNS_ON_JAX["called"])


@gpu
@as_late_as_allowed
def test_a_stream_that_pytorch_does_not_record_is_noticed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tensors, "used_on", lambda tensor, stream: True)
    with pytest.raises(AssertionError):
        test_pytorch_records_the_given_stream_and_is_ordered_with_it(rig, called, ("torch", "torch", "torch"))
