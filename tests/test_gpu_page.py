"""What docs/gpu.md says about arrays of other libraries and their streams, over stand-ins (gpu_page.py)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests import seeds
from tests.gpu_page import PageDriver, Tensor, stand_in
from tests.test_operator import COUNT, ROWS, WIDTH, gather
from tests.test_operator_devices import DeviceArray


@pytest.fixture
def gpu() -> Iterator[PageDriver]:
    with ExitStack() as stack:
        yield stand_in(stack)


def fresh() -> tuple[Any, Any]:
    rng = seeds.numpy_rng()
    return rng.random((ROWS, WIDTH), dtype=np.float32), rng.integers(-ROWS, ROWS, (1, COUNT))


def test_a_stream_of_torch_orders_the_exchange_and_the_kernel(gpu: PageDriver) -> None:
    table, ids = fresh()
    inputs, out = (Tensor(table), Tensor(ids)), Tensor(np.empty((COUNT, WIDTH), np.float32))
    stream = SimpleNamespace(cuda_stream=8)
    assert dg.compile(gather())(*inputs, out=out, stream=stream) is out
    assert out.held.tobytes() == table[ids[0]].tobytes()
    assert gpu.streams == [8]
    assert gpu.order[-2][0] == "record", "PyTorch's stream, 7, waits for 8"
    assert gpu.order[-1][:2] == ("wait", 7)


def test_without_a_stream_tensors_run_on_the_current_one_of_torch(gpu: PageDriver) -> None:
    table, ids = fresh()
    inputs = Tensor(table), Tensor(ids)
    result = dg.compile(gather())(*inputs)
    assert isinstance(result, Tensor)
    assert result.held.tobytes() == table[ids[0]].tobytes()
    assert gpu.order == [("launch", 7)]


def test_the_functions_of_the_torch_dialect_run_on_torchs_stream(gpu: PageDriver) -> None:
    table, ids = fresh()
    weight, index = Tensor(table), Tensor(ids[0] % ROWS)
    with sys.modules["torch"].cuda.stream(SimpleNamespace(cuda_stream=9)):
        result = dg.torch.index_select(weight, 0, index)
        assert dg.torch.index_select(weight, 0, index, out=result) is result
    assert isinstance(result, Tensor)
    assert result.held.tobytes() == table[ids[0]].tobytes()
    assert {entry[-1] for entry in gpu.order} == {9} == {*gpu.streams}
    assert gpu.current == {}
    with pytest.raises(IndexError, match=r"index\[0\] = -1 is out of range"):
        dg.torch.index_select(weight, 0, Tensor(np.array([-1])))


class OnlyInterface:
    """An array as Numba has them, on the second GPU."""

    def __init__(self, held: np.ndarray[Any, Any]) -> None:
        self.held = held
        pointer = held.ctypes.data if held.size else 0  # as the interface wants it
        self.__cuda_array_interface__ = {**held.__array_interface__, "data": (pointer, False), "version": 3}


def test_arrays_with_nothing_but_the_cuda_array_interface(gpu: PageDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    table, ids = fresh()
    held = [OnlyInterface(array) for array in (table, ids, np.empty((COUNT, WIDTH), np.float32))]
    places = {array.held.ctypes.data for array in held}

    def attributes(pointer: int) -> Any:
        assert pointer in places
        return SimpleNamespace(device=1)

    monkeypatch.setattr(gpu, "pointerGetAttributes", attributes)
    assert dg.compile(gather())(held[0], held[1], out=held[2]) is held[2]
    assert held[2].held.tobytes() == table[ids[0]].tobytes()
    result = dg.compile(gather())(held[0], held[1])
    assert isinstance(result, DeviceArray)
    assert (result.device.id, result.get().tobytes()) == (1, table[ids[0]].tobytes())
    assert set(gpu.launched_on) == {1}
    nothing = dg.onnx.gather(OnlyInterface(np.empty((0, 3), np.float32)), OnlyInterface(np.empty(0, np.int64)))
    assert nothing.shape == (0, 3)


def test_a_graph_keeps_its_arguments_and_replays_on_new_contents(gpu: PageDriver) -> None:
    """The stand-in's own capture: what the page shows would hold by chance if launches were not held back."""
    table, ids = fresh()
    out = DeviceArray(np.zeros((COUNT, WIDTH), np.float32))
    run = dg.compile(gather()).bind(DeviceArray(table), DeviceArray(ids), out=out)
    stream = gpu.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        run()
        graph = stream.end_capture()
    assert not out.held.any()
    for _ in range(2):
        ids[...] = seeds.numpy_rng().integers(-ROWS, ROWS, ids.shape)
        graph.launch(stream)
        assert out.held.tobytes() == table[ids[0]].tobytes()
