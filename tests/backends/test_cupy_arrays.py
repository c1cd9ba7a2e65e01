"""dmlgather's views of CuPy's and other libraries' arrays on a GPU. Judge: NumPy's views."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import arrays
from dmlgather.backends.adapter import CUPY
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.footprints import logical, signature_on
from dmlgather.dialects.index_graph import ELEMENTWISE
from tests.backends import dlpack
from tests.backends.dlpack import Exported
from tests.gpus import NUMBERS, placed
from tests.other_libraries import Interfaced, Rig
from tests.test_operator import COUNT, ROWS, WIDTH, gather

pytestmark = pytest.mark.gpu

VIEWS: dict[str, Callable[[Any], Any]] = {
    "all": lambda array: array,
    "rows backwards, every second column": lambda array: array[::-1, ::2],
    "a corner": lambda array: array[1:, 3:],
    "transposed": lambda array: array.T,
    "columns backwards": lambda array: array[:, ::-1],
    "no rows": lambda array: array[2:2],
    "a row": lambda array: array[1],
    "an element": lambda array: array[1:2, 1:2],
    "a new axis": lambda array: array[:, None],
}
TABLE, IDS = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH), np.arange(COUNT)[None] - 3
EXPECTED = TABLE[IDS[0]].tobytes()


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_signatures_and_footprints_are_those_of_numpys_view(dtype: Any, view: Callable[[Any], Any]) -> None:
    host = np.zeros((4, 7), dtype)
    expected, found = view(host), view(placed(host))
    assert arrays.adapter_of(found) is CUPY
    on_host, signature = arrays.view_signatures([expected, found])
    assert signature is not None
    assert on_host is not None
    kind, shape, strides, where = signature
    assert (kind, shape) == (expected.dtype, expected.shape)
    assert expected.size == 0 or strides == expected.strides
    assert where == found.data.ptr % 16
    assert signature == signature_on(Device("cuda", 0), found)
    assert arrays.adopt(found) == (found, Device("cuda", 0))
    here, there = logical("x", on_host), logical("x", signature)
    assert (there.layout, there.start, there.end) == (here.layout, here.start, here.end)
    assert there.misaligned == (where + there.start) % 16


def test_arrays_of_a_subclass_have_no_signature_of_their_own(cupy: Any) -> None:
    class Other(cupy.ndarray):  # type: ignore[misc] # CuPy ships no types
        pass

    assert arrays.view_signatures([placed(np.zeros(3)).view(type=Other)]) == [None]


@pytest.mark.gpu(devices=2)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_arrays_through_dlpack_are_taken_in_place(cupy: Any, dtype: Any, view: Callable[[Any], Any]) -> None:
    array = view(placed(np.ones((4, 7), dtype), 1))
    code = dlpack.BFLOAT16 if array.dtype == ml_dtypes.bfloat16 else None
    found, device = arrays.adopt(Exported(array, (dlpack.CUDA, 1), code))
    assert (device, type(found)) == (Device("cuda", 1), cupy.ndarray)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert array.size == 0 or (found.strides, found.data.ptr) == (array.strides, array.data.ptr)


@pytest.mark.gpu(devices=2)
def test_a_call_takes_arrays_of_another_library(cupy: Any) -> None:
    held = [placed(array, 1) for array in (TABLE, IDS, np.zeros((COUNT, WIDTH), np.float32))]
    x, i, out = (Exported(array, (dlpack.CUDA, 1)) for array in (held[0][::-1], held[1], held[2]))
    with held[0].device:
        cupy.cuda.Device().synchronize()
    assert dg.compile(gather())(x, i, out=out) is out
    assert held[2].get().tobytes() == TABLE[::-1][IDS[0]].tobytes()


def test_a_missing_gpu_is_named(cupy: Any) -> None:
    count = cupy.cuda.runtime.getDeviceCount()
    with pytest.raises(dg.DeviceError, match=f"there is no cuda:{count}: this machine has {count} GPU"):
        arrays.adopt(Exported(np.zeros(3), (dlpack.CUDA, count)))


@pytest.mark.parametrize("code", [dlpack.FLOAT8_E4M3FN, 17])
def test_types_that_cupy_lacks_are_refused_with_a_remedy(code: int) -> None:
    with pytest.raises(TypeError, match=rf"^CuPy has no type for uint8 \(.*{code}\): pass a view of an integer type$"):
        arrays.adopt(Exported(placed(np.zeros(3, np.uint8)), (dlpack.CUDA, 0), code))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.int4, "M8[s]"], ids=lambda dtype: np.dtype(dtype).name)
def test_copies_of_types_that_cupy_lacks_are_refused(dtype: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"^CuPy has no type for {re.escape(str(np.dtype(dtype)))} \(.*\): pass a view of an integer"
    ):
        arrays.move(np.zeros(3, dtype), CPU, Device("cuda"))


def test_a_failing_device_is_not_taken_for_a_missing_type(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of an earlier kernel appears in the next call of CUDA."""

    def fails(array: Any) -> None:
        raise cupy.cuda.runtime.CUDARuntimeError(700)

    monkeypatch.setattr(cupy, "from_dlpack", fails)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        arrays.adopt(Exported(placed(np.zeros(3)), (dlpack.CUDA, 0)))


INTERFACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "version 2": lambda array: {"version": 2},
    "version 3": lambda array: {},
    "the default stream": lambda array: {"stream": 1},
    "the thread's stream": lambda array: {"stream": 2},
    "read-only": lambda array: {"data": (array.data.ptr, True)},
    "strides": lambda array: {"strides": (4 * WIDTH, 4)},
}


@pytest.mark.parametrize("fields", INTERFACES.values(), ids=INTERFACES)
def test_every_form_of_the_interface_is_taken(fields: Callable[[Any], dict[str, Any]]) -> None:
    table = placed(TABLE)
    found: Any = dg.compile(gather())(Interfaced(table, **fields(table)), Interfaced(placed(IDS)))
    assert found.get().tobytes() == EXPECTED


class InterfaceAndDLPack(Interfaced, Exported):
    """An array with both interfaces. flag: whether it is read-only."""

    def __init__(self, array: Any, *, flag: bool = False) -> None:
        Exported.__init__(self, array, (dlpack.CUDA, 0))
        Interfaced.__init__(self, array, data=(array.data.ptr, flag), stream=None)


def test_a_type_unknown_to_dlpack_is_read_by_the_interface() -> None:
    held = placed(np.zeros(3, np.uint8))
    given = InterfaceAndDLPack(held)
    given._managed.tensor.code = 17
    found, device = arrays.adopt(given)
    assert (found.data.ptr, found.dtype, device) == (held.data.ptr, held.dtype, Device("cuda", 0))


@pytest.mark.parametrize("how", ["call", "bind", "run_buffers"])
def test_read_only_memory_is_refused_as_output(cupy: Any, how: str) -> None:
    """CuPy's views have no read-only flag, with DLPack or with the interface."""
    out = placed(np.zeros((COUNT, WIDTH), np.float32))
    op = dg.compile(gather())
    calls: dict[str, Callable[..., Any]] = {"call": op, "bind": op.bind, "run_buffers": op.run_buffers}
    with pytest.raises(ValueError, match="out is read-only; pass a writeable array"):
        calls[how](placed(TABLE), placed(IDS), out=InterfaceAndDLPack(out, flag=True))
    assert not out.any()
    if how != "run_buffers":
        calls[how](placed(TABLE), placed(IDS), out=InterfaceAndDLPack(out))


@pytest.fixture
def rig() -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(stack)


def test_arrays_of_jax_are_never_written(rig: Rig) -> None:
    """JAX's arrays are immutable."""
    out = rig.libraries["jax"].array(np.zeros((COUNT, WIDTH), np.float32))
    with pytest.raises(ValueError, match="out is read-only"):
        dg.compile(gather())(placed(TABLE), placed(IDS), out=out)


@pytest.mark.parametrize("down", [1, -1, 2, -3])
@pytest.mark.parametrize("across", [1, -1, 2])
@pytest.mark.parametrize("room", [0, 1, 2])
def test_strided_views_are_read_and_written_in_place(down: int, across: int, room: int) -> None:
    """room: columns on the left outside of the view, so that rows have any alignment."""
    op, size = dg.compile(gather()), ROWS * abs(down) * (WIDTH * abs(across) + room)
    wide = np.arange(size, dtype=np.float32).reshape(ROWS * abs(down), -1)
    ids, out = placed(np.repeat(IDS, 2, axis=1)), placed(np.zeros((COUNT, WIDTH + room), np.float32))
    table, expected = (array[::down, room:][:, ::across] for array in (placed(wide), wide))
    target = out[:: -1 if down < 0 else 1, room:]
    assert op(table, ids[:, ::2], out=target) is target
    assert target.get().tobytes() == expected[IDS[0]].tobytes()
    assert not out[:, :room].any()


def test_a_result_that_does_not_fit_is_a_memory_error(cupy: Any) -> None:
    """Afterwards the operator can be called again."""
    count = cupy.cuda.runtime.memGetInfo()[1] // 2**20 + 1
    row = cupy.zeros((1, 2**18), np.float32)
    for rows in (count, 3):
        ids = cupy.broadcast_to(cupy.zeros(1, np.int64), (rows,))
        if rows == count:
            with pytest.raises(MemoryError):
                dg.onnx.gather(row, ids, out_of_bounds="clamp")
        else:
            assert dg.onnx.gather(row, ids, out_of_bounds="clamp").shape == (3, 2**18)


def test_cupy_has_the_functions_of_graph_arithmetic(cupy: Any) -> None:
    """Graph arithmetic looks functions up by NumPy's names."""
    assert [function for function in ELEMENTWISE.values() if not callable(getattr(cupy, function.__name__, None))] == []
