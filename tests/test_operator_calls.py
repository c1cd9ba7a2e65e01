"""Calls of one operator in sequence. Each gives the result of a new operator, whatever the earlier calls were.

Judges: NumPy's indexing, and operators compiled anew for each call.
"""

from __future__ import annotations

import gc
import pickle
import random
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.backends import arrays, prepared_call
from dmlgather.backends.cpu.engine import EngineProgram
from dmlgather.backends.prepared_call import CALLS_KEPT, PROGRAMS_KEPT
from tests import seeds
from tests.at_once import at_once
from tests.backends.ways import ENGINE_EXPECTED
from tests.gpus import host, placed, same_streams
from tests.test_operator import COUNT, ROWS, WIDTH, gather

Array = np.ndarray[Any, Any]


ARRAY_OBJECTS, ADDRESSES, NUMPY = "the engine, on array objects", "the engine, on addresses", "NumPy"
engine_only = pytest.mark.skipif(not ENGINE_EXPECTED, reason="DMLGATHER_PURE is 1")


@pytest.fixture(params=[pytest.param(ARRAY_OBJECTS, marks=engine_only), pytest.param(ADDRESSES, marks=engine_only), NUMPY])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a device whose calls take NumPy's arrays."""
    if request.param == ADDRESSES:
        monkeypatch.setattr(EngineProgram, "fast_path", lambda *_: None)
    if request.param == NUMPY:
        monkeypatch.setenv("DMLGATHER_PURE", "1")
    name: str = request.param
    return name


def plain(array: Array) -> Any:
    return array


KINDS = [plain, pytest.param(placed, marks=pytest.mark.gpu)]


def fresh(rng: np.random.Generator | None = None) -> tuple[Array, Array]:
    rng = seeds.numpy_rng() if rng is None else rng
    return rng.random((ROWS, WIDTH), np.float32), rng.integers(-ROWS, ROWS, (1, COUNT))


def empty() -> Array:
    return np.full((COUNT, WIDTH), np.nan, np.float32)


def at(pointer: int, array: Array) -> Array:
    """Return a copy of `array` at an address that is `pointer` modulo 16."""
    room = np.zeros(array.nbytes + 32, np.uint8)
    start = (pointer - room.ctypes.data) % 16
    placed: Array = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    placed[...] = array
    return placed


def lying(rng: random.Random, array: Array) -> Array:
    """Return a copy in new memory, often packed, otherwise with other strides."""
    if rng.random() < 0.7:
        return array.copy()
    steps = [rng.choice((1, 1, 2, -1, -3)) for _ in array.shape]
    room = np.zeros([size * abs(step) + rng.randint(0, 2) for size, step in zip(array.shape, steps, strict=True)], array.dtype)
    if rng.random() < 0.3:
        room = np.asfortranarray(room)
    view: Array = room[tuple(slice(None, None, step) for step in steps)][tuple(map(slice, array.shape))]
    view[...] = array
    return view


def outcome(op: Any, inputs: list[Any], out: Any) -> tuple[Any, ...]:
    """Return the result, the written output and the error of a call."""
    try:
        result = op(*inputs, out=out)
        return "returned", np.asarray(result).tobytes(), out is None or result is out
    except (TypeError, ValueError, IndexError) as error:
        return type(error).__name__, str(error)


ODDITIES: list[Callable[[Array, Array, Array], tuple[Any, Any, Any]]] = [
    lambda x, i, out: (x, i, out),
    lambda x, i, out: (x, i, out),
    lambda x, i, out: (x, i, None),
    lambda x, i, out: (x.astype(">f4"), i, out),
    lambda x, i, out: (x.view(np.int32), i, out),
    lambda x, i, out: (x, i.astype(np.uint64), out),
    lambda x, i, out: (x.T, i, out),
    lambda x, i, out: (x, i.reshape(-1), out),
    lambda x, i, out: (x, i.reshape(COUNT, 1), out),
    lambda x, i, out: (np.ascontiguousarray(x).reshape(-1), i, out),
    lambda x, i, out: (np.ascontiguousarray(x).view(np.uint8).reshape(-1), np.ascontiguousarray(i).view(np.uint8)[0], out),
    lambda x, i, out: (x, i, np.broadcast_to(out, out.shape)),
    lambda x, i, out: (x, i, x[:COUNT]),
    lambda x, i, out: (x, i, np.lib.stride_tricks.as_strided(np.zeros(WIDTH, np.float32), out.shape, (0, 4))),
    lambda x, i, out: (np.ma.masked_array(x), i, out),
    lambda x, i, out: (x, i, out.view(np.recarray)),
    lambda x, i, out: (x, i + ROWS, out),
    lambda x, i, out: (x.tolist(), i, out),
]


@pytest.mark.parametrize("policy", [None, "raise", dg.Fill(2.5)])
def test_every_call_gives_the_outcome_of_a_fresh_operator(policy: Any, way: str) -> None:
    op = dg.compile(gather(), out_of_bounds=policy)

    @settings(max_examples=300, deadline=None)
    @given(st.integers(0, 2**64 - 1).map(random.Random))
    def check(rng: random.Random) -> None:
        table, ids = fresh(np.random.default_rng(rng.getrandbits(64)))
        x, i, out = ODDITIES[rng.randrange(len(ODDITIES))](lying(rng, table), lying(rng, ids), lying(rng, empty()))
        expected = outcome(dg.compile(gather(), out_of_bounds=policy), [x, i], out)
        if out is not None and out.flags.writeable and not np.may_share_memory(out, x):
            out[...] = np.nan
        assert outcome(op, [x, i], out) == expected
        if expected[0] == "returned" and np.shape(i) == ids.shape and (np.asarray(i) == ids).all():
            assert expected[1:] == (table[ids[0]].tobytes(), True)

    check()
    assert op._prepared.cache_info().hits > 20, "calls repeat signatures"


@pytest.mark.parametrize("policy", ["clamp", "raise"])
def test_a_repeated_call_computes_no_signatures(policy: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine reads array objects itself, so nothing else asks for an array's properties."""
    op, pickled = dg.compile(gather(), out_of_bounds=policy), pickle.dumps(dg.compile(gather(), out_of_bounds=policy))
    for out in (empty(), None):
        op(*fresh(), out=out)
        if way == ARRAY_OBJECTS:
            monkeypatch.setattr(arrays, "view_signatures", lambda _: pytest.fail("signatures are made"))
        results = []
        for _ in range(3):
            table, ids = fresh()
            results.append(op(table, ids, out=out))
            op.raise_if_bad()
            assert results[-1].tobytes() == table[ids[0]].tobytes()
        assert len({id(result) for result in results}) == (3 if out is None else 1)
        assert out is None or results[0] is out
        monkeypatch.undo()
        if way == NUMPY:
            monkeypatch.setenv("DMLGATHER_PURE", "1")
    assert pickle.dumps(op) == pickled


def test_buffers_and_tensors_are_not_confused(way: str) -> None:
    """The same arrays may be buffers, whose element is read four times, or tensors of four elements."""
    one = dg.BufferTensorDesc(data_type="UINT8", sizes=(4,), strides=(0,), total_tensor_size_in_bytes=4)
    desc = dg.GatherElementsOperatorDesc(
        input_tensor=one,
        indices_tensor=dg.BufferTensorDesc(data_type="INT64", sizes=(4,)),
        output_tensor=dg.BufferTensorDesc(data_type="UINT8", sizes=(4,)),
        axis=0,
    )
    op, x, i = dg.compile(desc), np.array([5, 6, 7, 8], np.uint8), np.array([3, 2, 1, 0])
    for _ in range(2):
        op.run_buffers(x, i.view(np.uint8), out=(out := np.zeros(4, np.uint8)))
        assert out.tolist() == [5, 5, 5, 5]
        op.run_buffers(x, i, out=out)
        assert out.tolist() == [5, 5, 5, 5]
        assert op(x, i, out=out).tolist() == op(x, i).tolist() == [8, 7, 6, 5]


def test_wrong_counts_and_streams_are_refused_after_a_valid_call(way: str) -> None:
    """`ODDITIES` has wrong arrays."""
    op, (table, ids), out = dg.compile(gather(), out_of_bounds="raise"), fresh(), empty()
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("takes 2 input arrays .*, got 0", op),
        (r"GATHER takes 2 input arrays \(input_tensor, indices_tensor\), got 1", lambda: op(table)),
        ("takes 2 input arrays .*, got 3", lambda: op(table, ids, out, out=out)),
        ("the CPU, which has no streams", lambda: op(table, ids, out=out, stream="no stream")),
    ]
    for words, call in wrong:
        assert op(table, ids, out=out).tobytes() == table[ids[0]].tobytes()
        with pytest.raises(TypeError, match=words):
            call()


@pytest.mark.gpu
def test_a_cupy_array_reshaped_in_place_is_checked_again() -> None:
    """The object, its id and its memory stay the same. The shape changes."""
    table, ids = fresh()
    op, x, i, out = dg.compile(gather()), placed(table), placed(ids), placed(empty())
    op(x, i, out=out)
    x.shape = (WIDTH, ROWS)
    with pytest.raises(ValueError, match=r"^input_tensor: expected"):
        op(x, i, out=out)
    x.shape = (ROWS, WIDTH)
    assert op(x, i, out=out).get().tobytes() == table[ids[0]].tobytes()


def test_a_numpy_array_changed_in_place_is_checked_again() -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    x, out = table.copy(), empty()
    op(x, ids, out=out)
    x.resize((ROWS, WIDTH + 1), refcheck=False)
    with pytest.raises(ValueError, match=r"input_tensor: expected shape \(50, 24\).*got float32 of shape \(50, 25\)"):
        op(x, ids, out=out)
    x.resize((ROWS, WIDTH), refcheck=False)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        op(x, ids, out=out)
    out.flags.writeable = True
    assert op(x, ids, out=out).tobytes() == x[ids[0]].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_reused_memory_and_ids_do_not_mix_up_calls(kind: Any) -> None:
    op, rng, seen = dg.compile(gather()), seeds.rng(), set()
    for _ in range(200):
        table, ids = fresh()
        x, out = kind(lying(rng, table)), kind(lying(rng, empty()))
        seen.add(id(x))
        result = op(x, kind(ids), out=out)
        assert host(out).tobytes() == table[ids[0]].tobytes()
        del x, result
    assert len(seen) < 200, "ids return"


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_that_overlaps_an_input_later_is_refused(kind: Any) -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    room = np.zeros((3 * ROWS, WIDTH), np.float32)
    room[:ROWS] = table
    room, i = kind(room), kind(ids)
    for first in (ROWS, 2 * ROWS):
        assert op(room[:ROWS], i, out=room[first : first + COUNT]) is not None
        assert host(room[first : first + COUNT]).tobytes() == table[ids[0]].tobytes()
    for first in (ROWS - 1, ROWS - COUNT, 0):
        with pytest.raises(ValueError, match="out overlaps input_tensor"):
            op(room[:ROWS], i, out=room[first : first + COUNT])
    assert host(room[:ROWS]).tobytes() == table.tobytes()
    shared = kind(np.zeros(COUNT * WIDTH + 2 * COUNT, np.float32))
    with pytest.raises(ValueError, match="out overlaps indices_tensor"):
        op(kind(table), shared[-2 * COUNT :].view(np.int64)[None], out=shared[1:][: COUNT * WIDTH].reshape(COUNT, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_interleaved_arrays_do_not_overlap(kind: Any) -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    room, held, i = kind(np.zeros((ROWS, 2 * WIDTH), np.float32)), kind(table), kind(ids)
    for x, out in ((room[:, :WIDTH], room[:COUNT, WIDTH:]), (room[:, ::2], room[ROWS - COUNT :, 1::2])):
        x[...] = held
        for _ in range(2):
            out[...] = np.nan
            op(x, i, out=out)
            assert host(out).tobytes() == table[ids[0]].tobytes()
            assert host(x).tobytes() == table.tobytes()


@pytest.mark.gpu
def test_pointers_of_every_alignment_are_taken_in_turn() -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    for source in (0, 4, 8, 12, 0):
        for target in (0, 12, 4, 0, 8):
            out = placed(at(target, empty()))
            op(placed(at(source, table)), placed(at(0, ids)), out=out)
            assert out.get().tobytes() == table[ids[0]].tobytes()
    for offset in (4, 12, 1):
        words = rf"^indices_tensor: the elements lie {offset % 8} bytes? past a multiple of 8, but a GPU reads"
        with pytest.raises(ValueError, match=words):
            op(placed(table), placed(at(offset, ids)), out=placed(empty()))


@pytest.mark.gpu(devices=2)
def test_each_device_gets_its_own_program(cupy: Any) -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    for number in (0, 1, 0, 1):
        out = placed(empty(), number)
        with cupy.cuda.Device(1 - number), same_streams():  # the current device does not matter
            op(placed(table, number), placed(ids, number), out=out)
        assert out.get().tobytes() == table[ids[0]].tobytes()
    assert op(table, ids).tobytes() == table[ids[0]].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_indices_are_read_at_every_call(kind: Any) -> None:
    op, (table, ids) = dg.compile(gather(), out_of_bounds="raise"), fresh()
    x, i, out = kind(table), kind(ids.copy()), kind(empty())
    for bad in (None, 2, None, 7, 0, None):
        ids = fresh()[1]
        if bad is not None:
            ids[0, bad] = ROWS
        i[...] = kind(ids)
        if bad is None:
            op(x, i, out=out)
            op.raise_if_bad()
            assert host(out).tobytes() == table[ids[0]].tobytes()
        else:
            message = rf"IndicesTensor\[0, {bad}\] = {ROWS} is out of range"
            if kind is plain:  # asking a GPU
                with pytest.raises(IndexError, match=message):
                    op(x, i, out=out)
            else:
                op(x, i, out=out)
            for _ in range(2):
                with pytest.raises(IndexError, match=message):
                    op.raise_if_bad()


def test_memmaps_and_recarrays_are_taken_masked_arrays_refused(tmp_path: Path) -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    op(table, ids, out=empty())
    mapped = np.memmap(tmp_path / "out", np.float32, "w+", shape=(COUNT, WIDTH))
    assert op(table, ids, out=mapped) is mapped
    assert mapped.tobytes() == table[ids[0]].tobytes()
    assert op(table.view(np.recarray), ids).tobytes() == table[ids[0]].tobytes()
    for masked in ((np.ma.masked_array(table), ids), (table, np.ma.masked_array(ids))):
        with pytest.raises(TypeError, match="expected a plain array, got a masked array"):
            op(*masked, out=empty())


@pytest.mark.parametrize("kind", KINDS)
def test_empty_tensors_give_empty_results(kind: Any) -> None:
    """Problems have empty tensors. Descriptors do not."""
    data, none = np.zeros((4, 3)), np.zeros((0, 3))
    for _ in range(2):
        assert dg.onnx.gather(kind(data), kind(np.zeros(0, np.int64))).shape == (0, 3)
        assert dg.onnx.gather(kind(none), kind(np.zeros(2, np.int64)), axis=1).shape == (0, 2)
        with pytest.raises(IndexError, match=r"valid indices are none \(the axis has size 0\)"):
            dg.onnx.gather(kind(none), kind(np.zeros(1, np.int64)))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_with_their_own_arrays_share_an_operator(kind: Any) -> None:
    op = dg.compile(gather())

    def right(number: int) -> bool:
        rng = random.Random(number)
        with nullcontext() if kind is plain else sys.modules["cupy"].cuda.Stream(non_blocking=True):
            for _ in range(40):
                table, ids = fresh(np.random.default_rng(rng.getrandbits(64)))
                out = kind(lying(rng, empty()))
                op(kind(lying(rng, table)), kind(ids), out=out)
                if host(out).tobytes() != table[ids[0]].tobytes():
                    return False
        return True

    assert all(at_once(right, range(1, 5)))


def test_the_caches_are_bounded() -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    for extra in range(CALLS_KEPT + 40):
        room = np.zeros((ROWS, WIDTH + extra), np.float32)
        room[:, :WIDTH] = table
        assert op(room[:, :WIDTH], ids).tobytes() == table[ids[0]].tobytes()
    calls, programs = op._prepared.cache_info(), prepared_call._host_program.cache_info()
    assert (calls.currsize, programs.currsize) == (CALLS_KEPT, PROGRAMS_KEPT)
    assert op(table, ids).tobytes() == table[ids[0]].tobytes()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("policy", ["clamp", "raise"])
def test_a_call_keeps_no_array_alive(policy: str) -> None:
    op, (table, ids) = dg.compile(gather(), out_of_bounds=policy), fresh()
    calls: list[Callable[..., Any]] = [op, lambda *a, out: op.run_buffers(*map(flat, a), out=flat(out))]
    for call in calls:
        x, i, out = table.copy(), ids.copy(), empty()
        memories = [weakref.ref(array) for array in (x, i, out)]
        call(x, i, out=out)
        call(x, i, out=out)
        del x, i, out
        assert [memory() for memory in memories] == [None, None, None]


def flat(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


@pytest.mark.gpu
@pytest.mark.parametrize(("policy", "kept"), [("clamp", [False, False, False]), ("raise", [False, True, False])])
def test_a_call_on_a_gpu_keeps_only_indices_that_raise_may_name(policy: str, kept: list[bool]) -> None:
    op, arrays = dg.compile(gather(), out_of_bounds=policy), [*map(placed, (*fresh(), empty()))]
    held = [weakref.ref(array) for array in arrays]
    op(*arrays[:2], out=arrays[2])
    del arrays
    assert [array() is not None for array in held] == kept
    op.raise_if_bad()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("kind", KINDS)
def test_operators_are_freed_with_their_last_reference(kind: Any) -> None:
    """They are freed without a garbage collection, because they hold memory of the device."""
    op, (table, ids) = dg.compile(gather(), out_of_bounds="raise"), fresh()
    bound = op.bind(kind(table), kind(ids), out=kind(empty()))
    op(kind(table), kind(ids), out=kind(empty()))
    bound()
    gone: list[Callable[[], Any]] = [weakref.ref(op), weakref.ref(bound), weakref.ref(op._tensors)]
    del op, bound
    assert [found() for found in gone] == [None, None, None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_binding_ignores_later_changes_of_shapes(kind: Any) -> None:
    op, (table, ids) = dg.compile(gather()), fresh()
    x, i, y = kind(table.copy()), kind(ids.copy()), kind(empty())
    bound, indices, out = op.bind(x, i, out=y), i[:], y[:]
    with catch_warnings(action="ignore", category=DeprecationWarning):  # of NumPy 2.5: arrays can still be changed like this
        x.shape, y.shape = (WIDTH, ROWS), (WIDTH, COUNT)
    del x, i, y
    for _ in range(3):
        ids = fresh()[1]
        indices[...], out[...] = kind(ids), np.nan
        bound()
        assert host(out).tobytes() == table[ids[0]].tobytes()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("policy", ["clamp", "raise"])
def test_a_binding_keeps_its_memory_alive_and_no_longer(policy: str) -> None:
    arrays = [*fresh(), empty()]
    memories = [weakref.ref(array) for array in arrays]
    bound = dg.compile(gather(), out_of_bounds=policy).bind(*arrays[:2], out=arrays[2])
    bound()
    del arrays
    assert all(memory() is not None for memory in memories)
    del bound
    assert [memory() for memory in memories] == [None, None, None]


@pytest.mark.usefixtures("no_collection")
@pytest.mark.gpu
@pytest.mark.parametrize("policy", ["clamp", "raise"])
def test_a_binding_keeps_memory_of_a_gpu_alive_and_no_longer(cupy: Any, policy: str) -> None:
    in_use = cupy.get_default_memory_pool().used_bytes
    gc.collect()
    before = in_use()
    arrays = [*map(placed, (*fresh(), empty()))]
    held = in_use()
    bound = dg.compile(gather(), out_of_bounds=policy).bind(*arrays[:2], out=arrays[2])
    bound()
    del arrays
    assert in_use() == held > before
    del bound
    assert in_use() == before
