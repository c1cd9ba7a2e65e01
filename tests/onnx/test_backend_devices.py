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
from tests.onnx.model_driver import ModelArray, ModelDriver
from tests.onnx.random_models import random_model

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
def gpu() -> Iterator[ModelDriver]:
    with installed(ModelDriver()) as stand_in:
        yield stand_in


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 2**63))
def test_random_models_give_the_same_bits_as_on_the_cpu(seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    expected = Backend.run_model(model, feeds)
    with installed(ModelDriver()):
        found = Backend.run_model(model, feeds, "CUDA:1")
        arrays = {name: ModelArray(array, 1) for name, array in feeds.items()}
        on_device = Backend.run_model(model, arrays, "CUDA:1")
    for array, there, other in zip(found, on_device, expected, strict=True):
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype, array.tobytes()) == (other.shape, other.dtype, other.tobytes())
        assert isinstance(there, ModelArray)
        assert (there.device.id, there.held.shape, there.held.tobytes()) == (1, other.shape, other.tobytes())


def test_inputs_are_moved_once_a_run_and_constants_once(gpu: ModelDriver) -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 13]>
    twice (float[3,4] x, int64[2] shape) => (float[3,4] y, float[3,4] z, float[6,2] w)
    <int64[3] ids = {2, 0, 1}>
    { y = Gather(x, ids) z = Gather(x, ids) r = Reshape(x, shape) all = Identity(r) w = Transpose(all) }""")
    prepared = Backend.prepare(model, "CUDA:0")
    for shape in ([2, 6], [2, 6], [6, 2]):
        prepared.run([TABLE, np.array(shape)])
    assert gpu.moved == [(3,), (3, 4), (3, 4), (3, 4)]
    y, z, w = prepared.run([TABLE, np.array([2, 6])])
    assert y.tobytes() == z.tobytes() == TABLE[[2, 0, 1]].tobytes()
    assert w.tobytes() == np.ascontiguousarray(TABLE.reshape(2, 6).T).tobytes()
    assert set(gpu.launched_on) == {0}


def test_results_are_of_the_first_inputs_kind(gpu: ModelDriver) -> None:
    ends = np.array([3])
    (rows,) = Backend.run_model(LOOKUP, [ModelArray(TABLE, 1), IDS, ends], "CUDA")
    assert isinstance(rows, ModelArray)
    assert (rows.device.id, rows.held.tobytes()) == (1, ROWS.tobytes())
    assert set(gpu.launched_on) == {0}
    launched = len(gpu.launched_on)
    (rows,) = Backend.run_model(LOOKUP, [ModelArray(TABLE), ModelArray(IDS), ModelArray(ends)])
    assert isinstance(rows, ModelArray)
    assert rows.held.tobytes() == ROWS.tobytes()
    assert len(gpu.launched_on) == launched
    (rows,) = Backend.run_model(LOOKUP, {"ids": ModelArray(IDS), "table": TABLE, "ends": ModelArray(ends)}, "CUDA")
    assert isinstance(rows, np.ndarray)
    assert rows.tobytes() == ROWS.tobytes()


def test_outputs_share_no_memory_with_device_inputs(gpu: ModelDriver) -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> same (float[3,4] x) => (float[3,4] y, float[4,3] z)
    { y = Identity(x) z = Transpose(x) }""")
    x = ModelArray(TABLE)
    y, z = Backend.run_model(model, [x], "CUDA")
    assert (y.held.tobytes(), z.held.tobytes()) == (TABLE.tobytes(), np.ascontiguousarray(TABLE.T).tobytes())
    assert z.flags.c_contiguous
    assert not any(np.shares_memory(one.held, other.held) for one, other in ((x, y), (x, z), (y, z)))


def test_bfloat16_runs_on_a_device(gpu: ModelDriver) -> None:
    half = TABLE.astype(ml_dtypes.bfloat16)
    (found,) = Backend.run_node(helper.make_node("Gather", ["x", "i"], ["y"]), [half, IDS], "CUDA", opset_version=13)
    assert (found.dtype, found.tobytes()) == (half.dtype, half[[2, 0]].tobytes())


def test_a_bad_index_on_a_device_names_the_node(gpu: ModelDriver) -> None:
    with pytest.raises(
        IndexError, match=r"Gather node that gives 'picked': indices\[1\] = 3 is out of range for axis 0 of size 3"
    ):
        Backend.run_model(LOOKUP, [TABLE, np.array([2, 3]), np.array([1])], "CUDA")


def test_what_a_gpu_cannot_hold_is_refused(gpu: ModelDriver) -> None:
    words = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> words (string[2] x, int64[1] i) => (string[1] y) { y = Gather(x, i) }""")
    with pytest.raises(TypeError, match="input 'x' has type string, which does not run on cuda:0: prepare the model for the CPU"):
        Backend.prepare(words, "CUDA")
    assert not Backend.is_compatible(words, "CUDA")
    assert Backend.is_compatible(words, "CPU")
    constant = helper.make_node("Constant", [], ["c"], value_strings=["a"])
    with pytest.raises(TypeError, match="constant 'c' has type string, which does not run on cuda:1"):
        Backend.run_node(constant, [], "CUDA:1", opset_version=13)
    eighth = np.ones(2, ml_dtypes.float8_e5m2)
    with pytest.raises(TypeError, match="'x' has type float8e5m2, which does not run on cuda:0"):
        Backend.run_node(helper.make_node("Identity", ["x"], ["y"]), [eighth], "CUDA", opset_version=19)
    assert not gpu.moved


def test_devices_that_are_there(gpu: ModelDriver) -> None:
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
