"""Every function with device= gives the error of `compile` if CUDA cannot run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends.cuda import driver, nvidia_driver

X = np.arange(12, dtype=np.float32).reshape(3, 4)
IDS = np.array([0, 2])
DESC = dg.GatherOperatorDesc.of(X, IDS, axis=0)
ROWS = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
NO_DRIVER = nvidia_driver.Driver(None, (), "there is no NVIDIA driver (libcuda.so.1 was not found)")

CALLS: dict[str, Callable[[str], Any]] = {
    "prepare": lambda device: dg.compile(DESC).prepare(device),
    "prepare, layouts": lambda device: dg.compile(DESC).prepare(device, layouts=[[X, IDS]]),
    "index": lambda device: dg.index[IDS](X, device=device),
    "mask": lambda device: dg.index[X[:, 0] > 3](X, device=device),
    "brackets of slices": lambda device: dg.index[1:](X, device=device),
    "chain": lambda device: dg.index[IDS][:, 1](X, device=device),
    "fuse": lambda device: dg.fuse([DESC])(X, IDS, device=device),
    "onnx": lambda device: dg.onnx.gather(X, IDS, device=device),
    "out": lambda device: dg.onnx.gather(X, IDS, out=np.empty((2, 4), np.float32), device=device),
    "stream": lambda device: dg.onnx.gather(X, IDS, device=device, stream=1),
    "slice": lambda device: dg.onnx.slice(X, [0], [1], device=device),
    "openvino": lambda device: dg.openvino.gather(X, IDS, 0, device=device),
    "lax": lambda device: dg.lax.gather(X, IDS[:, None], dimension_numbers=ROWS, slice_sizes=(1, 4), device=device),
    "torch": lambda device: dg.torch.index_select(X, 0, IDS, device=device),
    "torch.index": lambda device: dg.torch.index(X, (IDS,), device=device),
    "torch.flip": lambda device: dg.torch.flip(X, [0], device=device),
    "torch.split": lambda device: dg.torch.split(X, 1, device=device),
}


def _as_compile(call: Callable[[str], Any]) -> str:
    """Assert that a call gives the error of `compile`, and return its message."""
    with pytest.raises(dg.DeviceError) as expected:
        dg.compile(DESC, device="cuda:1")
    with pytest.raises(dg.DeviceError) as raised:
        call("cuda:1")
    assert str(raised.value) == str(expected.value)
    return str(raised.value)


@pytest.mark.parametrize("name", CALLS)
def test_every_call_without_cupy_raises_the_error_of_compile(name: str, no_cupy: None) -> None:
    assert _as_compile(CALLS[name]).startswith("CuPy cannot be imported (")


@pytest.mark.parametrize("name", CALLS)
def test_every_call_without_a_driver_raises_the_error_of_compile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")

    class Device:  # like CuPy's device, which asks the driver when it is entered
        def __init__(self, number: int) -> None: ...
        def __enter__(self) -> None:
            no_driver()

        def __exit__(self, *error: object) -> None: ...

    cupy: Any = ModuleType("cupy")
    cupy.ndarray = type("ndarray", (), {})
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=no_driver), Device=Device)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(nvidia_driver, "ask", lambda: NO_DRIVER)
    driver.require.cache_clear()
    assert _as_compile(CALLS[name]).startswith("there is no NVIDIA driver (libcuda.so.1 was not found); ")
