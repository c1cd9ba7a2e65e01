"""What one device gives of the whole table: the judge of gathers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import dmlgather as dg

INDEX_TYPES = {
    "directml": ("u4", "i4", "i8", "u8"),
    "onnx": ("i4", "i8"),
    "openvino": ("i4", "i8"),
    "lax": ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
}
"""Of each dialect, as NumPy spells them."""

TYPES = {
    "directml": ("f4", "f2", "i1", "u8", "f8"),
    "onnx": ("f4", "?", "c8", "c16", "u2"),
    "openvino": ("f4", "?", "i8", ml_dtypes.bfloat16),
    "lax": ("f4", "c16", "i2", ml_dtypes.bfloat16),
}
"""Some of each dialect's; all sizes of elements are among them."""


def gathered(
    dialect: str, x: NDArray[Any], indices: NDArray[Any], axis: int, out_of_bounds: str | dg.Fill | None = None
) -> NDArray[Any]:
    found = _ONE_DEVICE[dialect](x, indices, axis % x.ndim, out_of_bounds)
    assert isinstance(found, np.ndarray)
    return found


def _directml(x: NDArray[Any], indices: NDArray[Any], axis: int, out_of_bounds: Any) -> Any:
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if 0 in (*shape, x.shape[axis]):  # which no descriptor has, and ONNX's problem does
        wide = np.array(np.minimum(indices.astype(object), 2**63 - 1), np.int64)
        return _onnx(x, wide, axis, "clamp" if out_of_bounds is None else out_of_bounds)
    run = dg.compile(dg.GatherOperatorDesc.of(x, indices, axis), out_of_bounds=out_of_bounds)
    return run(x, indices).reshape(shape)


def _onnx(x: NDArray[Any], indices: NDArray[Any], axis: int, out_of_bounds: Any) -> Any:
    return dg.onnx.gather(x, indices, axis, out_of_bounds=out_of_bounds)


def _openvino(x: NDArray[Any], indices: NDArray[Any], axis: int, out_of_bounds: Any) -> Any:
    return dg.openvino.gather(x, indices, axis, out_of_bounds=out_of_bounds)


def _lax(x: NDArray[Any], indices: NDArray[Any], axis: int, out_of_bounds: Any) -> Any:
    output = range(x.ndim - 1 + indices.ndim)
    numbers = dg.lax.GatherDimensionNumbers(
        offset_dims=tuple(at for at in output if not axis <= at < axis + indices.ndim),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    sizes = tuple(1 if at == axis else size for at, size in enumerate(x.shape))
    return dg.lax.gather(x, indices[..., None], numbers, sizes, out_of_bounds=out_of_bounds)


_ONE_DEVICE = {"directml": _directml, "onnx": _onnx, "openvino": _openvino, "lax": _lax}
