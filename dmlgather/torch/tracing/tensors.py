"""Tensors of PyTorch as the arrays of a graph, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.torch.tracing.node_calls import Value
from dmlgather.torch.tracing.nodes import library


def host_array(tensor: Any) -> NDArray[Any]:
    """The elements of a tensor, in host memory."""
    array, _ = arrays.adopt(tensor.detach().cpu())
    return array  # type: ignore[no-any-return] # NumPy's, because it is on the host


def tensor_of(array: Any, strides: Sequence[int] | None = None) -> Any:
    """NumPy's or CuPy's array as a tensor over the same memory. strides: a copy with these, where no elements overlap."""
    torch = library()
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.copy()  # PyTorch warns
    if array.dtype.isbuiltin == 1:
        tensor = torch.from_dlpack(array)
    else:
        whole = array.view(f"i{array.dtype.itemsize}" if array.dtype.itemsize > 1 else "u1")
        tensor = torch.from_dlpack(whole).view(getattr(torch, array.dtype.name))
    if strides is None or tensor.stride() == tuple(strides):
        return tensor
    single = tensor
    for axis, step in enumerate(strides):
        single = single.narrow(axis, 0, 1) if not step else single
    if _overlap(single.shape, strides):
        return tensor
    placed = torch.empty_strided(single.shape, tuple(strides), dtype=tensor.dtype, device=tensor.device)
    return placed.copy_(single).expand(tensor.shape)


def _overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements may share memory."""
    reached = 0
    for step, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if step <= reached:
                return True
            reached += step * (size - 1)
    return False


def with_tensors(given: Mapping[str, Any], arrays_by_name: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with tensors of these arrays in the place of the values that they name."""

    def filled(argument: Any) -> Any:
        if isinstance(argument, Value):
            tensor = tensor_of(arrays_by_name[argument.name], argument.strides)
            return tensor.requires_grad_(argument.requires_grad)
        return [filled(each) for each in argument] if isinstance(argument, list) else argument

    return {name: filled(argument) for name, argument in given.items()}
