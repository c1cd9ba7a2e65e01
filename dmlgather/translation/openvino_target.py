"""OpenVINO: problems in the operations of one of its operation sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.windows import Window
from dmlgather.openvino.problems.data_types import INTEGERS, TYPES
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.operation_versions import OpenVINOProblem, version_in
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice
from dmlgather.plan import OutOfBounds
from dmlgather.translation.forms import InBatches, OperatorTarget
from dmlgather.translation.targets import IndexRule

LEAST = -(2**63) + 1
"""An end of a slice that lies before every element."""

INDEX_TYPES = tuple(TYPES.names[name] for name in ("i32", "i64", *(name for name in INTEGERS if name not in ("i32", "i64"))))


class OpenVINOTarget(OperatorTarget):
    """A program in OpenVINO's operations."""

    title = "OpenVINO"

    def __init__(self, graph: GraphBuilder, opset: int) -> None:
        super().__init__(graph)
        self.opset = opset
        self.gather_version = version_in("Gather", opset).since

    @property
    def in_batches(self) -> InBatches | None:
        return self._in_batches if self.gather_version > 1 else None

    @property
    def axis_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.FILL, wraps=self.gather_version == 8, types=INDEX_TYPES, only_zero=True)

    @property
    def elements_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.RAISE, wraps=True, types=("int32", "int64"))

    @property
    def tuples_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.RAISE, wraps=True, types=INDEX_TYPES)

    def same(self, problem: Problem) -> Problem | None:
        if not isinstance(problem, OpenVINOProblem):
            return None
        return replace(problem, version=version_in(problem.name, self.opset).since)  # type: ignore[type-var] # all are

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        tensor = self.type_of(value)
        starts = [window.start for window in windows]
        steps = [window.step for window in windows]
        ends = [window.start + window.count * window.step for window in windows]
        ends = [end if end >= 0 else LEAST for end in ends]
        if self.opset >= 8:
            axes = tuple(axis for axis, window in enumerate(windows) if window != Window.whole(tensor.shape[axis]))
            start, stop, step = (tuple(values[axis] for axis in axes) for values in (starts, ends, steps))
            return self.stated_as(OpenVINOSlice(tensor, start, stop, step, axes, version_in("Slice", self.opset).since), value)
        return self.stated_as(OpenVINOStridedSlice(tensor, tuple(starts), tuple(ends), tuple(steps)), value)

    def along_axis(self, data: str, indices: str, axis: int) -> str:
        return self._in_batches(data, indices, axis, 0)

    def _in_batches(self, data: str, indices: str, axis: int, batch: int) -> str:
        own = OpenVINOGather(self.type_of(data), self.type_of(indices), axis, batch, self.gather_version)
        return self.stated_as(own, data, indices)

    def elements(self, data: str, indices: str, axis: int) -> str:
        version = version_in("GatherElements", self.opset).since
        return self.stated_as(OpenVINOGatherElements(self.type_of(data), self.type_of(indices), axis, version), data, indices)

    def tuples(self, data: str, indices: str, batch: int) -> str:
        version = version_in("GatherND", self.opset).since
        own = OpenVINOGatherND(self.type_of(data), self.type_of(indices), batch, version)
        result = self.stated_as(own, data, indices)
        if not own.merges_batches:
            return result
        return (
            self.reshaped(result, (*self.type_of(data).shape[:batch], *own.output.shape[1:]))
            if prod(own.output.shape)
            else result
        )
