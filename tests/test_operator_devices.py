"""Compiled operators on CUDA arrays, over a driver that is not one (tests/kernels/host_driver.py): device memory is host
memory and kernels are interpreted. Shows how arrays, devices and streams are handled; ci/gpu shows a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests import seeds
from tests.kernels.host_driver import HostDriver, installed
from tests.test_operator import COUNT, ROWS, WIDTH, gather


class DeviceArray:
    """What `dmlgather` uses of a cupy.ndarray."""

    def __init__(self, array: np.ndarray[Any, Any], number: int = 0) -> None:
        self.held, self.device = array, SimpleNamespace(id=number)

    shape = property(lambda self: self.held.shape)
    strides = property(lambda self: self.held.strides)
    dtype = property(lambda self: self.held.dtype)
    ndim = property(lambda self: self.held.ndim)
    size = property(lambda self: self.held.size)
    nbytes = property(lambda self: self.held.nbytes)
    itemsize = property(lambda self: self.held.itemsize)
    flags = property(lambda self: self.held.flags)
    data = property(lambda self: SimpleNamespace(ptr=self.held.ctypes.data, device_id=self.device.id, mem=self.held))

    def view(self, dtype: Any) -> DeviceArray:
        return DeviceArray(self.held.view(dtype), self.device.id)

    def __getitem__(self, key: Any) -> DeviceArray:
        return DeviceArray(self.held[key], self.device.id)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[key] = value.held if isinstance(value, DeviceArray) else value

    def reshape(self, *shape: Any) -> DeviceArray:
        return type(self)(self.held.reshape(*shape), self.device.id)

    def __len__(self) -> int:
        return len(self.held)

    def get(self) -> np.ndarray[Any, Any]:
        return self.held.copy()

    def copy(self) -> DeviceArray:
        return DeviceArray(self.held.copy(), self.device.id)


class ArrayDriver(HostDriver):
    """A HostDriver that also has arrays and a current stream."""

    ndarray = DeviceArray

    def __init__(self) -> None:
        super().__init__()
        self.streams: list[int] = []
        self.arrays_made = 0
        self.current: dict[int, int] = {}
        self.used: list[tuple[str, int]] = []
        self.waited: list[int] = []
        self.cuda.get_current_stream = self._stream_of
        self.cuda.Stream = SimpleNamespace(from_external=self._made_current)

    def _stream_of(self, number: int) -> Any:
        pointer = self.current.get(number, 1000 + number)
        return SimpleNamespace(ptr=pointer, synchronize=lambda: self.waited.append(pointer))

    @contextmanager
    def _made_current(self, stream: Any) -> Iterator[None]:
        before, number = dict(self.current), self.getDevice()
        version, self.current[number] = stream.__cuda_stream__()
        assert version == 0
        yield
        self.current = before

    def use(self, what: str) -> None:
        """Remember on which stream the current device does something besides launching."""
        self.used.append((what, self._stream_of(self.getDevice()).ptr))

    def empty(self, shape: Any, dtype: Any) -> DeviceArray:
        self.arrays_made += 1
        self.use("empty")
        return DeviceArray(np.empty(shape, dtype), self.getDevice())

    def asarray(self, array: Any, *, order: str = "K", blocking: bool = False) -> DeviceArray:
        if isinstance(array, DeviceArray) and array.device.id == self.getDevice():
            return DeviceArray(np.asarray(array.held, order=order), array.device.id)  # type: ignore[call-overload]
        held = array.held if isinstance(array, DeviceArray) else array
        assert blocking
        assert held.flags.forc or not isinstance(array, DeviceArray), "CuPy copies only packed arrays between GPUs"
        self.use("copy")
        return DeviceArray(held.copy(), self.getDevice())

    def launchKernel(self, function: int, *numbers: int) -> None:  # noqa: N802 - CUDA's name
        self.streams.append(numbers[-3])
        super().launchKernel(function, *numbers)


@pytest.fixture
def gpu() -> Iterator[ArrayDriver]:
    with installed(ArrayDriver()) as stand_in:
        yield stand_in


@pytest.fixture
def table() -> Any:
    return seeds.numpy_rng().random((ROWS, WIDTH), dtype=np.float32)


@pytest.fixture
def ids() -> Any:
    return seeds.numpy_rng().integers(-ROWS, ROWS, (1, COUNT))


def test_cuda_arrays_give_cuda_arrays_on_the_current_stream(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    result = dg.compile(gather())(DeviceArray(table, 1), DeviceArray(ids, 1))
    assert isinstance(result, DeviceArray)
    assert result.device.id == 1
    assert result.held.tobytes() == table[ids[0]].tobytes()
    assert set(gpu.streams) == {1001}
    assert set(gpu.launched_on) == {1}


def test_a_call_with_out_allocates_nothing_and_takes_a_stream(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    op = dg.compile(gather())
    out = DeviceArray(np.full((COUNT, WIDTH), np.nan, np.float32))
    op(DeviceArray(table), DeviceArray(ids), out=out)
    made, allocated = gpu.arrays_made, gpu.allocations
    out.held[...] = np.nan
    assert op(DeviceArray(table), DeviceArray(ids), out=out, stream=SimpleNamespace(ptr=55)) is out
    assert (gpu.arrays_made, gpu.allocations) == (made, allocated)
    assert gpu.streams[-1] == 55
    assert out.held.tobytes() == table[ids[0]].tobytes()


def test_strided_and_misaligned_arrays_are_read_in_place(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    op = dg.compile(gather())
    wide = np.zeros((ROWS, 2 * WIDTH + 1), np.float32)
    wide[:, 1::2] = table
    out = np.zeros((COUNT, WIDTH + 1), np.float32)
    op(DeviceArray(wide[:, 1::2]), DeviceArray(ids), out=DeviceArray(out[::-1, 1:]))
    assert out[::-1, 1:].tobytes() == table[ids[0]].tobytes()
    assert not out[:, 0].any()


def test_bound_and_pointer_calls(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    op = dg.compile(gather())
    out = np.empty((COUNT, WIDTH), np.float32)
    bound = op.bind(DeviceArray(table), DeviceArray(ids), out=DeviceArray(out))
    for stream in (None, 77):
        ids[...] = seeds.numpy_rng().integers(-ROWS, ROWS, ids.shape)
        bound(stream)
        assert out.tobytes() == table[ids[0]].tobytes()
    assert gpu.streams[-1] == 77
    placed = [aligned(array) for array in (table, ids, out)]
    placed[2][...] = 0
    op.launch(*(array.ctypes.data for array in placed), stream=78)
    assert placed[2].tobytes() == table[ids[0]].tobytes()
    assert gpu.streams[-1] == 78


def test_a_launch_on_addresses_reports_bad_indices_too(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    ids[0, 5] = ROWS + 3
    op = dg.compile(gather(), out_of_bounds="raise")
    held = [aligned(array) for array in (table, ids, np.empty((COUNT, WIDTH), np.float32))]
    op.launch(*(array.ctypes.data for array in held), stream=8)
    with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 5\] = {ROWS + 3} is out of range"):
        op.raise_if_bad()
    with pytest.raises(ValueError, match="addresses on a GPU, and the device is cpu"):
        op.launch(0, 16, 32, device="cpu")
    with pytest.raises(ValueError, match="out overlaps input 0"):
        op.launch(held[0].ctypes.data, held[1].ctypes.data, held[0].ctypes.data)


def test_raise_on_a_gpu_is_asked_for(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    ids[0, [4, 7]] = (ROWS, -ROWS - 1)
    op = dg.compile(gather(), out_of_bounds="raise")
    op(DeviceArray(table), DeviceArray(ids), stream=9)
    with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 4\] = {ROWS} is out of range for axis 0 of size {ROWS}"):
        op.raise_if_bad()
    ids[...] = 0
    op(DeviceArray(table), DeviceArray(ids), stream=9)
    op.raise_if_bad()


def test_arrays_on_different_devices_are_refused(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    op = dg.compile(gather())
    for pair in ((DeviceArray(table), ids), (table, DeviceArray(ids)), (DeviceArray(table), DeviceArray(ids, 1))):
        with pytest.raises(TypeError, match=r"different devices \((cuda:0|cpu), (cuda:[01]|cpu)\)"):
            op(*pair)
    with pytest.raises(TypeError, match="different devices"):
        op(DeviceArray(table), DeviceArray(ids), out=np.empty((COUNT, WIDTH), np.float32))
    assert not gpu.streams


def test_device_moves_the_arrays_that_lie_elsewhere(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    op = dg.compile(gather(), device="cuda")
    for data, indices in ((DeviceArray(table), ids), (table, DeviceArray(ids)), (DeviceArray(table), DeviceArray(ids, 1))):
        result: Any = op(data, indices)
        assert type(result) is type(data)
        held = result.held if isinstance(result, DeviceArray) else result
        assert held.tobytes() == table[ids[0]].tobytes()


def test_device_moves_arrays_there_and_the_result_back(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    result = dg.compile(gather(), device="cuda:1")(table, ids)
    assert isinstance(result, np.ndarray)
    assert result.tobytes() == table[ids[0]].tobytes()
    assert set(gpu.launched_on) == {1}
    out = np.empty((COUNT, WIDTH), np.float32)
    assert dg.compile(gather(), device="cuda")(table, ids, out=out) is out
    assert out.tobytes() == table[ids[0]].tobytes()
    back = dg.compile(gather(), device="cpu")(DeviceArray(table), DeviceArray(ids))
    assert isinstance(back, DeviceArray)
    assert back.held.tobytes() == table[ids[0]].tobytes()
    with pytest.raises(TypeError, match="bind takes arrays that lie on cuda:1"):
        dg.compile(gather(), device="cuda:1").bind(table, ids, out=out)


def test_a_given_stream_orders_copies_and_allocations_too(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    op = dg.compile(gather(), device="cuda:1")
    assert op(table, ids, stream=55).tobytes() == table[ids[0]].tobytes()
    assert gpu.used == [("copy", 55), ("copy", 55), ("empty", 55)]
    assert gpu.streams == [55]
    assert not gpu.current
    dg.compile(gather())(DeviceArray(table, 1), DeviceArray(ids, 1), stream=56)
    assert gpu.used[3:] == [("empty", 56)]
    with pytest.raises(TypeError, match="the CPU, which has no streams"):
        dg.compile(gather())(table, ids, stream=57)


def test_a_view_moves_from_one_gpu_to_another_after_its_stream(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    wide = np.zeros((ROWS, 2 * WIDTH), np.float32)
    wide[:, ::2] = table
    result = dg.compile(gather(), device="cuda:1")(DeviceArray(wide[:, ::2], 0), DeviceArray(ids, 0))
    assert (result.device.id, result.held.tobytes()) == (0, table[ids[0]].tobytes())
    assert gpu.waited == [1000, 1000, 1001]


def test_indices_at_an_odd_address_are_refused(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    room = np.zeros(ids.nbytes + 4, np.uint8)
    room[4:].view(np.int64)[...] = ids[0]
    odd = room[4:].view(np.int64).reshape(ids.shape)
    with pytest.raises(
        ValueError, match=r"^indices_tensor: the elements lie 4 bytes past a multiple of 8, but a GPU reads int64 at"
    ):
        dg.compile(gather())(DeviceArray(table), DeviceArray(odd))
    assert dg.compile(gather())(table, odd).tobytes() == table[ids[0]].tobytes()


def test_bindings_on_one_stream_report_their_own_bad_index(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    op = dg.compile(gather(), out_of_bounds="raise")
    bad = ids.copy()
    bad[0, 3] = ROWS
    out = [DeviceArray(np.empty((COUNT, WIDTH), np.float32)) for _ in range(2)]
    first, second = (op.bind(DeviceArray(table), DeviceArray(i), out=o) for i, o in zip((bad, ids), out, strict=True))
    allocated = gpu.allocations
    first(9)
    second(9)
    assert gpu.allocations == allocated
    second.raise_if_bad()
    with pytest.raises(IndexError, match=rf"IndicesTensor\[0, 3\] = {ROWS} is out of range"):
        first.raise_if_bad()
    bad[0, 3] = 1
    with pytest.raises(IndexError, match=r"IndicesTensor\[0, 3\] was out of range \(it is 1 by now\) for axis 0"):
        first.raise_if_bad()


def test_compare_runs_on_every_device(gpu: ArrayDriver, table: Any, ids: Any) -> None:
    ids[0, 0] = 2**40
    found = dg.compare(gather(), table, ids, devices=("cuda", "cuda:1", "cpu", "reference"))
    assert str(found) == f"equal on cuda, cuda:1, cpu, reference: {COUNT * WIDTH} elements, bit for bit"
    found = dg.compare(gather(), table, ids, devices=("cuda", "cpu"), out_of_bounds="raise")
    assert found.equal
    assert "IndicesTensor[0, 0] = 1099511627776" in str(found)


def test_without_a_gpu_compiling_for_one_says_what_is_missing(no_cupy: None) -> None:
    with pytest.raises(dg.DeviceError, match=r"CuPy cannot be imported .*pip install"):
        dg.compile(gather(), device="cuda")


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    room = np.empty(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    placed: np.ndarray[Any, Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    placed[...] = array
    return placed
