"""A builder for `IndexGraph`."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmlgather.dialects.index_graph import Bitcast, Concatenation, Elementwise, IndexGraph, Step, Work
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView


class GraphBuilder:
    """Builder of an `IndexGraph`.

    A method that adds a step returns the name of its output: the argument `output`, or the name of the step. Used names get a
    number. A view that changes nothing adds no step.
    """

    def __init__(self) -> None:
        self.types: dict[str, TensorType] = {}
        self.steps: list[Step] = []
        self._inputs: list[str] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._same: dict[Hashable, str] = {}
        self._names: dict[str, dict[str, int]] = {"step": {}, "value": {}}

    def input(self, name: str, tensor: TensorType) -> str:
        """Add an input of the graph."""
        name = self._new(name, tensor)
        self._inputs.append(name)
        return name

    def constant(self, value: ArrayLike, name: str = "") -> str:
        """Add a constant. Equal arrays share one constant, with the name of the first one."""
        array = np.asarray(value)
        key = (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._same:
            self._same[key] = self._new(name or f"constant {len(self._constants)}", TensorType(array.shape, array.dtype))
            self._constants[self._same[key]] = array
        return self._same[key]

    def known(self, value: str) -> NDArray[Any] | None:
        """Return the array of a constant, or None for other values."""
        return self._constants.get(value)

    def problem(self, name: str, problem: Problem, *inputs: str, output: str = "") -> str:
        """Add a gather or slice. `inputs`: the value of the data, then the value of the indices if there are any."""
        return self._step(name, problem, inputs, problem.output, output)

    def reshaped(self, name: str, value: str, shape: Sequence[int]) -> str:
        """Add a reshape. A constant becomes a new constant."""
        tensor = self.types[value]
        if tensor.shape == tuple(shape):
            return value
        if value in self._constants:
            return self.constant(self._constants[value].reshape(shape))
        return self.problem(name, ReshapeView(tensor, tuple(shape)), value)

    def transposed(self, name: str, value: str, order: Sequence[int]) -> str:
        """Add a transposition: dimension i of the result is dimension order[i] of the value."""
        if list(order) == list(range(self.types[value].rank)):
            return value
        return self.problem(name, TransposeView(self.types[value], tuple(order)), value)

    def expanded(self, name: str, value: str, shape: Sequence[int]) -> str:
        """Add a broadcast by NumPy's rules."""
        if self.types[value].shape == tuple(shape):
            return value
        return self.problem(name, ExpandView(self.types[value], tuple(shape)), value)

    def concatenated(self, name: str, values: Sequence[str], axis: int) -> str:
        """Add a concatenation along `axis`, counted from the front."""
        if len(values) == 1:
            return values[0]
        first, *others = (self.types[value] for value in values)
        size = first.shape[axis] + sum(tensor.shape[axis] for tensor in others)
        tensor = TensorType((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype)
        return self._step(name, Concatenation(axis), values, tensor)

    def elementwise(self, name: str, operator: str, dtype: Any, *inputs: str) -> str:
        """Add elementwise arithmetic. `operator`: the operator of the `Elementwise`, such as "add" or "cast"."""
        work = Elementwise(operator, np.dtype(dtype))
        shape = np.broadcast_shapes(*(self.types[value].shape for value in inputs))
        return self._step(name, work, inputs, TensorType(shape, work.dtype))

    def bitcast(self, name: str, value: str, dtype: np.dtype[Any], shape: Sequence[int]) -> str:
        """Add a bitcast to an array with the same number of bytes."""
        tensor = TensorType(tuple(shape), dtype)
        return self._step(name, Bitcast(dtype, tensor.shape), [value], tensor)

    def build(self, outputs: Sequence[str]) -> IndexGraph:
        """Return the finished graph."""
        return IndexGraph(tuple(self._inputs), tuple(outputs), tuple(self.steps), self.types, self._constants)

    def _step(self, name: str, work: Work, inputs: Sequence[str], tensor: TensorType, output: str = "") -> str:
        written = self._new(output or name, tensor)
        self.steps.append(Step(self._free("step", name), work, tuple(inputs), (written,)))
        return written

    def _new(self, name: str, tensor: TensorType) -> str:
        name = self._free("value", name)
        self.types[name] = tensor
        return name

    def _free(self, kind: str, name: str) -> str:
        free, numbers = name, self._names[kind]
        while free in numbers:
            numbers[name] += 1
            free = f"{name} ({numbers[name]})"
        numbers[free] = 1
        return free
