"""A GPU that is not one, as far as the suite looks: arrays, streams, events and copies over host memory; kernels are interpreted.

Shows that the suite's path through CuPy is complete and in order; times mean nothing. ci/gpu shows a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.test_operator_devices import ArrayDriver, DeviceArray


class BenchArray(DeviceArray):
    """What the suite and its CuPy peer use of a cupy.ndarray, besides."""

    def view(self, dtype: Any) -> BenchArray:
        return BenchArray(self.held.view(dtype), self.device.id)

    def copy(self) -> BenchArray:
        return BenchArray(self.held.copy(), self.device.id)

    def __getitem__(self, key: Any) -> BenchArray:
        places = key if isinstance(key, tuple) else (key,)
        return BenchArray(self.held[tuple(_host(place) for place in places)], self.device.id)

    def __ne__(self, other: Any) -> Any:
        return BenchArray(self.held != other.held, self.device.id)

    __hash__ = None  # type: ignore[assignment] # as arrays

    def sum(self) -> Any:
        return self.held.sum()

    def argmax(self) -> Any:
        return self.held.argmax()

    @property
    def T(self) -> list[BenchArray]:  # noqa: N802 - CuPy's name
        return [BenchArray(row, self.device.id) for row in self.held.T]


class BenchDriver(ArrayDriver):
    """A driver with what the suite needs. log: what was recorded, flushed, copied and waited for, in order."""

    ndarray = BenchArray
    memcpyDeviceToDevice = 3  # noqa: N815 - CUDA's name

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.limits = {5: 64}
        self.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=self._strided))
        untimed = self.cuda.Event
        self.cuda.Event = lambda **more: (
            untimed(**more)
            if more
            else SimpleNamespace(
                record=lambda stream: self.log.append(f"record on {stream.ptr}"),
                synchronize=lambda: self.log.append("wait for event"),
            )
        )
        self.cuda.get_elapsed_time = lambda begin, end: 2.0  # milliseconds
        made_current = self.cuda.Stream.from_external
        self.cuda.Stream = _Stream
        _Stream.from_external = staticmethod(made_current)  # type: ignore[attr-defined]

    # cupy.cuda.runtime
    def getDeviceProperties(self, device: int) -> dict[str, Any]:  # noqa: N802
        return {
            "name": b"Stand-in", "major": 9, "minor": 0, "totalGlobalMem": 2**33, "l2CacheSize": 2**16,
            "multiProcessorCount": 4, "clockRate": 1_500_000,
        }  # fmt: skip

    def driverGetVersion(self) -> int:  # noqa: N802
        return 13010

    def runtimeGetVersion(self) -> int:  # noqa: N802
        return 12090

    def deviceGetLimit(self, limit: int) -> int:  # noqa: N802
        if limit not in self.limits:
            raise RuntimeError("cudaErrorUnsupportedLimit: limit is not supported on this architecture")
        return self.limits[limit]

    def deviceSetLimit(self, limit: int, value: int) -> None:  # noqa: N802
        self.log.append(f"limit {limit} is {value}")
        self.limits[limit] = value

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802
        return 2**32, 2**33

    def memsetAsync(self, to: int, value: int, count: int, stream: int) -> None:  # noqa: N802
        self.log.append(f"flush {count} on {stream}")
        super().memsetAsync(to, value, count, stream)

    def memcpyAsync(self, to: int, source: int, count: int, kind: int, stream: int) -> None:  # noqa: N802
        self.log.append(f"copy on {stream}")
        super().memcpyAsync(to, source, count, kind, stream)

    def launchKernel(self, function: int, *numbers: int) -> None:  # noqa: N802
        self.log.append(f"launch on {numbers[-3]}")
        super().launchKernel(function, *numbers)

    def deviceSynchronize(self) -> None:  # noqa: N802
        self.log.append("wait for device")

    # cupy
    def empty(self, shape: Any, dtype: Any) -> BenchArray:
        return BenchArray(super().empty(shape, dtype).held)

    def asarray(self, array: Any, *, order: str = "K", blocking: bool = False) -> BenchArray:
        return BenchArray(super().asarray(array, blocking=True).held)

    def ascontiguousarray(self, array: BenchArray) -> BenchArray:
        return BenchArray(np.ascontiguousarray(array.held))

    def take(self, x: BenchArray, i: BenchArray, axis: int, out: BenchArray) -> BenchArray:
        x.held.take(i.held, axis, out.held, "wrap")
        return out

    def take_along_axis(self, x: BenchArray, i: BenchArray, axis: int) -> BenchArray:
        return BenchArray(np.take_along_axis(x.held, i.held, axis))

    def copyto(self, out: BenchArray, source: BenchArray) -> None:
        np.copyto(out.held, source.held)

    def RawKernel(self, code: str, name: str) -> Callable[..., None]:  # noqa: N802
        assert f"void {name}()" in code
        return lambda grid, block, arguments: self.log.append(f"{name} {grid} {block} {arguments}")

    def ElementwiseKernel(self, inputs: str, outputs: str, code: str, name: str) -> Callable[..., None]:  # noqa: N802
        assert (inputs, outputs, code) == ("T x", "T y", "y = x")
        return self._copy_elements

    def _copy_elements(self, x: BenchArray, y: BenchArray) -> None:
        assert x.dtype == y.dtype == np.dtype("c16")
        y.held[...] = x.held

    def _strided(self, base: BenchArray, shape: Any, strides: Any) -> BenchArray:
        return BenchArray(np.lib.stride_tricks.as_strided(base.held, shape, strides))


class _Stream:
    """A stream of its own."""

    def __init__(self, *, non_blocking: bool) -> None:
        assert non_blocking
        self.ptr = 77

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _host(place: Any) -> Any:
    return place.held if isinstance(place, BenchArray) else place
