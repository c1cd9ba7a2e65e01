"""A node of an exported program as a call: its arguments by name, with values of the graph for tensors and numbers for sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.fusion.traces import meaning
from dmlgather.torch.tracing.nodes import library


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor among the arguments: the name of a value of the graph. strides: that PyTorch has it with, in elements; None where
    it is packed. requires_grad: whether it is a parameter that does; some kernels add in another order for these. offset: which
    element of its memory it begins with in PyTorch; None where that is not known.
    """

    name: str
    strides: tuple[int, ...] | None = None
    requires_grad: bool = False
    offset: int | None = 0


def tensors_in(given: Any) -> Iterator[str]:
    """The names of the tensors in arguments, in order."""
    if isinstance(given, Value):
        yield given.name
    elif isinstance(given, Mapping | list):
        for each in given.values() if isinstance(given, Mapping) else given:
            yield from tensors_in(each)


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A call of an operator.

    name: for its steps. operator: "index.Tensor". given: its arguments, defaults included. typed: gives the types of its results,
    or raises ValueError where they are not known. indexing: the names of the steps that move its elements, once they are added.
    """

    graph: GraphBuilder
    name: str
    operator: str
    given: Mapping[str, Any]
    typed: Callable[[], tuple[TensorType, ...]]
    indexing: list[str] = field(default_factory=list)

    def __getitem__(self, argument: str) -> Any:
        return self.given[argument]

    def value(self, argument: str = "self") -> str:
        """The name of a tensor's value."""
        return str(self.given[argument].name)

    def type(self, argument: str = "self") -> TensorType:
        """The type of a tensor."""
        return self.graph.types[self.value(argument)]

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The types of the tensors that it gives."""
        return self.typed()

    @property
    def result(self) -> TensorType:
        """The type of the first result."""
        return self.results[0]

    def problem(self, name: str, problem: Problem, *inputs: str) -> str:
        """Add a step that moves the call's elements. A slice of everything is none."""
        if type(problem) is SliceView and problem.taken == tuple(map(Window.whole, problem.data.shape)):
            return inputs[0]
        value = self.graph.problem(name, problem, *inputs)
        self.indexing.append(self.graph.steps[-1].name)
        return value

    def part(self, what: str) -> str:
        """A name for one of several steps."""
        return f"{self.name}: {what}"


# What identifies an opaque node: its operator, and its other arguments as hashable values.


def opaque_operator(call: NodeCall, *, single: bool) -> tuple[str, Hashable, tuple[str, ...]]:
    """What a node computes: the operator's name, its attributes, and the tensors that it reads. single: whether it equals no
    other node. Kernels may add in another order for other strides, and for parameters, so these decide as well.
    """
    inputs: list[str] = []
    attributes: tuple[Hashable, ...] = tuple((key, _canonical(value, inputs)) for key, value in call.given.items())
    return f"torch.{call.operator}", (*attributes, object()) if single else attributes, tuple(inputs)


def _canonical(value: Any, inputs: list[str]) -> Hashable:
    """A value with the place of each tensor in it, which is added to `inputs`."""
    if isinstance(value, Value):
        inputs.append(value.name)
        return "tensor", value.strides, value.requires_grad
    if isinstance(value, tuple | list):
        return tuple(_canonical(each, inputs) for each in value)
    return meaning(value)


# Tensors of PyTorch as the arrays of a graph, and back.


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
