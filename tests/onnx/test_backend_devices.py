"""Models on CUDA, over a driver that is not one: device memory is host memory and kernels are interpreted. Shows what is
moved where and when; ci/gpu shows a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

import dmlgather as dg
from dmlgather.onnx import Backend
from tests.kernels.host_driver import installed
from tests.onnx.random_models import random_model
from tests.test_operator_devices import ArrayDriver, DeviceArray

LOOKUP = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 13]>
lookup (float[N,M] table, int64[K] ids, int64[1] ends) => (float[K,L] rows)
<int64[1] starts = {0}, int64[1] axes = {1}>
{
  picked = Gather(table, ids)
  rows = Slice(picked, starts, ends, axes)
}""")
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)
IDS = np.array([2, -3])
ROWS = TABLE[[2, 0]][:, :3]


@pytest.fixture
def gpu() -> Iterator[ArrayDriver]:
    with installed(ArrayDriver()) as stand_in:
        yield stand_in


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 2**63))
def test_random_models_give_the_same_bits_as_on_the_cpu(seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    expected = Backend.run_model(model, feeds)
    with installed(ArrayDriver()):
        found = Backend.run_model(model, feeds, "CUDA:1")
        arrays = {name: DeviceArray(array, 1) for name, array in feeds.items()}
        on_device = Backend.run_model(model, arrays, "CUDA:1")
    for array, there, other in zip(found, on_device, expected, strict=True):
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype, array.tobytes()) == (other.shape, other.dtype, other.tobytes())
        assert isinstance(there, DeviceArray)
        assert (there.device.id, there.held.shape, there.held.tobytes()) == (1, other.shape, other.tobytes())


def test_results_are_of_the_first_inputs_kind(gpu: ArrayDriver) -> None:
    ends = np.array([3])
    (rows,) = Backend.run_model(LOOKUP, [DeviceArray(TABLE, 1), IDS, ends], "CUDA")
    assert isinstance(rows, DeviceArray)
    assert (rows.device.id, rows.held.tobytes()) == (1, ROWS.tobytes())
    assert set(gpu.launched_on) == {0}
    launched = len(gpu.launched_on)
    (rows,) = Backend.run_model(LOOKUP, [DeviceArray(TABLE), DeviceArray(IDS), DeviceArray(ends)])
    assert isinstance(rows, DeviceArray)
    assert rows.held.tobytes() == ROWS.tobytes()
    assert len(gpu.launched_on) == launched
    (rows,) = Backend.run_model(LOOKUP, {"ids": DeviceArray(IDS), "table": TABLE, "ends": DeviceArray(ends)}, "CUDA")
    assert isinstance(rows, np.ndarray)
    assert rows.tobytes() == ROWS.tobytes()


def test_outputs_share_no_memory_with_device_inputs(gpu: ArrayDriver) -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> same (float[3,4] x, int64[3] i) => (float[3,4] x, float[3,4] z)
    { z = Gather(x, i) }""")
    x = DeviceArray(TABLE)
    y, z = Backend.run_model(model, [x, DeviceArray(np.arange(3))], "CUDA")
    assert y.held.tobytes() == z.held.tobytes() == TABLE.tobytes()
    assert not any(np.shares_memory(one.held, other.held) for one, other in ((x, y), (x, z), (y, z)))


def test_bfloat16_runs_on_a_device(gpu: ArrayDriver) -> None:
    half = TABLE.astype(ml_dtypes.bfloat16)
    (found,) = Backend.run_node(helper.make_node("Gather", ["x", "i"], ["y"]), [half, IDS], "CUDA", opset_version=13)
    assert (found.dtype, found.tobytes()) == (half.dtype, half[[2, 0]].tobytes())


def test_a_bad_index_on_a_device_names_the_node(gpu: ArrayDriver) -> None:
    with pytest.raises(
        IndexError, match=r"Gather node that gives 'picked': indices\[1\] = 3 is out of range for axis 0 of size 3"
    ):
        Backend.run_model(LOOKUP, [TABLE, np.array([2, 3]), np.array([1])], "CUDA")


def test_strings_run_on_the_cpu_alone(gpu: ArrayDriver) -> None:
    words = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> words (string[2] x, int64[1] i) => (string[1] y) { y = Gather(x, i) }""")
    given = [np.array(["a", "bb"], object), np.array([1])]
    assert Backend.run_model(words, given)[0].tolist() == ["bb"]
    with pytest.raises(TypeError, match=r"object|strings"):
        Backend.run_model(words, given, "CUDA")


def test_devices_that_are_there(gpu: ArrayDriver) -> None:
    known = ("CPU", "CPU:0", "CUDA", "CUDA:0", "CUDA:1", "cuda:1", "REFERENCE")
    assert all(Backend.supports_device(device) for device in known)
    wrong: tuple[Any, ...] = ("CUDA:2", "CPU:1", "TPU", "CUDA:", "", None, 0)
    assert not any(Backend.supports_device(device) for device in wrong)
    assert Backend.is_compatible(LOOKUP, "CUDA:1")
    assert not Backend.is_compatible(LOOKUP, "CUDA:2")
    with pytest.raises(ValueError, match="device is 'TPU', expected 'CPU', 'CUDA', 'CUDA:N'"):
        Backend.prepare(LOOKUP, "TPU")
    with pytest.raises(dg.DeviceError, match="there is no cuda:2: this machine has 2 GPUs"):
        Backend.prepare(LOOKUP, "CUDA:2")


def test_without_a_gpu_cuda_is_not_supported(no_cupy: None) -> None:
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("CUDA")
    assert not Backend.is_compatible(LOOKUP, "CUDA")
    with pytest.raises(dg.DeviceError, match="CuPy cannot be imported"):
        Backend.prepare(LOOKUP, "CUDA")
