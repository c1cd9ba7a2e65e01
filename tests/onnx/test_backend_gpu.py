"""Models on a GPU: the bits of the CPU, for NumPy and for CuPy arrays."""

from __future__ import annotations

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
from tests.gpus import placed
from tests.onnx.random_models import random_model

pytestmark = pytest.mark.gpu

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


@settings(max_examples=100, deadline=None)  # a first launch compiles
@given(seed=st.integers(0, 2**63))
def test_random_models_give_the_same_bits_as_on_the_cpu(cupy: Any, seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    expected = Backend.run_model(model, feeds)
    last = cupy.cuda.runtime.getDeviceCount() - 1
    prepared = Backend.prepare(model, f"CUDA:{last}")
    found = prepared.run(feeds)
    on_device = prepared.run({name: placed(array, last) for name, array in feeds.items()})
    for array, there, other in zip(found, on_device, expected, strict=True):
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype, array.tobytes()) == (other.shape, other.dtype, other.tobytes())
        assert isinstance(there, cupy.ndarray)
        assert (there.device.id, there.shape) == (last, other.shape)
        assert there.get().tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", ml_dtypes.bfloat16, "float32", "uint64", "complex128"])
def test_data_of_every_size(cupy: Any, dtype: Any) -> None:
    data = np.arange(12).reshape(3, 4).astype(dtype)
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    (found,) = Backend.run_node(node, [data, np.array([2, -3])], "CUDA", opset_version=13)
    assert (found.dtype, found.tobytes()) == (data.dtype, data[[2, 0]].tobytes())


@pytest.mark.gpu(devices=2)
def test_results_are_of_the_first_inputs_kind(cupy: Any) -> None:
    ends = np.array([3])
    for device in ("CUDA", "CPU", "CUDA:1"):
        for inputs in ([placed(TABLE, 1), IDS, ends], [placed(TABLE), placed(IDS), placed(ends)]):
            (rows,) = Backend.run_model(LOOKUP, inputs, device)
            assert isinstance(rows, cupy.ndarray)
            assert (rows.device, rows.get().tobytes()) == (inputs[0].device, ROWS.tobytes())
        (rows,) = Backend.run_model(LOOKUP, {"ids": placed(IDS), "table": TABLE, "ends": placed(ends)}, device)
        assert isinstance(rows, np.ndarray)
        assert rows.tobytes() == ROWS.tobytes()


def test_outputs_share_no_memory_with_device_inputs(cupy: Any) -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> same (float[3,4] x, int64[3] i) => (float[3,4] x, float[3,4] z)
    { z = Gather(x, i) }""")
    x = placed(TABLE)
    y, z = Backend.run_model(model, [x, placed(np.arange(3))], "CUDA")
    assert y.get().tobytes() == z.get().tobytes() == TABLE.tobytes()
    assert not any(cupy.may_share_memory(one, other) for one, other in ((x, y), (x, z), (y, z)))


def test_a_bad_index_on_a_device_names_the_node_by_its_output() -> None:
    with pytest.raises(
        IndexError, match=r"Gather node that gives 'picked': indices\[1\] = 3 is out of range for axis 0 of size 3"
    ):
        Backend.run_model(LOOKUP, [TABLE, np.array([2, 3]), np.array([1])], "CUDA")


def test_strings_run_on_the_cpu_alone() -> None:
    words = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 13]> words (string[2] x, int64[1] i) => (string[1] y) { y = Gather(x, i) }""")
    given = [np.array(["a", "bb"], object), np.array([1])]
    assert Backend.run_model(words, given)[0].tolist() == ["bb"]
    with pytest.raises(TypeError, match=r"object|strings"):
        Backend.run_model(words, given, "CUDA")


def test_devices_that_are_there(cupy: Any) -> None:
    count = cupy.cuda.runtime.getDeviceCount()
    known = ("CPU", "CPU:0", "CUDA", *(f"{name}:{number}" for name in ("CUDA", "cuda") for number in range(count)), "REFERENCE")
    assert all(Backend.supports_device(device) for device in known)
    wrong: tuple[Any, ...] = (f"CUDA:{count}", "CPU:1", "TPU", "CUDA:", "", None, 0)
    assert not any(Backend.supports_device(device) for device in wrong)
    assert Backend.is_compatible(LOOKUP, f"CUDA:{count - 1}")
    assert not Backend.is_compatible(LOOKUP, f"CUDA:{count}")
    with pytest.raises(ValueError, match="device is 'TPU', expected 'CPU', 'CUDA', 'CUDA:N'"):
        Backend.prepare(LOOKUP, "TPU")
    with pytest.raises(dg.DeviceError, match=rf"there is no cuda:{count}: this machine has {count} GPU"):
        Backend.prepare(LOOKUP, f"CUDA:{count}")
