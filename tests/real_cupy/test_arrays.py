"""CuPy's own arrays, over host memory, through dmlgather's reading of arrays and through whole calls. Judged by NumPy's views."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.footprints import Signature, logical, signature_on, signatures
from dmlgather.distributed.chunk_operators import as_words, word_of
from tests import seeds
from tests.kernels.host_driver import installed
from tests.real_cupy import dlpack
from tests.real_cupy.arrays_on_host import RealArrayDriver, over, under
from tests.real_cupy.dlpack import Exported
from tests.test_operator import COUNT, ROWS, WIDTH, gather

pytestmark = pytest.mark.cupy

NUMBERS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16)
"""Types of elements that every supported CuPy has."""

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


@pytest.fixture
def gpu() -> Iterator[RealArrayDriver]:
    with installed(RealArrayDriver()) as stand_in:
        yield stand_in


def rows(dtype: Any) -> np.ndarray[Any, Any]:
    """A table of random bits, shape [ROWS, WIDTH]."""
    bits = seeds.numpy_rng().integers(0, 2 if dtype == "?" else 256, ROWS * WIDTH * np.dtype(dtype).itemsize, np.uint8)
    table: np.ndarray[Any, Any] = bits.view(dtype).reshape(ROWS, WIDTH)
    return table


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: np.dtype(dtype).name)
def test_signatures_and_footprints_are_those_of_numpys_view(dtype: Any, view: Callable[[Any], Any]) -> None:
    host = np.zeros((4, 7), dtype)
    expected, found = view(host), view(over(host, 3))
    (signature,) = signatures([found])
    assert signature is not None
    kind, shape, strides, where = signature
    assert (kind, shape) == (expected.dtype, expected.shape)
    assert expected.size == 0 or strides == expected.strides
    assert where == 3 << 4 | found.data.ptr % 16
    assert expected.size == 0 or found.data.ptr == expected.ctypes.data
    assert signature == signature_on(Device("cuda", 3), found)
    assert arrays.adopt(found) == (found, Device("cuda", 3))
    on_host, on_device = logical("x", host_signature(expected)), logical("x", signature)
    assert (on_device.layout, on_device.start, on_device.end) == (on_host.layout, on_host.start, on_host.end)
    assert on_device.misaligned == (where + on_device.start) % 16


def host_signature(array: np.ndarray[Any, Any]) -> Signature:
    (found,) = signatures([array])
    assert found is not None
    return found


def test_arrays_of_a_subclass_have_no_signature_of_their_own(cupy: Any) -> None:
    class Other(cupy.ndarray):  # type: ignore[misc] # CuPy ships no types
        pass

    assert signatures([over(np.zeros(3)).view(type=Other)]) == [None]


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: np.dtype(dtype).name)
def test_eager_functions_move_every_type(gpu: RealArrayDriver, cupy: Any, dtype: Any) -> None:
    table, ids = rows(dtype), seeds.numpy_rng().integers(-ROWS, ROWS, 9)
    found = dg.onnx.gather(over(table), over(ids))
    assert type(found) is cupy.ndarray
    assert found.dtype == table.dtype
    assert under(found).tobytes() == table[ids].tobytes()
    elements = np.ascontiguousarray(np.broadcast_to(ids[:, None], (9, WIDTH)))
    found = dg.onnx.gather_elements(over(table)[::-1], over(elements), axis=0)
    assert under(found).tobytes() == np.take_along_axis(table[::-1], elements % ROWS, 0).tobytes()


@pytest.mark.parametrize("down", [1, -1, 2, -3])
@pytest.mark.parametrize("across", [1, -1, 2])
@pytest.mark.parametrize("room", [0, 1, 2])
def test_views_of_every_kind_run_in_place(gpu: RealArrayDriver, down: int, across: int, room: int) -> None:
    """room: columns on the left that are not the view's, so that rows lie at any alignment."""
    op, random = dg.compile(gather()), seeds.numpy_rng()
    wide = random.random((ROWS * abs(down), WIDTH * abs(across) + room), np.float32)
    ids, out = random.integers(-ROWS, ROWS, (1, 2 * COUNT)), np.zeros((COUNT, WIDTH + room), np.float32)
    table, expected = (array[::down, room:][:, ::across] for array in (over(wide), wide))
    target = over(out)[:: -1 if down < 0 else 1, room:]
    assert op(table, over(ids)[:, ::2], out=target) is target
    assert under(target).tobytes() == expected[ids[0, ::2]].tobytes()
    assert not out[:, :room].any()


def test_bound_calls_addresses_and_errors(gpu: RealArrayDriver) -> None:
    table, ids, out = rows("f4"), np.arange(COUNT).reshape(1, -1), np.zeros((COUNT + 1, WIDTH), np.float32)
    op = dg.compile(gather(), out_of_bounds="raise")
    on_device = [over(array) for array in (table, ids)]
    target = over(out)[1:]
    bound = op.bind(*on_device, out=target)
    bound()
    assert out[1:].tobytes() == table[:COUNT].tobytes()
    assert gpu.streams == [1000]
    ids[0, 2] = ROWS
    bound(7)
    with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 2\] = {ROWS} is out of range"):
        bound.raise_if_bad()
    with pytest.raises(ValueError, match="out overlaps input 0"):
        op(*on_device, out=over(table)[:COUNT])
    with pytest.raises(TypeError, match=r"different devices \(cuda:0, cuda:1\)"):
        op(over(table), over(ids, 1))


def test_a_stream_of_cupys_is_an_address(gpu: RealArrayDriver, cupy: Any) -> None:
    stream = cupy.cuda.Stream.from_external(SimpleNamespace(__cuda_stream__=lambda: (0, 55)))
    target = over(np.zeros((COUNT, WIDTH), np.float32))
    dg.compile(gather())(over(rows("f4")), over(np.zeros((1, COUNT), np.int64)), out=target, stream=stream)
    assert gpu.streams == [55]


@pytest.mark.parametrize("dtype", ["c16", "c8", "?", "f2", ml_dtypes.bfloat16], ids=lambda dtype: np.dtype(dtype).name)
def test_chunks_are_read_as_words(dtype: Any) -> None:
    host = rows(dtype)
    found, expected = (as_words(array[::2, ::-1], *word_of(host.dtype)) for array in (over(host), host))
    assert (found.shape, found.strides, found.dtype) == (expected.shape, expected.strides, expected.dtype)
    assert found.data.ptr == expected.ctypes.data


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_arrays_through_dlpack_are_taken_in_place(gpu: RealArrayDriver, dtype: Any, view: Callable[[Any], Any]) -> None:
    array = view(np.ones((4, 7), dtype))
    code = dlpack.BFLOAT16 if array.dtype == ml_dtypes.bfloat16 else None
    found, device = arrays.adopt(Exported(array, (dlpack.CUDA, 1), code))
    assert (device, type(found)) == (Device("cuda", 1), gpu.ndarray)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert array.size == 0 or (found.strides, found.data.ptr) == (array.strides, array.ctypes.data)


def test_a_call_on_arrays_of_another_library(gpu: RealArrayDriver) -> None:
    table, ids, out = rows("f4"), np.arange(COUNT).reshape(1, -1), np.zeros((COUNT, WIDTH), np.float32)
    given = [Exported(array, (dlpack.CUDA, 1)) for array in (table[::-1], ids)]
    target = Exported(out, (dlpack.CUDA, 1))
    assert dg.compile(gather())(*given, out=target) is target
    assert out.tobytes() == table[::-1][:COUNT].tobytes()
    assert set(gpu.launched_on) == {1}


@pytest.mark.parametrize("where", [(dlpack.CPU, 0), (dlpack.CUDA_HOST, 0)])
def test_host_memory_of_every_kind_is_numpys(gpu: RealArrayDriver, where: tuple[int, int]) -> None:
    host = np.arange(6, dtype=np.float32)
    found, device = arrays.adopt(Exported(host, where))
    assert (type(found), device) == (np.ndarray, CPU)
    assert np.shares_memory(found, host)


def test_other_devices_are_refused(gpu: RealArrayDriver) -> None:
    with pytest.raises(TypeError, match="Exported lies on DLPack device type 10; only host and CUDA memory can be used"):
        arrays.adopt(Exported(np.zeros(3), (dlpack.ROCM, 0)))
    with pytest.raises(dg.DeviceError, match="there is no cuda:5: this machine has 2 GPUs"):
        arrays.adopt(Exported(np.zeros(3), (dlpack.CUDA, 5)))


@pytest.mark.parametrize("code", [dlpack.FLOAT8_E4M3FN, 17])
def test_types_that_cupy_lacks_are_refused_with_a_remedy(gpu: RealArrayDriver, code: int) -> None:
    with pytest.raises(TypeError, match=rf"^CuPy has no type for uint8 \(.*{code}\): pass a view of an integer type$"):
        arrays.adopt(Exported(np.zeros(3, np.uint8), (dlpack.CUDA, 0), code))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.int4, "M8[s]"], ids=lambda dtype: np.dtype(dtype).name)
def test_copies_of_types_that_cupy_lacks_are_refused_with_a_remedy(
    gpu: RealArrayDriver, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    monkeypatch.setattr(gpu, "asarray", gpu.package.asarray)
    with pytest.raises(
        TypeError, match=rf"^CuPy has no type for {re.escape(str(np.dtype(dtype)))} \(.*\): pass a view of an integer"
    ):
        arrays.move(np.zeros(3, dtype), CPU, Device("cuda"))


def test_a_failing_device_is_not_taken_for_a_missing_type(gpu: RealArrayDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of an earlier kernel comes up in the next call of CUDA: here, in CuPy's own question for the driver's devices."""
    cupy = gpu.package
    monkeypatch.setattr(gpu, "from_dlpack", cupy.from_dlpack)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        arrays.adopt(Exported(np.zeros(3), (dlpack.CUDA, 0)))


class Interface:
    """Memory on a GPU by `__cuda_array_interface__`."""

    def __init__(self, array: np.ndarray[Any, Any], **more: Any) -> None:
        self._array = array
        fields = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "version": 3,
            "strides": None,
        }
        self.__cuda_array_interface__ = fields | more


class InterfaceAndDLPack(Interface, Exported):
    """Both."""

    def __init__(self, array: np.ndarray[Any, Any], **more: Any) -> None:
        Exported.__init__(self, array, (dlpack.CUDA, 0))
        Interface.__init__(self, array, **more)


def test_an_array_with_the_interface_alone_lies_where_its_pointer_does(
    gpu: RealArrayDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "asarray", lambda array: over(array.owner._array, gpu.getDevice()))
    host = np.zeros(3)
    found, device = arrays.adopt(Interface(host))
    assert (device, found.device.id, found.data.ptr) == (Device("cuda", 1), 1, host.ctypes.data)
    assert gpu.getDevice() == 0


INTERFACES: dict[str, dict[str, Any]] = {
    "version 2": {"version": 2},
    "version 3": {},
    "a stream": {"stream": 7},
    "the default stream": {"stream": 1},
    "read-only": {"data": (4096, True)},
    "strides": {"strides": (-4,)},
    "a type that it describes": {"typestr": "|V4", "descr": [("", "|V4")]},
}


@pytest.mark.parametrize("fields", INTERFACES.values(), ids=INTERFACES)
def test_every_form_of_the_interface_is_taken_as_far_as_the_driver(cupy: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        cupy.asarray(Interface(np.zeros(3, np.float32), **fields))


def test_a_type_that_dlpack_lacks_comes_by_the_interface(gpu: RealArrayDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    host = np.zeros(3, np.uint8)
    given = InterfaceAndDLPack(host)
    given._managed.tensor.code = 17
    asked = []

    def asarray(array: Any) -> Any:
        asked.append(array.owner)
        return over(host)

    monkeypatch.setattr(gpu, "asarray", asarray)
    found, device = arrays.adopt(given)
    assert (asked, found.data.ptr, device) == ([given], host.ctypes.data, Device("cuda", 1))


@pytest.mark.parametrize("how", ["call", "bind", "run_buffers"])
def test_memory_that_must_not_be_written_is_refused(gpu: RealArrayDriver, how: str) -> None:
    """CuPy's view has no flag for it, neither from DLPack nor from the interface."""
    table, ids = over(rows("f4")), over(np.zeros((1, COUNT), np.int64))
    out = np.zeros((COUNT, WIDTH), np.float32)
    frozen, free = (InterfaceAndDLPack(out, data=(out.ctypes.data, flag)) for flag in (True, False))
    op = dg.compile(gather())
    calls: dict[str, Callable[..., Any]] = {"call": op, "bind": op.bind, "run_buffers": op.run_buffers}
    with pytest.raises(ValueError, match="out is read-only; pass a writeable array"):
        calls[how](table, ids, out=frozen)
    assert not gpu.streams
    if how != "run_buffers":
        calls[how](table, ids, out=free)


def test_arrays_of_jax_are_never_written(gpu: RealArrayDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are immutable; JAX itself need not be installed here."""
    jax = SimpleNamespace(
        Array=Exported,
        core=SimpleNamespace(Tracer=type(None)),
        numpy=SimpleNamespace(issubdtype=lambda *_: False),
        dtypes=SimpleNamespace(extended=None),
    )
    monkeypatch.setitem(sys.modules, "jax", jax)  # as much of it as is asked for
    out = Exported(np.zeros((COUNT, WIDTH), np.float32), (dlpack.CUDA, 0))
    monkeypatch.setattr(Exported, "is_deleted", lambda self: False, raising=False)
    monkeypatch.setattr(Exported, "devices", lambda self: {"cuda:0"}, raising=False)
    with pytest.raises(ValueError, match="out is read-only"):
        dg.compile(gather())(over(rows("f4")), over(np.zeros((1, COUNT), np.int64)), out=out)
