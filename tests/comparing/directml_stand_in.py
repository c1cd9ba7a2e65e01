"""A stand-in for the package `directml` (0.1.0): the signatures of its stub file and the rules of its Python layer, as far as
they are used here. Operators run as DirectML's pages say, with output sizes as DirectMLX computes them.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import BufferTensorDesc, GatherOperatorDesc, OperatorDesc, Slice1OperatorDesc


class TensorFlags(enum.Enum):
    NONE = 0
    OWNED_BY_DML = 1


class TensorDesc:
    def __init__(
        self,
        data_type: Any,
        sizes: Sequence[int],
        *,
        flags: TensorFlags = TensorFlags.NONE,
        strides: Sequence[int] | None = None,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
        tensor_policy: Any = None,
    ) -> None:
        assert tensor_policy is None
        self.dtype, self.flags = np.dtype(data_type), flags
        self.buffer = BufferTensorDesc(
            data_type=self.dtype.name.upper(),
            sizes=list(sizes),
            strides=None if strides is None else list(strides),
            total_tensor_size_in_bytes=total_tensor_size_in_bytes,
            guaranteed_base_offset_alignment=guaranteed_base_offset_alignment,
        )


class Device:
    def __init__(self, *, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        pass


@dataclass(eq=False)
class Expression:
    tensor: TensorDesc
    name: str | None = None
    desc: OperatorDesc | None = None
    inputs: tuple[Expression, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.buffer.sizes


class CompiledOperator:
    def __init__(self, result: Expression, spoil: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self.result, self.spoil, self.owned = result, spoil, dict[str, NDArray[Any]]()

    def initialize(self, weights: dict[Any, Any] | None = None) -> None:
        self.owned = self._bound(weights, TensorFlags.OWNED_BY_DML)

    def dispatch(self, inputs: dict[Any, Any] | None = None, *, readback: bool = True) -> list[NDArray[Any]]:
        assert readback
        bound = {**self.owned, **self._bound(inputs, TensorFlags.NONE)}
        assert self.result.desc is not None
        arrays = [bound[str(part.name)] for part in self.result.inputs]
        return [self.spoil(self.result.desc.operator.reference(self.result.desc, *arrays))]

    def _bound(self, given: dict[Any, Any] | None, flags: TensorFlags) -> dict[str, NDArray[Any]]:
        """The logical arrays of all inputs with these flags, and of no other."""
        parts = {str(part.name): part.tensor for part in self.result.inputs if part.tensor.flags is flags}
        if set(parts) != set(given or {}):
            raise ValueError(f"expected {sorted(parts)}, got {sorted(given or {})}")
        return {name: _logical(parts[name], np.asarray(value)) for name, value in (given or {}).items()}


def _logical(tensor: TensorDesc, value: NDArray[Any]) -> NDArray[Any]:
    if value.dtype != tensor.dtype:
        raise ValueError(f"cannot convert a {value.dtype} array to {tensor.dtype}")
    if tensor.buffer.strides is None:
        if value.size != prod(tensor.buffer.sizes):
            raise ValueError(f"array of {value.size} elements does not fill {tensor.buffer.sizes}")
        return np.ascontiguousarray(value).reshape(tensor.buffer.sizes)
    if value.nbytes < tensor.buffer.total_bytes:
        raise ValueError(f"{value.nbytes} bytes do not fill a buffer of {tensor.buffer.total_bytes}")
    steps = [step * value.itemsize for step in tensor.buffer.strides]
    return np.lib.stride_tricks.as_strided(np.ascontiguousarray(value), tensor.buffer.sizes, steps, writeable=False)


class Graph:
    spoil: Callable[[NDArray[Any]], NDArray[Any]] = staticmethod(lambda array: array)

    def __init__(self, device: Device, *, tensor_policy: Any = None) -> None:
        assert isinstance(device, Device)

    def input(
        self,
        sizes: Sequence[int] | None = None,
        dtype: Any = None,
        *,
        owned: bool = False,
        strides: Sequence[int] | None = None,
        desc: TensorDesc | None = None,
        name: str | None = None,
    ) -> Expression:
        if desc is None or sizes is not None or dtype is not None or owned or strides is not None:
            raise TypeError("desc= already describes the tensor; no other argument may be passed with it")
        return Expression(desc, name)

    def compile(self, outputs: Sequence[Expression], *, flags: Any = None) -> CompiledOperator:
        (result,) = outputs
        return CompiledOperator(result, Graph.spoil)


def gather(input: Expression, indices: Expression, *, axis: int, index_dimensions: int) -> Expression:  # noqa: A002 # its name there
    data, index = list(input.shape), list(indices.shape)
    last = [*index[len(index) - index_dimensions :], *data[axis + 1 :]]
    before = data[:axis]
    sizes = ([1] * len(data) + before + last)[-len(data) :]
    output = TensorDesc(input.tensor.dtype, sizes)
    desc = GatherOperatorDesc(
        input_tensor=input.tensor.buffer,
        indices_tensor=indices.tensor.buffer,
        output_tensor=output.buffer,
        axis=axis,
        index_dimensions=index_dimensions,
    )
    return Expression(output, None, desc, (input, indices))


def slice(  # noqa: A001 # its name there
    input: Expression,  # noqa: A002 # its name there
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Expression:
    sizes = [1 + (size - 1) // abs(step) for size, step in zip(input_window_sizes, input_window_strides, strict=True)]
    output = TensorDesc(input.tensor.dtype, sizes)
    desc = Slice1OperatorDesc(
        input_tensor=input.tensor.buffer,
        output_tensor=output.buffer,
        input_window_offsets=list(input_window_offsets),
        input_window_sizes=list(input_window_sizes),
        input_window_strides=list(input_window_strides),
    )
    return Expression(output, None, desc, (input,))


def module() -> types.ModuleType:
    """The stand-in as a module."""
    made = types.ModuleType("directml")
    for part in (TensorFlags, TensorDesc, Device, Expression, CompiledOperator, Graph, gather, slice):
        setattr(made, part.__name__, part)
    return made
