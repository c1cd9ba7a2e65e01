"""Compiled operators on a GPU through the public interface: CuPy and DLPack arrays, devices, streams, and CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests.gpus import CoreStream, as_late_as_allowed, host, nothing_new, placed, same_streams
from tests.tensorlib import Tensor
from tests.test_operator import COUNT, ROWS, WIDTH, gather
from tests.test_operator_calls import empty, fresh

pytestmark = pytest.mark.gpu
two_gpus = pytest.mark.gpu(devices=2)

ROUNDS = 20


def test_arrays_with_dlpack_alone_are_taken(cupy: Any) -> None:
    table, ids = fresh()
    out = cupy.zeros((COUNT, WIDTH), np.float32)
    dg.compile(gather())(*(Tensor(cupy.asarray(array)) for array in (table, ids)), out=Tensor(out))
    assert out.get().tobytes() == table[ids[0]].tobytes()


def test_copies_and_kernel_run_in_order_on_the_given_stream(cupy: Any) -> None:
    """The copies of host arrays, the kernel, and the copy of the result run on a non-blocking stream."""
    op = dg.compile(gather(), device="cuda")
    stream = cupy.cuda.Stream(non_blocking=True)
    for given in (stream, stream.ptr):
        for _ in range(ROUNDS):
            table, ids = fresh()
            with same_streams():
                assert op(table, ids, stream=given).tobytes() == table[ids[0]].tobytes()


Way = tuple[Callable[..., Any], Callable[[], None]]


def bound(op: dg.CompiledOperator, x: Any, i: Any, y: Any) -> Way:
    binding = op.bind(x, i, out=y)
    return lambda stream=None: binding(stream), binding.raise_if_bad


def checked(op: dg.CompiledOperator, x: Any, i: Any, y: Any) -> Way:
    return lambda stream=None: op(x, i, out=y, stream=stream), op.raise_if_bad


def by_address(op: dg.CompiledOperator, x: Any, i: Any, y: Any) -> Way:
    return lambda stream=None: op.launch(x.data.ptr, i.data.ptr, y.data.ptr, stream=stream), op.raise_if_bad


WAYS = [bound, checked, by_address]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same stream", "another stream"])
@pytest.mark.parametrize("policy", ["clamp", "raise"])
@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_call_is_captured_and_replayed(cupy: Any, way: Any, policy: str, elsewhere: bool) -> None:
    """A graph replays with the current indices on any stream. Under "raise" it forgets the previous replay's bad index."""
    table, ids = fresh()
    held, indices = cupy.asarray(table), cupy.asarray(ids)
    out = cupy.zeros((COUNT, WIDTH), np.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    replaying = cupy.cuda.Stream(non_blocking=True) if elsewhere else stream
    run, ask = way(dg.compile(gather(), device="cuda", out_of_bounds=policy), held, indices, out)
    cupy.cuda.get_current_stream().synchronize()
    run(stream)  # prepares the call outside of the capture
    stream.synchronize()
    with stream:
        # In this mode, an allocation or a wait of any thread ends the capture.
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        run()
        graph = stream.end_capture()
    with replaying:
        for bad in (None, 5, None, None, 0):
            _, ids = fresh()
            if bad is not None:
                ids[0, bad] = 2**40
            indices.set(ids)
            out.fill(np.nan)
            graph.launch(replaying)
            replaying.synchronize()
            if bad is None or policy == "clamp":
                assert out.get().tobytes() == table[np.minimum(ids[0], ROWS - 1)].tobytes()
                ask()
            else:
                with pytest.raises(IndexError, match=rf"IndicesTensor\[0, {bad}\] = 1099511627776 is out of range"):
                    ask()


@pytest.mark.parametrize("policy", ["clamp", "raise"])
@pytest.mark.parametrize("way", WAYS)
def test_calls_on_two_streams_do_not_mix(cupy: Any, way: Any, policy: str) -> None:
    """The calls alternate and have arrays of their own. Under "raise", one index on the second stream is bad."""
    op = dg.compile(gather(), device="cuda", out_of_bounds=policy)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    inputs = [fresh() for _ in streams]
    arrays = [(*map(cupy.asarray, pair), cupy.zeros((COUNT, WIDTH), np.float32)) for pair in inputs]
    ways = [way(op, *lane) for lane in arrays]
    for number in range(ROUNDS):
        bad = policy == "raise" and number == ROUNDS - 1
        for lane in arrays:
            _, ids = fresh()
            if bad and lane is arrays[1]:
                ids[0, 4] = ROWS
            lane[1].set(ids)
            lane[2].fill(np.nan)
        cupy.cuda.get_current_stream().synchronize()
        for (run, _), stream in zip(ways, streams, strict=True):
            run(stream)
        for stream in streams:
            stream.synchronize()
        for (table, _), (_, indices, out) in zip(inputs, arrays, strict=True):
            if not (bad and out is arrays[1][2]):
                assert out.get().tobytes() == table[indices.get()[0]].tobytes()
    if policy == "raise":
        with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 4\] = {ROWS} is out of range"):
            ways[1][1]()
        if way is bound:  # a call of the operator itself checks its own indices
            ways[0][1]()


def test_memory_freed_during_a_call_is_not_overwritten_early(cupy: Any) -> None:
    """A call keeps no array alive. CuPy's pool reuses memory in the stream's order."""
    op = dg.compile(gather())
    for _ in range(ROUNDS):
        table, ids = fresh()
        result = op(cupy.asarray(table), cupy.asarray(ids))
        _ = cupy.full((ROWS, WIDTH), np.nan, np.float32)
        assert result.get().tobytes() == table[ids[0]].tobytes()


@two_gpus
def test_arrays_on_different_devices_are_refused(cupy: Any) -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    for pair in ((placed(table), ids), (table, placed(ids)), (placed(table), placed(ids, 1))):
        with pytest.raises(TypeError, match=r"different devices \((cuda:0|cpu), (cuda:[01]|cpu)\)"):
            op(*pair)
    for out in (empty(), placed(empty(), 1)):
        with pytest.raises(TypeError, match="different devices"):
            op(placed(table), placed(ids), out=out)


@two_gpus
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cpu"])
def test_device_moves_arrays_there_and_the_result_back(cupy: Any, device: str) -> None:
    """The test moves each kind of array as each input, including views, whose memory is not packed."""
    op, (table, ids) = dg.compile(gather(), device=device), fresh()
    wide = np.zeros((ROWS, 2 * WIDTH), np.float32)
    wide[:, ::2] = table
    for data in (table, wide[:, ::2], placed(wide[:, ::2]), placed(table, 1)):
        for indices in (ids, placed(ids), placed(ids, 1)):
            result: Any = op(data, indices)
            assert type(result) is type(data)
            assert isinstance(data, np.ndarray) or result.device == data.device
            assert host(result).tobytes() == table[ids[0]].tobytes()
    out = np.empty((COUNT, WIDTH), np.float32)
    assert op(table, ids, out=out) is out
    assert out.tobytes() == table[ids[0]].tobytes()
    if device != "cpu":
        with pytest.raises(TypeError, match="bind takes arrays that lie on cuda:"):
            op.bind(table, ids, out=out)


def test_a_call_with_out_allocates_nothing(cupy: Any) -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    arrays, out = [placed(table), placed(ids)], placed(empty())
    op(*arrays, out=out)
    out.fill(np.nan)
    with nothing_new():
        assert op(*arrays, out=out) is out
    assert out.get().tobytes() == table[ids[0]].tobytes()


def test_launch_checks_indices_device_and_overlap(cupy: Any) -> None:
    table, ids = fresh()
    ids[0, [5, 7]] = (ROWS + 3, -ROWS - 1)
    op, held = dg.compile(gather(), out_of_bounds="raise"), [*map(placed, (table, ids)), cupy.zeros((COUNT, WIDTH), np.float32)]
    op.launch(*(array.data.ptr for array in held))
    with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 5\] = {ROWS + 3} is out of range"):
        op.raise_if_bad()
    with pytest.raises(ValueError, match="addresses on a GPU, and the device is cpu"):
        op.launch(0, 16, 32, device="cpu")
    with pytest.raises(ValueError, match="out overlaps input_tensor"):
        op.launch(held[0].data.ptr, held[1].data.ptr, held[0].data.ptr)


@two_gpus
@pytest.mark.parametrize("given", [lambda stream: stream, lambda stream: stream.ptr, CoreStream])
def test_a_given_stream_orders_copies_allocations_and_the_launch(cupy: Any, given: Any) -> None:
    """A call on a non-blocking stream sees late writes, and reads before the stream writes again."""
    table, ids = fresh()
    expected = table[ids[0]].tobytes()
    with cupy.cuda.Device(1):
        stream = cupy.cuda.Stream(non_blocking=True)
    assert dg.compile(gather(), device="cuda:1")(table, ids, stream=given(stream)).tobytes() == expected
    out = placed(empty(), 1)
    cupy.cuda.runtime.deviceSynchronize()
    op = dg.compile(gather())
    op(placed(table, 1), placed(ids, 1))  # compiles the kernel
    for more in ({}, {"out": out}):
        with cupy.cuda.Device(1), stream:
            arrays = placed(table, 1), placed(ids, 1)
        with same_streams():
            result: Any = op(*arrays, **more, stream=given(stream))
        with cupy.cuda.Device(1), stream:
            for array in arrays:
                array.fill(0)
            assert (result.device.id, result.get().tobytes()) == (1, expected)
    with pytest.raises(TypeError, match="the CPU, which has no streams"):
        dg.compile(gather())(table, ids, stream=given(stream))


@two_gpus
@as_late_as_allowed
def test_the_check_notices_a_launch_on_another_stream(cupy: Any) -> None:
    with pytest.raises(AssertionError):
        test_a_given_stream_orders_copies_allocations_and_the_launch(cupy, lambda stream: 0)


def test_bindings_on_one_stream_report_their_own_bad_index(cupy: Any) -> None:
    table, ids = fresh()
    op, x, good, bad = dg.compile(gather(), out_of_bounds="raise"), placed(table), placed(ids), placed(ids)
    bad[0, 3] = ROWS
    first, second = (op.bind(x, i, out=cupy.zeros((COUNT, WIDTH), np.float32)) for i in (bad, good))
    with nothing_new():
        first()
        second()
    second.raise_if_bad()
    with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 3\] = {ROWS} is out of range"):
        first.raise_if_bad()
    bad[0, 3] = 1
    with pytest.raises(IndexError, match=r"IndicesTensor\[0, 3\] was out of range \(it is 1 by now\) for axis 0"):
        first.raise_if_bad()


@two_gpus
def test_compare_runs_on_every_device(cupy: Any) -> None:
    table, ids = fresh()
    ids[0, 0] = 2**40
    found = dg.compare(gather(), table, ids, devices=("cuda", "cuda:1", "cpu", "reference"))
    assert str(found) == f"equal on cuda, cuda:1, cpu, reference: {COUNT * WIDTH} elements, bit for bit"
    found = dg.compare(gather(), table, ids, devices=("cuda", "cpu"), out_of_bounds="raise")
    assert found.equal
    assert "IndicesTensor[0, 0] = 1099511627776" in str(found)
