"""Stands in for CuPy where models run: arrays that can be reshaped, transposed and converted, over host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.test_operator_devices import ArrayDriver, DeviceArray


class ModelArray(DeviceArray):
    """What auxiliary operators use of a cupy.ndarray, besides."""

    def transpose(self, perm: Any) -> ModelArray:
        return ModelArray(self.held.transpose(perm), self.device.id)

    def astype(self, dtype: Any) -> ModelArray:
        return ModelArray(self.held.astype(dtype), self.device.id)


class ModelDriver(ArrayDriver):
    """A driver with such arrays. moved: shapes of the arrays that were copied to a device."""

    ndarray = ModelArray

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[tuple[int, ...]] = []

    def empty(self, shape: Any, dtype: Any) -> ModelArray:
        return _as_model_array(super().empty(shape, dtype))

    def asarray(self, array: Any, *, order: str = "K", blocking: bool = False) -> ModelArray:
        self.moved.append(tuple(array.shape))
        return _as_model_array(super().asarray(array, order=order, blocking=blocking))

    def concatenate(self, arrays: Any, axis: int) -> ModelArray:
        return ModelArray(np.concatenate([array.held for array in arrays], axis), arrays[0].device.id)


def _as_model_array(array: DeviceArray) -> ModelArray:
    return ModelArray(array.held, array.device.id)
