"""Compiled operators on a GPU (ci/gpu): CuPy and DLPack arrays, streams, and CUDA graphs, through the public interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends.cuda import DeviceError, require
from tests.test_operator import COUNT, ROWS, WIDTH, gather

pytestmark = pytest.mark.gpu

ROUNDS = 20


@pytest.fixture(scope="module")
def cupy() -> Any:
    try:
        return require(0)
    except DeviceError as error:
        pytest.skip(str(error))


class DLPackOnly:
    """An array of a library that is neither NumPy nor CuPy."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def fresh() -> tuple[Any, Any]:
    """A random table, and indices from both of its ends."""
    rng = np.random.default_rng()
    return rng.random((ROWS, WIDTH), dtype=np.float32), rng.integers(-ROWS, ROWS, (1, COUNT))


def test_cupy_arrays_of_any_strides(cupy: Any) -> None:
    op = dg.compile(gather())
    table, ids = fresh()
    wide = cupy.zeros((ROWS, 2 * WIDTH + 1), np.float32)
    wide[:, 1::2] = cupy.asarray(table)
    result = op(wide[:, 1::2], cupy.asarray(ids))
    assert isinstance(result, cupy.ndarray)
    assert result.get().tobytes() == table[ids[0]].tobytes()
    out = cupy.zeros((COUNT, WIDTH + 1), np.float32)
    backwards = out[::-1, 1:]
    assert op(cupy.asarray(table), cupy.asarray(ids), out=backwards) is backwards
    assert out.get()[::-1, 1:].tobytes() == table[ids[0]].tobytes()
    assert not out[:, 0].any()
    with pytest.raises(ValueError, match="out overlaps input 0"):
        op(wide[:, 1::2], cupy.asarray(ids), out=wide[:COUNT, 1::2])


def test_arrays_through_dlpack(cupy: Any) -> None:
    table, ids = fresh()
    out = cupy.zeros((COUNT, WIDTH), np.float32)
    dg.compile(gather())(*(DLPackOnly(cupy.asarray(array)) for array in (table, ids)), out=DLPackOnly(out))
    assert out.get().tobytes() == table[ids[0]].tobytes()


def test_a_stream_of_its_own_orders_everything(cupy: Any) -> None:
    """Host arrays go there, the kernel runs, and the result comes back, on a stream that waits for no other."""
    op = dg.compile(gather(), device="cuda")
    stream = cupy.cuda.Stream(non_blocking=True)
    for given in (stream, stream.ptr):
        for _ in range(ROUNDS):
            table, ids = fresh()
            assert op(table, ids, stream=given).tobytes() == table[ids[0]].tobytes()
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null


@pytest.mark.parametrize("policy", ["clamp", "raise"])
def test_a_bound_operator_is_captured_and_replayed(cupy: Any, policy: str) -> None:
    table, ids = fresh()
    held, indices = cupy.asarray(table), cupy.asarray(ids)
    out = cupy.zeros((COUNT, WIDTH), np.float32)
    bound = dg.compile(gather(), out_of_bounds=policy).bind(held, indices, out=out)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        bound()
        graph = stream.end_capture()
        for _ in range(ROUNDS):
            _, ids = fresh()
            indices.set(ids)
            graph.launch()
            assert out.get().tobytes() == table[ids[0]].tobytes()
            bound.raise_if_bad()
        ids[0, 5] = 2**40
        indices.set(ids)
        graph.launch()
        if policy == "clamp":
            assert out.get()[5].tobytes() == table[-1].tobytes()
        else:
            with pytest.raises(IndexError, match=r"IndicesTensor\[0, 5\] = 1099511627776 is out of range"):
                bound.raise_if_bad()


def test_a_bad_index_is_asked_for(cupy: Any) -> None:
    table, ids = fresh()
    op = dg.compile(gather(), out_of_bounds="raise")
    op(cupy.asarray(table), cupy.asarray(ids))
    op.raise_if_bad()
    ids[0, [4, 7]] = (ROWS, -ROWS - 1)
    op(cupy.asarray(table), cupy.asarray(ids))
    with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 4\] = {ROWS} is out of range for axis 0 of size {ROWS}"):
        op.raise_if_bad()


def test_pointers(cupy: Any) -> None:
    table, ids = fresh()
    held, indices, out = cupy.asarray(table), cupy.asarray(ids), cupy.zeros((COUNT, WIDTH), np.float32)
    dg.compile(gather(), device="cuda").launch(held.data.ptr, indices.data.ptr, out.data.ptr)
    assert out.get().tobytes() == table[ids[0]].tobytes()
