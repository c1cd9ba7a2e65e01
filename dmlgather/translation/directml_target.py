"""DirectML: problems for which its descriptors exist at a feature level."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from dmlgather.dialects.descriptor_problem import DescriptorProblem
from dmlgather.dialects.exporter import Descriptors, Exporter
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.view_forms import VIEW_FORMS
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.directml import BufferTensorDesc, FeatureLevel, OperatorDesc, Report, validate
from dmlgather.lax.problems import export as lax_export
from dmlgather.lax.problems.gather import INTEGERS, LaxGather
from dmlgather.numpy.problems import export as numpy_export
from dmlgather.onnx.problems import export as onnx_export
from dmlgather.openvino.problems import export as openvino_export
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.torch.problems import export as torch_export
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.jax_target import lax_numbers, slice_sizes
from dmlgather.translation.targets import IndexRule, Target, UntranslatableError

SIGNED_INDICES = FeatureLevel.LEVEL_3_0
"""The first level at which gathers take signed indices."""


class DirectMLTarget(Target):
    """A program of problems that have descriptors. Indices are bound as they are: DirectML clamps what is out of range."""

    title = "DirectML"
    raises = False

    def __init__(self, graph: GraphBuilder, level: FeatureLevel) -> None:
        super().__init__(graph)
        self.level = level

    @property
    def axis_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.CLAMP, wraps=True, types=INTEGERS)

    def same(self, problem: Problem) -> Problem | None:
        if isinstance(problem, DescriptorProblem):
            packed = DescriptorProblem(_packed(problem.desc))
            return packed if validate(packed.desc, self.level).ok else None
        return problem if type(problem) in exporters() else None

    def stated_as(self, own: Problem, *inputs: str) -> str:
        if len(inputs) > 1:
            self._check_wrap(own.plan(), inputs[1])
        return super().stated_as(own, *inputs)

    def _check_wrap(self, plan: IndexPlan, indices: str) -> None:
        """UntranslatableError where negative indices count from the end, and the level takes unsigned ones alone."""
        wraps = any(lookup.wrap for lookup in plan.lookups) and self.type_of(indices).dtype.kind == "i"
        if wraps and self.level < SIGNED_INDICES and self.graph.known(indices) is None:
            raise UntranslatableError(
                f"negative indices count from the end, and level {self.level} takes UINT32 indices: use level {SIGNED_INDICES} "
                "or newer, or to_directml, whose descriptors are bound with indices that are converted"
            )

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        return self.stated_as(SliceView(self.type_of(value), tuple(windows)), value)

    def computed(self, operator: str, dtype: Any, *values: str) -> str:
        if all(self.graph.known(value) is not None for value in values):
            return super().computed(operator, dtype, *values)
        raise UntranslatableError(f"it is {operator} of computed values, which DirectML's gathers and slices cannot do")

    def along_axis(self, data: str, indices: str, axis: int) -> str:  # noqa: ARG002 - it always refuses
        raise UntranslatableError("DirectML's gathers and slices cannot compute positions from indices: give them as an input")

    def gathered(self, gathering: Gathering) -> str | None:
        plan = gathering.plan
        self._check_wrap(plan, gathering.indices)
        policy = OutOfBounds.CLAMP if plan.out_of_bounds is OutOfBounds.PROMISE else plan.out_of_bounds
        unchanged = IndexRule(policy, wraps=any(lookup.wrap for lookup in plan.lookups), types=INTEGERS)
        tuples = gathering.tuples(unchanged)
        numbers, written = lax_numbers(gathering, tuples.order)
        data, indices = self.type_of(gathering.data), self.type_of(tuples.value)
        own = LaxGather(data, indices, numbers, slice_sizes(gathering), OutOfBounds.CLAMP)
        return gathering.finished(self.stated_as(own, gathering.data, tuples.value), written)


@cache
def exporters() -> dict[type[Problem], Exporter]:
    """How each problem becomes descriptors."""
    views = Exporter(VIEW_FORMS, lambda problem: problem.name)
    rooms = (onnx_export, openvino_export, lax_export, numpy_export, torch_export)
    dialects = (views, *(room.EXPORTER for room in rooms))
    return {problem: exporter for exporter in dialects for problem in exporter.forms}


def _packed(desc: OperatorDesc) -> OperatorDesc:
    """A descriptor whose tensors have no strides, as a problem means it."""
    tensors = {
        field: BufferTensorDesc(data_type=desc.tensor(field).data_type, sizes=desc.tensor(field).sizes)
        for field in desc.operator.tensors
    }
    return desc.model_copy(update=tensors)


def descriptors_of(problem: Problem, level: FeatureLevel) -> Descriptors:
    """The descriptors of a problem that `DirectMLTarget` states. UntranslatableError where the level takes none."""
    if isinstance(problem, DescriptorProblem):
        return (problem.desc,)
    found = exporters()[type(problem)].express(problem, level)
    if isinstance(found, Report):
        raise UntranslatableError(
            "; ".join(
                f"{finding.code} {finding.path}: expected {finding.expected}, got {finding.got}" for finding in found.findings
            )
        )
    return found
