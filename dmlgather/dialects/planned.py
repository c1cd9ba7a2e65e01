"""Problems that are given by a plan, such as several fused steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build, packed_strides
from dmlgather.plan.compose import compose, compose_indices


@dataclass(frozen=True)
class Planned(Problem):
    """A problem that a plan defines, such as several fused steps.

    `packed`: the plan for packed arrays.
    `holds`: the names of the steps that were fused into the plan.

    `lower` raises CompositionError if there is no plan for the strides of the arrays.
    """

    data: TensorType
    indices: TensorType | None
    result: TensorType
    packed: IndexPlan
    holds: tuple[str, ...] = field(default=(), compare=False)

    name = "plan"

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override] # the plan decides
        """Names of the inputs: "data", and "indices" if the plan reads indices."""
        return ("data",) if self.indices is None else ("data", "indices")

    @property
    def output(self) -> TensorType:
        return self.result

    @property
    def out_of_bounds(self) -> OutOfBounds:  # type: ignore[override] # the plan decides
        """The plan's policy."""
        return self.packed.out_of_bounds

    @property
    def fill(self) -> bytes:
        return self.packed.fill

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        """The axis of data that each lookup probably indexes, judged by strides, because a plan does not state axes."""
        steps = packed_strides(self.data.shape)
        return tuple(
            next((axis for axis, step in enumerate(steps) if step <= abs(lookup.in_stride)), 0) for lookup in self.packed.lookups
        )

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, *indices, output = layouts
        plan = self.packed
        if not data.is_packed:
            plan = compose(plan, _copy(data, Layout.packed(data.sizes), plan.element_bytes))
        if indices and not indices[0].is_packed:
            plan = compose_indices(plan, _copy(indices[0], Layout.packed(indices[0].sizes), plan.element_bytes))
        if not output.is_packed:
            plan = compose(_copy(Layout.packed(output.sizes), output, plan.element_bytes), plan)
        return plan


def under(problem: Problem, out_of_bounds: OutOfBounds, fill: bytes) -> Problem:
    """Return the problem with another policy for indices out of range."""
    if not problem.lookup_axes or (out_of_bounds, fill) == (problem.out_of_bounds, problem.fill):
        return problem
    return Planned(problem.data, problem.tensors[1], problem.output, problem.plan(out_of_bounds, fill))


def _copy(source: Layout, target: Layout, element_bytes: int) -> IndexPlan:
    return build(source, target, source.strides, element_bytes)
