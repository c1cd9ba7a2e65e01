"""The arrays of one call, as views that NumPy itself has proven to lie inside the caller's buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.geometry import Geometry


@dataclass(frozen=True, slots=True)
class Buffers:
    """data and out: bytes, or elements that hold references. item, word: data types of views for take() and for strided copies;
    references keep their own data type in both.
    """

    geometry: Geometry
    data: NDArray[Any]
    indices: NDArray[Any] | None
    out: NDArray[Any]
    item: np.dtype[Any]
    word: np.dtype[Any]

    @classmethod
    def of(cls, geometry: Geometry, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Buffers:
        """Buffers as `CpuProgram.bind` takes them."""
        if data.dtype.hasobject:
            return cls(geometry, data, indices, out, data.dtype, data.dtype)
        return cls(geometry, data.view(np.uint8), indices, out.view(np.uint8), geometry.item, geometry.word)

    @property
    def opaque(self) -> bool:
        """Whether elements are plain bytes."""
        return not self.data.dtype.hasobject

    def target(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Every output position, shaped like the geometry."""
        geometry = self.geometry
        kind = dtype if self.opaque else self.out.dtype
        return np.ndarray(geometry.shape, kind, self.out, geometry.out_offset, geometry.out_strides)

    def source(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], at: int, strides: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Source units from byte `at` on, contiguous unless `strides` (bytes) are given. ValueError outside the buffer."""
        return np.ndarray(shape, dtype, self.data, at, strides)
