"""Building an `IndexGraph` step by step."""

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
    """Collects inputs, constants and steps. What adds a step returns the name of the value that it writes: `output`, or the
    step's own name. Names that are taken get a number behind them. A view that changes nothing adds no step.
    """

    def __init__(self) -> None:
        self.types: dict[str, TensorType] = {}
        self.steps: list[Step] = []
        self._inputs: list[str] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._same: dict[Hashable, str] = {}
        self._names: dict[str, dict[str, int]] = {"step": {}, "value": {}}

    def input(self, name: str, tensor: TensorType) -> str:
        """An input of the graph, behind those before it."""
        name = self._new(name, tensor)
        self._inputs.append(name)
        return name

    def constant(self, value: ArrayLike, name: str = "") -> str:
        """A known value. Arrays with the same type, shape and bytes are one constant, under the first one's name."""
        array = np.asarray(value)
        key = (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._same:
            self._same[key] = self._new(name or f"constant {len(self._constants)}", TensorType(array.shape, array.dtype))
            self._constants[self._same[key]] = array
        return self._same[key]

    def known(self, value: str) -> NDArray[Any] | None:
        """The array of a value that is a constant; None for others."""
        return self._constants.get(value)

    def problem(self, name: str, problem: Problem, *inputs: str, output: str = "") -> str:
        """A gather, slice or view; inputs: its data, then its indices where it has any."""
        return self._step(name, problem, inputs, problem.output, output)

    def reshaped(self, name: str, value: str, shape: Sequence[int]) -> str:
        """The elements of a value in row-major order under another shape; of a constant another constant."""
        tensor = self.types[value]
        if tensor.shape == tuple(shape):
            return value
        if value in self._constants:
            return self.constant(self._constants[value].reshape(shape))
        return self.problem(name, ReshapeView(tensor, tuple(shape)), value)

    def transposed(self, name: str, value: str, order: Sequence[int]) -> str:
        """Dimension i of the result is dimension order[i] of the value."""
        if list(order) == list(range(self.types[value].rank)):
            return value
        return self.problem(name, TransposeView(self.types[value], tuple(order)), value)

    def expanded(self, name: str, value: str, shape: Sequence[int]) -> str:
        """The value broadcast to a shape, as NumPy does it."""
        if self.types[value].shape == tuple(shape):
            return value
        return self.problem(name, ExpandView(self.types[value], tuple(shape)), value)

    def concatenated(self, name: str, values: Sequence[str], axis: int) -> str:
        """The values one after the other along `axis`, counted from the front."""
        if len(values) == 1:
            return values[0]
        first, *others = (self.types[value] for value in values)
        size = first.shape[axis] + sum(tensor.shape[axis] for tensor in others)
        tensor = TensorType((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype)
        return self._step(name, Concatenation(axis), values, tensor)

    def elementwise(self, name: str, operator: str, dtype: Any, *inputs: str) -> str:
        """Arithmetic by NumPy's name of it; see `Elementwise`."""
        work = Elementwise(operator, np.dtype(dtype))
        shape = np.broadcast_shapes(*(self.types[value].shape for value in inputs))
        return self._step(name, work, inputs, TensorType(shape, work.dtype))

    def bitcast(self, name: str, value: str, dtype: np.dtype[Any], shape: Sequence[int]) -> str:
        """The same bytes as elements of another type, under a shape of as many bytes."""
        tensor = TensorType(tuple(shape), dtype)
        return self._step(name, Bitcast(dtype, tensor.shape), [value], tensor)

    def build(self, outputs: Sequence[str]) -> IndexGraph:
        """The graph of what was added. outputs: the names of the values that it returns, in order."""
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
        """The name, or the name with the first number that makes it new."""
        free, taken = name, self._names[kind]
        while free in taken:
            taken[name] += 1
            free = f"{name} ({taken[name]})"
        taken[free] = 1
        return free
