"""DirectML tensors as NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dmlgather.directml.tensor import BufferTensorDesc
    from dmlgather.directml.types import DataType


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """Return the NumPy type. It is little-endian on every machine, like the bytes in files and buffers."""
    import numpy as np

    return np.dtype(data_type.name.lower()).newbyteorder("<")


def elements(buffer: NDArray[np.uint8], tensor: BufferTensorDesc) -> NDArray[Any]:
    """Return the tensor at the start of a byte buffer as a NumPy array, without a copy. It is writeable if the buffer is."""
    import numpy as np

    dtype = dtype_of(tensor.data_type)
    flat = buffer[: tensor.span * dtype.itemsize].view(dtype)
    strides = tuple(step * dtype.itemsize for step in tensor.element_strides)
    return np.lib.stride_tricks.as_strided(flat, tensor.sizes, strides, writeable=buffer.flags.writeable)
