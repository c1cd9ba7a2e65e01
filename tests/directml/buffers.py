"""Random buffers for descriptors, and how tests look at them and run plans over them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.directml import BufferTensorDesc, OperatorDesc, lower
from dmlgather.selftest.random_plans import EXTREMES


def element_dtype(tensor: BufferTensorDesc) -> np.dtype[Any]:
    """Index types as integers of their sign, everything else as opaque bits."""
    kind = tensor.data_type.index_type
    return np.dtype(kind.value.lower() if kind else f"uint{8 * tensor.data_type.bytes}")


def elements(tensor: BufferTensorDesc, buffer: NDArray[np.uint8]) -> NDArray[Any]:
    """The whole elements of a byte buffer, [TotalTensorSizeInBytes div element bytes]."""
    dtype = element_dtype(tensor)
    return buffer[: buffer.size // dtype.itemsize * dtype.itemsize].view(dtype)


def logical(tensor: BufferTensorDesc, buffer: NDArray[np.uint8]) -> NDArray[Any]:
    """The described elements of a byte buffer, of shape Sizes, read through the described strides."""
    flat = elements(tensor, buffer)
    # NumPy ignores the strides of dimensions of size 1, but refuses to multiply large ones.
    steps = [0 if size == 1 else step for size, step in zip(tensor.sizes, tensor.element_strides, strict=True)]
    return np.lib.stride_tricks.as_strided(flat, tensor.sizes, [step * flat.itemsize for step in steps], writeable=False)


def random_buffer(rng: random.Random, tensor: BufferTensorDesc) -> NDArray[np.uint8]:
    """Random bytes, TotalTensorSizeInBytes of them."""
    return np.frombuffer(rng.randbytes(tensor.total_bytes), np.uint8).copy()


def index_buffer(rng: random.Random, tensor: BufferTensorDesc, sizes: list[int]) -> NDArray[np.uint8]:
    """Index values for dimensions of `sizes`: in range, negative, just outside, and the extremes of the type."""
    buffer = random_buffer(rng, tensor)
    values = elements(tensor, buffer)
    span = np.iinfo(values.dtype)
    edges = [*EXTREMES, *(at for size in sizes for at in (-size - 1, -size, -1, size - 1, size, size + 1))]
    held = [value for value in edges if span.min <= value <= span.max]
    share = rng.choice((0.0, 0.3, 1.0))
    for at in range(values.size):
        values[at] = rng.choice(held) if rng.random() < share else rng.randrange(max(sizes))
    return buffer


def input_buffers(rng: random.Random, desc: OperatorDesc) -> tuple[NDArray[np.uint8], ...]:
    """A byte buffer for each input tensor, in binding order."""
    sizes = [desc.tensor("input_tensor").sizes[axis] for axis in desc.operator.lookup_axes(desc)]
    return tuple(
        index_buffer(rng, desc.tensor(field), sizes) if field == "indices_tensor" else random_buffer(rng, desc.tensor(field))
        for field in desc.operator.inputs
    )


def run_reference(desc: OperatorDesc, inputs: tuple[NDArray[np.uint8], ...], output: NDArray[np.uint8]) -> None:
    """Execute the lowered plan with the reference backend; writes into the byte buffer `output`."""
    data, *indices = (elements(desc.tensor(field), buffer) for field, buffer in zip(desc.operator.inputs, inputs, strict=True))
    width = f"uint{8 * desc.tensor('output_tensor').data_type.bytes}"
    out = elements(desc.tensor("output_tensor"), output).view(width)
    reference.run(lower(desc), data.view(width), indices[0] if indices else None, out)


def documented(desc: OperatorDesc, inputs: tuple[NDArray[np.uint8], ...]) -> NDArray[Any]:
    """The operator's documented reference over the described elements; shape of OutputTensor's Sizes."""
    arrays = [logical(desc.tensor(field), buffer) for field, buffer in zip(desc.operator.inputs, inputs, strict=True)]
    return desc.operator.reference(desc, *arrays)
