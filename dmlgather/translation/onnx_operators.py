"""ONNX's operators at an opset, as the steps of a program that is being stated, and how they treat indices."""

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
    """ONNX cannot say it; the message says why."""


@dataclass(frozen=True, slots=True)
class IndexRule:
    """How an operator treats its indices.

    raises: whether an index out of range is an error; else indices are computed positions, which must be in range. wraps: whether
    negative indices count from the end. types: those that it takes, the preferred ones first.
    """

    raises: bool
    wraps: bool
    types: tuple[str, ...]


POSITIONS = IndexRule(raises=False, wraps=False, types=("int64",))
"""For positions that are computed."""

MOVED_IN_BLOCKS = {"float32": 1, "float64": 1, "int8": 11, "uint8": 11}
"""The types for which onnxruntime has DepthToSpace and SpaceToDepth, and from which opset on. It transposes all types. It has
float16 as well, but makes signalling NaNs quiet there.
"""

LEAST = -(2**63) + 1
"""An end of a slice that lies before every element."""


class OnnxProgram:
    """A program in ONNX's operators at an opset, while it is made.

    step_name: of the step that is being stated, whose name the operators of the family get.
    """

    def __init__(self, graph: GraphBuilder, opset: int) -> None:
        self.graph, self.opset, self.step_name = graph, opset, ""
        self._reshaped: dict[str, str] = {}
        """By the value of a reshape, what it reshapes."""

    @property
    def axis_rule(self) -> IndexRule:
        """That of `along_axis`."""
        return IndexRule(raises=True, wraps=self.opset >= 11, types=("int32", "int64"))

    @property
    def elements_rule(self) -> IndexRule:
        """That of `elements`."""
        return IndexRule(raises=True, wraps=True, types=("int32", "int64"))

    @property
    def tuples_rule(self) -> IndexRule:
        """That of `tuples`."""
        return IndexRule(raises=True, wraps=True, types=("int64",))

    # Operators of the family.

    def same(self, problem: Problem) -> Problem | None:
        """Return the same operator at the opset; None for one of another library."""
        return replace(problem, opset=self.opset) if isinstance(problem, OnnxProblem) else None  # type: ignore[type-var] # all are

    def blocks(self, problem: Problem) -> Problem | None:
        """Return the DepthToSpace or SpaceToDepth that makes just this copy; None where there is none."""
        data, output = problem.data.shape, problem.output.shape
        moved = self.opset >= MOVED_IN_BLOCKS.get(problem.data.dtype.name, self.opset + 1)
        if len(data) != 4 or len(output) != 4 or 0 in data or data == output or not moved:
            return None
        grows = output[2] > data[2]
        block = output[2] // data[2] if grows else isqrt(output[1] // data[1])
        wanted = canonicalise(problem.plan())
        for mode in MODES:
            try:
                own = (DepthToSpace if grows else SpaceToDepth)(problem.data, block, mode, self.opset)
            except (TypeError, ValueError):
                continue
            if own.output == problem.output and canonicalise(own.plan()) == wanted:
                return own
        return None

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        """Return a window of each dimension of a value; not all are whole."""
        tensor = self.type_of(value)
        axes = [axis for axis, window in enumerate(windows) if window != Window.whole(tensor.shape[axis])]
        starts, ends, steps = [], [], []
        for window in (windows[axis] for axis in axes):
            end = window.start + window.count * window.step
            starts.append(window.start)
            ends.append(end if end >= 0 else LEAST)
            steps.append(window.step)
        stated = None if steps == [1] * len(steps) else tuple(steps)
        return self.stated_as(Slice(tensor, tuple(starts), tuple(ends), tuple(axes), stated, self.opset), value)

    def along_axis(self, data: str, indices: str, axis: int) -> str:
        """Return whole slices, by indices along an axis."""
        return self.stated_as(Gather(self.type_of(data), self.type_of(indices), axis, self.opset), data, indices)

    def elements(self, data: str, indices: str, axis: int) -> str:
        """Return one element per index."""
        return self.stated_as(GatherElements(self.type_of(data), self.type_of(indices), axis, self.opset), data, indices)

    def tuples(self, data: str, indices: str, batch: int) -> str:
        """Return slices by tuples in the last dimension of indices; batch: leading dimensions that data and indices share."""
        return self.stated_as(GatherND(self.type_of(data), self.type_of(indices), batch, self.opset), data, indices)

    def stated_as(self, own: Problem, *inputs: str) -> str:
        """Return the result of an operator of the family."""
        return self.graph.problem(self.step_name or own.name, own, *inputs, output=own.name)

    # Arithmetic and views; of constants, constants.

    def type_of(self, value: str) -> TensorType:
        """Return the type of a value of the graph."""
        return self.graph.types[value]

    def number(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Return a constant; one number where all are equal."""
        array = np.asarray(value, dtype)
        equal = array.size and (array == array.flat[0]).all()
        return self.graph.constant(array.reshape(-1)[0] if equal else array)

    def computed(self, operator: str, dtype: Any, *values: str) -> str:
        """Return the result of integer arithmetic by NumPy's name."""
        known = [array for value in values if (array := self.graph.known(value)) is not None]
        if len(known) == len(values):
            return self.graph.constant(Elementwise(operator, np.dtype(dtype)).compute(known))
        return self.graph.elementwise(operator, operator, dtype, *values)

    def cast(self, value: str, dtype: Any) -> str:
        """Return the value in another integer type."""
        if self.type_of(value).dtype == np.dtype(dtype):
            return value
        return self.computed("cast", dtype, value)

    def reshaped(self, value: str, shape: Sequence[int]) -> str:
        """Return the elements of a value under another shape; of two reshapes in a row, only the last is made."""
        known = self.graph.known(value)
        if known is not None:
            return self.graph.constant(known.reshape(shape))
        before = self._reshaped.get(value, value)
        after = self.graph.reshaped("reshape", before, shape)
        if after != before:
            self._reshaped[after] = before
        return after

    def transposed(self, value: str, order: Sequence[int]) -> str:
        """Return a value with its dimensions in another order."""
        known = self.graph.known(value)
        if known is not None:
            return self.graph.constant(known.transpose(order))
        return self.graph.transposed("transpose", value, order)

    def selected(self, valid: str, value: str, fill: bytes) -> str:
        """Return the value where `valid`, else the fill value; of any type."""
        tensor = self.type_of(value)
        other = self.graph.constant(np.frombuffer(fill, tensor.dtype).reshape(()))
        return self.graph.elementwise("where", "where", tensor.dtype, valid, value, other)
