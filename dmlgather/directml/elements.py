"""DirectML tensors as NumPy arrays: conversion of data types, and arrays on top of byte buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dmlgather.directml.tensor import BufferTensorDesc
    from dmlgather.directml.types import DataType


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """Return the NumPy type for a DirectML data type.

    It is little-endian on every machine, like the bytes in files and buffers.
    """
    import numpy as np

    return np.dtype(data_type.name.lower()).newbyteorder("<")


def elements(buffer: NDArray[np.uint8], tensor: BufferTensorDesc) -> NDArray[Any]:
    """Return a NumPy array that shows the tensor at the start of a byte buffer, without a copy.

    Its shape is the tensor's Sizes. The array is writeable if the buffer is.
    """
    import numpy as np

    dtype = dtype_of(tensor.data_type)
    flat = buffer[: tensor.span * dtype.itemsize].view(dtype)
    strides = tuple(step * dtype.itemsize for step in tensor.element_strides)
    return np.lib.stride_tricks.as_strided(flat, tensor.sizes, strides, writeable=buffer.flags.writeable)
