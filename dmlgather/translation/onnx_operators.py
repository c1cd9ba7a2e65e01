"""A graph of ONNX's operators under construction, and these operators' rules for indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Elementwise
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.windows import Window
from dmlgather.onnx.problems.depth_space import MODES, DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.operator_versions import OnnxProblem
from dmlgather.onnx.problems.slice import Slice
from dmlgather.plan import canonicalise


class UntranslatableError(ValueError):
    """A problem has no equivalent in ONNX. The message says why."""


@dataclass(frozen=True, slots=True)
class IndexRule:
    """The indices that an ONNX operator accepts.

    `raises`: True if the operator raises an error for indices out of range; if False, they must be in range. `wraps`: True if
    negative indices count from the end. `types`: the names of the allowed data types, in order of preference.
    """

    raises: bool
    wraps: bool
    types: tuple[str, ...]


POSITIONS = IndexRule(raises=False, wraps=False, types=("int64",))
"""Rule for indices that become positions in further arithmetic."""

_BLOCK_OPSETS = {"float32": 1, "float64": 1, "int8": 11, "uint8": 11}
"""First opset with onnxruntime's block operators. Float16 is missing, because they quiet its signalling NaNs."""

_BEFORE_FIRST = -(2**63) + 1
"""The `end` of a Slice with a negative step that goes down to element 0. (-1 would mean the last element.)"""


class OnnxProgram:
    """A graph under construction with only ONNX's operators. Its methods add steps and return the result's name.

    `step_name`: the step that is being translated. Gathers and slices get this name.
    """

    def __init__(self, graph: GraphBuilder, opset: int) -> None:
        self.graph, self.opset, self.step_name = graph, opset, ""
        self._before_reshape: dict[str, str] = {}
        """The input of each reshape, by the name of its result."""

    @property
    def gather_rule(self) -> IndexRule:
        """The indices that Gather accepts at this opset."""
        return IndexRule(raises=True, wraps=self.opset >= 11, types=("int32", "int64"))

    @property
    def gather_elements_rule(self) -> IndexRule:
        """The indices that GatherElements accepts."""
        return IndexRule(raises=True, wraps=True, types=("int32", "int64"))

    @property
    def gather_nd_rule(self) -> IndexRule:
        """The indices that GatherND accepts."""
        return IndexRule(raises=True, wraps=True, types=("int64",))

    # Gathers, slices and block operators.

    def at_opset(self, problem: Problem) -> Problem | None:
        """Return an ONNX problem at this graph's opset, or None for a problem of another library."""
        return replace(problem, opset=self.opset) if isinstance(problem, OnnxProblem) else None  # type: ignore[type-var] # all are

    def block_operator(self, problem: Problem) -> Problem | None:
        """Return a DepthToSpace or SpaceToDepth that moves the same elements as the problem, or None if none does."""
        data, output = problem.data.shape, problem.output.shape
        implemented = self.opset >= _BLOCK_OPSETS.get(problem.data.dtype.name, self.opset + 1)
        if len(data) != 4 or len(output) != 4 or 0 in data or data == output or not implemented:
            return None
        grows = output[2] > data[2]
        block = output[2] // data[2] if grows else isqrt(output[1] // data[1])
        plan = canonicalise(problem.plan())
        for mode in MODES:
            try:
                candidate = (DepthToSpace if grows else SpaceToDepth)(problem.data, block, mode, self.opset)
            except (TypeError, ValueError):
                continue
            if candidate.output == problem.output and canonicalise(candidate.plan()) == plan:
                return candidate
        return None

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        """Add a Slice. At least one window must be smaller than its dimension."""
        tensor = self.type_of(value)
        axes = [axis for axis, window in enumerate(windows) if window != Window.whole(tensor.shape[axis])]
        starts, ends, steps = [], [], []
        for window in (windows[axis] for axis in axes):
            end = window.start + window.count * window.step
            starts.append(window.start)
            ends.append(end if end >= 0 else _BEFORE_FIRST)
            steps.append(window.step)
        stated_steps = None if steps == [1] * len(steps) else tuple(steps)
        return self.add(Slice(tensor, tuple(starts), tuple(ends), tuple(axes), stated_steps, self.opset), value)

    def gather(self, data: str, indices: str, axis: int) -> str:
        """Add a Gather."""
        return self.add(Gather(self.type_of(data), self.type_of(indices), axis, self.opset), data, indices)

    def gather_elements(self, data: str, indices: str, axis: int) -> str:
        """Add a GatherElements."""
        return self.add(GatherElements(self.type_of(data), self.type_of(indices), axis, self.opset), data, indices)

    def gather_nd(self, data: str, indices: str, batch: int) -> str:
        """Add a GatherND."""
        return self.add(GatherND(self.type_of(data), self.type_of(indices), batch, self.opset), data, indices)

    def add(self, problem: Problem, *inputs: str) -> str:
        """Add an ONNX operator, given as a problem."""
        return self.graph.problem(self.step_name or problem.name, problem, *inputs, output=problem.name)

    # Arithmetic and views. If all inputs are constants, the result is a constant, and no step is added.

    def type_of(self, value: str) -> TensorType:
        """Return the shape and data type of a value."""
        return self.graph.types[value]

    def number(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Add a constant. If all elements of an array are equal, the constant is a scalar."""
        array = np.asarray(value, dtype)
        equal = array.size and (array == array.flat[0]).all()
        return self.graph.constant(array.reshape(-1)[0] if equal else array)

    def compute(self, operator: str, dtype: Any, *values: str) -> str:
        """Add elementwise arithmetic. `operator`: such as "add"; see `Elementwise`. `dtype`: the data type of the result."""
        constants = [array for value in values if (array := self.graph.known(value)) is not None]
        if len(constants) == len(values):
            return self.graph.constant(Elementwise(operator, np.dtype(dtype)).compute(constants))
        return self.graph.elementwise(operator, operator, dtype, *values)

    def cast(self, value: str, dtype: Any) -> str:
        """Add a cast, unless the value has this type."""
        if self.type_of(value).dtype == np.dtype(dtype):
            return value
        return self.compute("cast", dtype, value)

    def reshaped(self, value: str, shape: Sequence[int]) -> str:
        """Add a reshape. If `value` is the result of a reshape, the new reshape reads the input of the old one."""
        constant = self.graph.known(value)
        if constant is not None:
            return self.graph.constant(constant.reshape(shape))
        before = self._before_reshape.get(value, value)
        after = self.graph.reshaped("reshape", before, shape)
        if after != before:
            self._before_reshape[after] = before
        return after

    def transposed(self, value: str, order: Sequence[int]) -> str:
        """Add a transposition. `order`: as for `numpy.transpose`."""
        constant = self.graph.known(value)
        if constant is not None:
            return self.graph.constant(constant.transpose(order))
        return self.graph.transposed("transpose", value, order)

    def selected(self, valid: str, value: str, fill: bytes) -> str:
        """Add a Where: `value` where `valid` is true, and the fill value elsewhere. `fill`: the bytes of the fill value."""
        tensor = self.type_of(value)
        constant = self.graph.constant(np.frombuffer(fill, tensor.dtype).reshape(()))
        return self.graph.elementwise("where", "where", tensor.dtype, valid, value, constant)
