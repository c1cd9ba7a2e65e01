"""`stream=` of the eager functions. Judge: NumPy's indexing, on non-blocking streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests.gpus import as_late_as_allowed, placed, same_streams
from tests.test_eager import EVERY

DATA = np.arange(32, dtype=np.float32).reshape(4, 8)
ROWS, EACH, PAIRS = np.array([3, 0]), np.array([[1], [0], [3], [2]]), np.array([[3, 1], [0, 7]])
IMAGE = np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)
ROW_WINDOWS = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
_PORTS = "<input><port id='0'/><port id='1'/><port id='2'/></input><output><port id='3'/></output>"

CALLS: dict[Any, tuple[list[Any], dict[str, Any], Any]] = {
    dg.onnx.gather: ([DATA, ROWS], {}, DATA[ROWS]),
    dg.onnx.gather_elements: ([DATA, EACH], {"axis": 1}, np.take_along_axis(DATA, EACH, 1)),
    dg.onnx.gather_nd: ([DATA, PAIRS], {}, DATA[[3, 0], [1, 7]]),
    dg.onnx.slice: ([DATA], {"starts": [1], "ends": [4]}, DATA[1:4]),
    dg.onnx.depth_to_space: ([IMAGE], {"blocksize": 2}, IMAGE.reshape(2, 2, 2, 2).transpose(2, 0, 3, 1).reshape(1, 1, 4, 4)),
    dg.onnx.space_to_depth: (
        [DATA.reshape(1, 1, 4, 8)],
        {"blocksize": 2},
        DATA.reshape(2, 2, 4, 2).transpose(1, 3, 0, 2).reshape(1, 4, 2, 4),
    ),
    dg.openvino.gather: ([DATA, ROWS], {"axis": 0}, DATA[ROWS]),
    dg.openvino.gather_elements: ([DATA, EACH], {"axis": 1}, np.take_along_axis(DATA, EACH, 1)),
    dg.openvino.gather_nd: ([DATA, PAIRS], {}, DATA[[3, 0], [1, 7]]),
    dg.openvino.slice: ([DATA], {"start": [1], "stop": [4], "step": [1]}, DATA[1:4]),
    dg.openvino.strided_slice: ([DATA], {"begin": [1, 0], "end": [4, 8], "begin_mask": [0, 0], "end_mask": [0, 0]}, DATA[1:4]),
    dg.openvino.run_layer: ([f"<layer type='Gather' version='opset7'>{_PORTS}</layer>", DATA, ROWS], {"axis": 0}, DATA[ROWS]),
    dg.lax.gather: ([DATA, ROWS[:, None], ROW_WINDOWS, (1, 8)], {}, DATA[ROWS]),
}
"""Arguments that may lie on a GPU, other arguments, and the result."""


def test_every_function_has_a_call() -> None:
    assert {*map(repr, CALLS)} == {*map(repr, EVERY)}


def check_stream(cupy: Any, function: Any, spelled: Callable[[Any], Any]) -> None:
    """Assert that a call sees late writes of its stream, and reads before the stream writes again.

    `spelled`: the argument for a stream, or None if it is the current stream.
    """
    given, others, expected = CALLS[function]
    with cupy.cuda.Device(1):
        stream = cupy.cuda.Stream(non_blocking=True)
    named = spelled(stream)
    with cupy.cuda.Device(1), stream:
        arrays = [placed(each, 1) if isinstance(each, np.ndarray) else each for each in given]
    with cupy.cuda.Device(1), stream if named is None else nullcontext(), same_streams():
        result = function(*arrays, **others, stream=named)
    with cupy.cuda.Device(1), stream:
        for array in arrays:
            if isinstance(array, cupy.ndarray):
                array.fill(0)
        assert isinstance(result, cupy.ndarray)
        assert (result.device.id, result.get().tobytes()) == (1, expected.tobytes())


@pytest.mark.gpu(devices=2)
@pytest.mark.parametrize("function", CALLS, ids=repr)
def test_a_call_runs_on_its_stream(cupy: Any, function: Any) -> None:
    for spelled in (lambda stream: stream, lambda stream: stream.ptr, lambda stream: None):
        check_stream(cupy, function, spelled)


@pytest.mark.gpu(devices=2)
@as_late_as_allowed
@pytest.mark.parametrize("function", [dg.openvino.gather, dg.onnx.slice, dg.lax.gather], ids=repr)
def test_the_check_notices_a_call_on_another_stream(cupy: Any, function: Any) -> None:
    with pytest.raises(AssertionError):
        check_stream(cupy, function, lambda stream: 0)


@pytest.mark.parametrize("function", CALLS, ids=repr)
def test_the_cpu_refuses_a_stream(function: Any) -> None:
    given, others, expected = CALLS[function]
    for _ in range(2):  # the function knows the second call
        assert function(*given, **others, stream=None).tobytes() == expected.tobytes()
        for device in (None, "cpu", "reference"):
            with pytest.raises(TypeError) as refused:
                function(*given, **others, device=device, stream=57)
            assert str(refused.value) == "stream is int, but the arrays are on the CPU, which has no streams: leave it out"
    compiled = dg.compile(dg.GatherOperatorDesc.of(DATA, ROWS, axis=0))
    with pytest.raises(TypeError) as same:
        compiled(DATA, ROWS, stream=57)
    assert str(same.value) == str(refused.value)


@pytest.mark.gpu(devices=2)
def test_copies_to_a_gpu_and_back_run_on_the_stream(cupy: Any) -> None:
    with cupy.cuda.Device(1):
        stream = cupy.cuda.Stream(non_blocking=True)
    result = dg.onnx.gather(DATA, ROWS, device="cuda:1", stream=stream)
    assert isinstance(result, np.ndarray)
    assert result.tobytes() == DATA[ROWS].tobytes()
    with pytest.raises(TypeError, match="the CPU, which has no streams"):
        dg.onnx.gather(placed(DATA), placed(ROWS), device="cpu", stream=stream)


@pytest.mark.gpu
def test_a_bad_index_is_read_on_the_stream(cupy: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        data, indices = placed(DATA), placed(np.array([0, 4]))
    with pytest.raises(IndexError, match=r"indices\[1\] = 4 is out of range"):
        dg.onnx.gather(data, indices, stream=stream)


@pytest.mark.gpu
def test_a_string_as_stream_is_refused() -> None:
    with pytest.raises(TypeError, match="stream is str, expected a stream of CuPy or torch"):
        dg.onnx.gather(placed(DATA), placed(ROWS), stream="55")
