"""Arrays of every library are taken without copies, and unusable ones are refused by name. Judge: NumPy's views."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device, stream_pointer
from tests.backends import dlpack
from tests.backends.dlpack import Exported
from tests.tensorlib import Tensor


class ForeignBfloat16(Tensor):
    """An array whose type only the array protocol supports, not DLPack."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class ForeignWithNamespace(Tensor):
    """An array with an array API namespace whose module lacks all functions."""

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return SimpleNamespace(from_dlpack=lambda array: ForeignWithNamespace(np.from_dlpack(array)))


def test_dlpack_and_the_array_protocol_share_memory() -> None:
    ours = np.arange(6, dtype=np.float32)
    adopted, device = arrays.adopt(Tensor(ours))
    assert device == CPU
    assert np.shares_memory(adopted, ours)
    half = np.arange(6).astype(ml_dtypes.bfloat16)
    adopted, device = arrays.adopt(ForeignBfloat16(half))
    assert adopted.dtype == half.dtype
    assert np.shares_memory(adopted, half)


def test_results_are_converted_by_the_arrays_namespace() -> None:
    ours = np.arange(6, dtype=np.float32)
    found = arrays.hand_back(ours, ForeignWithNamespace(np.empty(0)))
    assert type(found) is ForeignWithNamespace
    assert np.shares_memory(np.from_dlpack(found), ours)
    assert arrays.hand_back(ours, Tensor(ours)) is ours  # the array's library has no from_dlpack


def test_values_without_memory_are_refused() -> None:
    with pytest.raises(TypeError, match=r"got list: wrap Python values with numpy\.asarray"):
        arrays.adopt([1, 2, 3])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("cpu", CPU), ("cuda", Device("cuda", 0)), ("cuda:3", Device("cuda", 3)), ("reference", Device("reference"))],
)
def test_devices_have_names(name: str, expected: Device) -> None:
    assert Device.parse(name) == expected
    assert Device.parse(str(expected)) == expected


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "CPU", "cpu:0", ""])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected 'cpu', 'cuda', 'cuda:N'"):
        Device.parse(name)


def test_streams_of_every_library_have_pointers() -> None:
    class Stream:
        ptr = 77

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, 99)

    class OfTorch:
        cuda_stream = 88

    gpu = Device("cuda")
    assert [stream_pointer(item, gpu) for item in (5, Stream(), Protocol(), OfTorch())] == [5, 77, 99, 88]
    assert stream_pointer(None, CPU) == 0
    with pytest.raises(TypeError, match="the CPU, which has no streams"):
        stream_pointer(5, CPU)
    with pytest.raises(TypeError, match="stream is str"):
        stream_pointer("default", gpu)


@pytest.mark.parametrize("where", [(dlpack.CPU, 0), (dlpack.CUDA_HOST, 0)])
def test_host_memory_of_every_kind_becomes_a_numpy_array(where: tuple[int, int]) -> None:
    host = np.arange(6, dtype=np.float32)
    found, device = arrays.adopt(Exported(host, where))
    assert (type(found), device) == (np.ndarray, CPU)
    assert np.shares_memory(found, host)


def test_other_devices_are_refused() -> None:
    with pytest.raises(TypeError, match="Exported lies on DLPack device type 10; only host and CUDA memory can be used"):
        arrays.adopt(Exported(np.zeros(3), (dlpack.ROCM, 0)))
