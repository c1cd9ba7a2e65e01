"""Elements of tensors as NumPy arrays: their types, and views of them in buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dmlgather.directml.tensor import BufferTensorDesc
    from dmlgather.directml.types import DataType


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """The NumPy type with the same bits, little-endian as in every file and buffer."""
    import numpy as np

    return np.dtype(data_type.name.lower()).newbyteorder("<")


def elements(buffer: NDArray[np.uint8], tensor: BufferTensorDesc) -> NDArray[Any]:
    """The tensor's elements in a byte buffer that begins with it: a view of shape Sizes, writeable if the buffer is."""
    import numpy as np

    dtype = dtype_of(tensor.data_type)
    flat = buffer[: tensor.span * dtype.itemsize].view(dtype)
    strides = tuple(step * dtype.itemsize for step in tensor.element_strides)
    return np.lib.stride_tricks.as_strided(flat, tensor.sizes, strides, writeable=buffer.flags.writeable)
