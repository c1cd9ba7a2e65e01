"""ONNX: problems in its operators at an opset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.windows import Window
from dmlgather.onnx.problems.depth_space import MODES, DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.operator_versions import OnnxProblem
from dmlgather.onnx.problems.slice import Slice
from dmlgather.plan import OutOfBounds
from dmlgather.translation.forms import OperatorTarget
from dmlgather.translation.targets import IndexRule, first_alike

MOVED_IN_BLOCKS = {"float32": 1, "float64": 1, "int8": 11, "uint8": 11}
"""The types for which onnxruntime has DepthToSpace and SpaceToDepth, and from which opset on. It transposes all types. It has
float16 as well, but makes signalling NaNs quiet there.
"""

LEAST = -(2**63) + 1
"""An end of a slice that lies before every element."""


class OnnxTarget(OperatorTarget):
    """A program in ONNX's operators."""

    title = "ONNX"
    bitcasts = True

    def __init__(self, graph: GraphBuilder, opset: int) -> None:
        super().__init__(graph)
        self.opset = opset

    @property
    def axis_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.RAISE, wraps=self.opset >= 11, types=("int32", "int64"))

    @property
    def elements_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.RAISE, wraps=True, types=("int32", "int64"))

    @property
    def tuples_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.RAISE, wraps=True, types=("int64",))

    def same(self, problem: Problem) -> Problem | None:
        return replace(problem, opset=self.opset) if isinstance(problem, OnnxProblem) else None  # type: ignore[type-var] # all are

    def alike(self, problem: Problem) -> Problem | None:
        data, output = problem.data.shape, problem.output.shape
        moved = self.opset >= MOVED_IN_BLOCKS.get(problem.data.dtype.name, self.opset + 1)
        if len(data) != 4 or len(output) != 4 or 0 in data or data == output or not moved:
            return None
        grows = output[2] > data[2]
        block = output[2] // data[2] if grows else isqrt(output[1] // data[1])
        kind = DepthToSpace if grows else SpaceToDepth
        candidates: list[Problem] = []
        for mode in MODES:
            try:
                candidates.append(kind(problem.data, block, mode, self.opset))
            except (TypeError, ValueError):
                continue
        return first_alike(problem, candidates)

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
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
        return self.stated_as(Gather(self.type_of(data), self.type_of(indices), axis, self.opset), data, indices)

    def elements(self, data: str, indices: str, axis: int) -> str:
        return self.stated_as(GatherElements(self.type_of(data), self.type_of(indices), axis, self.opset), data, indices)

    def tuples(self, data: str, indices: str, batch: int) -> str:
        return self.stated_as(GatherND(self.type_of(data), self.type_of(indices), batch, self.opset), data, indices)
