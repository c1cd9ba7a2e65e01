"""Models on a GPU (ci/gpu): the bits of the CPU, for NumPy and for CuPy arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from dmlgather.backends.cuda import DeviceError, require
from dmlgather.onnx import Backend
from tests.onnx.random_models import random_model

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cupy() -> Any:
    try:
        return require(0)
    except DeviceError as error:
        pytest.skip(str(error))


@settings(max_examples=100, deadline=None)  # a first launch compiles
@given(seed=st.integers(0, 2**63))
def test_random_models_give_the_same_bits_as_on_the_cpu(cupy: Any, seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    expected = Backend.run_model(model, feeds)
    prepared = Backend.prepare(model, "CUDA")
    found = prepared.run(feeds)
    on_device = prepared.run({name: cupy.asarray(array) for name, array in feeds.items()})
    for array, there, other in zip(found, on_device, expected, strict=True):
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype, array.tobytes()) == (other.shape, other.dtype, other.tobytes())
        assert isinstance(there, cupy.ndarray)
        assert there.get().tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", ml_dtypes.bfloat16, "float32", "uint64", "complex128"])
def test_data_of_every_size(cupy: Any, dtype: Any) -> None:
    data = np.arange(12).reshape(3, 4).astype(dtype)
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    (found,) = Backend.run_node(node, [data, np.array([2, -3])], "CUDA", opset_version=13)
    assert (found.dtype, found.tobytes()) == (data.dtype, data[[2, 0]].tobytes())


def test_a_bad_index_names_the_node(cupy: Any) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="lookup")
    with pytest.raises(IndexError, match=r"Gather node 'lookup': indices\[1\] = 3 is out of range for axis 0 of size 3"):
        Backend.run_node(node, [np.ones((3, 4), np.float32), np.array([2, 3])], "CUDA", opset_version=13)


def test_the_device_is_supported(cupy: Any) -> None:
    assert Backend.supports_device("CUDA")
    assert Backend.supports_device("CUDA:0")
    assert not Backend.supports_device("CUDA:99")
