"""Building an `IndexGraph` step by step, for readers of programs."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque, Step, Work
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.wording import counted


class GraphBuilder:
    """Collects inputs, constants and steps. Each method that adds a step returns the name of the value that the step writes.

    name: of the step, for messages; one that is taken gets a number behind it. output: the name of the value; the step's own name
    where a reader has none. A view that changes nothing adds no step.
    """

    def __init__(self) -> None:
        self.types: dict[str, TensorType] = {}
        self.steps: list[Step] = []
        self.makers: dict[str, Step] = {}
        self._inputs: list[str] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._same: dict[Hashable, str] = {}
        self._labels: dict[str, str] = {}
        self._names: dict[str, dict[str, int]] = {"step": {}, "value": {}}

    def input(self, name: str, tensor: TensorType, label: str = "") -> str:
        """An input of the program, behind those before it. label: how users know it, where that is not its name."""
        name = self._new(name, tensor, label)
        self._inputs.append(name)
        return name

    def constant(self, value: ArrayLike, name: str = "") -> str:
        """A known value. Arrays with the same type, shape and bytes are one constant, under the first one's name."""
        array = np.asarray(value)
        content = array.tolist().__repr__().encode() if array.dtype.hasobject else array.tobytes()
        key = (str(array.dtype), array.shape, hashlib.sha256(content).digest())  # weights are not held twice
        if key not in self._same:
            self._same[key] = self._new(name or f"constant {len(self._constants)}", TensorType(array.shape, array.dtype))
            self._constants[self._same[key]] = array
        return self._same[key]

    def known(self, value: str) -> NDArray[Any] | None:
        """The array of a value that is a constant; None for others."""
        return self._constants.get(value)

    def problem(self, name: str, problem: Problem, *inputs: str, output: str = "") -> str:
        """A gather, slice or view; inputs: its data, then its indices where it has any."""
        return self.step(name, problem, inputs, {output: problem.output})[0]

    def reshaped(self, name: str, value: str, shape: Sequence[int], *, output: str = "") -> str:
        """The elements of a value in row-major order under another shape: reshape, flatten, squeeze, unsqueeze.

        Of a constant it is another constant, unless the result has a name.
        """
        tensor = self.types[value]
        if tensor.shape == tuple(shape):
            return value
        if value in self._constants and not output:
            return self.constant(self._constants[value].reshape(shape))
        return self.problem(name, ReshapeView(tensor, tuple(shape)), value, output=output)

    def transposed(self, name: str, value: str, order: Sequence[int], *, output: str = "") -> str:
        """Dimension i of the result is dimension order[i] of the value."""
        if list(order) == list(range(self.types[value].rank)):
            return value
        return self.problem(name, TransposeView(self.types[value], tuple(order)), value, output=output)

    def expanded(self, name: str, value: str, shape: Sequence[int], *, output: str = "") -> str:
        """The value broadcast to a shape, as NumPy does it."""
        if self.types[value].shape == tuple(shape):
            return value
        return self.problem(name, ExpandView(self.types[value], tuple(shape)), value, output=output)

    def concatenated(self, name: str, values: Sequence[str], axis: int, *, output: str = "") -> str:
        """The values one after the other along `axis`, counted from the front."""
        if len(values) == 1:
            return values[0]
        first, *others = (self.types[value] for value in values)
        size = first.shape[axis] + sum(tensor.shape[axis] for tensor in others)
        tensor = TensorType((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype)
        return self.step(name, Concatenation(axis), values, {output: tensor})[0]

    def stacked(self, name: str, values: Sequence[str], axis: int, *, output: str = "") -> str:
        """The values, of one shape, along a new dimension `axis`, counted from the front."""
        shape = self.types[values[0]].shape
        shape = (*shape[:axis], 1, *shape[axis:])
        parts = [self.reshaped(f"{name}: part {number}", value, shape) for number, value in enumerate(values)]
        return self.concatenated(name, parts, axis, output=output)

    def elementwise(self, name: str, operator: str, dtype: Any, *inputs: str, output: str = "") -> str:
        """Integer arithmetic by NumPy's name of it; see `Elementwise`. ValueError also for another number of inputs."""
        work = Elementwise(operator, np.dtype(dtype))
        if len(inputs) != work.operands:
            raise ValueError(f"{operator} takes {counted(work.operands, 'input')}, got {len(inputs)}")
        shape = np.broadcast_shapes(*(self.types[value].shape for value in inputs))
        return self.step(name, work, inputs, {output: TensorType(shape, work.dtype)})[0]

    def opaque(
        self,
        name: str,
        operator: str,
        inputs: Sequence[str],
        types: Sequence[TensorType],
        *,
        attributes: Hashable = (),
        outputs: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """Any other operator; returns the names of all that it writes. outputs: their names, one for each of `types`, or none."""
        names = outputs or [f"{name}: result {number}" if len(types) > 1 else "" for number in range(len(types))]
        return self.step(name, Opaque(operator, attributes), inputs, dict(zip(names, types, strict=True)))

    def step(self, name: str, work: Work, inputs: Sequence[str], outputs: Mapping[str, TensorType]) -> tuple[str, ...]:
        """A step as it is. outputs: the type of each value that it writes, by its name; "" for the step's own name."""
        written = tuple(self._new(output or name, tensor) for output, tensor in outputs.items())
        self.steps.append(Step(self._free("step", name), work, tuple(inputs), written))
        self.makers |= dict.fromkeys(written, self.steps[-1])
        return written

    def build(self, outputs: Sequence[str]) -> IndexGraph:
        """The graph of what was added. outputs: the names of the values that the program returns, in order."""
        return IndexGraph(tuple(self._inputs), tuple(outputs), tuple(self.steps), self.types, self._constants, self._labels)

    def _new(self, name: str, tensor: TensorType, label: str = "") -> str:
        name = self._free("value", name)
        self.types[name] = tensor
        if label and label != name:
            self._labels[name] = label
        return name

    def _free(self, kind: str, name: str) -> str:
        """The name, or the name with the first number that makes it new."""
        free, taken = name, self._names[kind]
        while free in taken:
            taken[name] += 1
            free = f"{name} ({taken[name]})"
        taken[free] = 1
        return free
