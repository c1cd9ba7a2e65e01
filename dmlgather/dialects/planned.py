"""Planned problems: a plan over packed arrays that no operator of a dialect states, such as several steps in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build, packed_strides
from dmlgather.plan.compose import compose, compose_indices


@dataclass(frozen=True)
class Planned(Problem):
    """What `packed`, a plan over packed arrays, does. indices: None for a plan without lookups.

    holds: the names of the steps that the plan does at once, for messages; two problems that differ in nothing else are equal.
    `lower` raises CompositionError, a ValueError, where an array is not packed and strides cannot say how the plan walks over it.
    """

    data: TensorType
    indices: TensorType | None
    result: TensorType
    packed: IndexPlan
    holds: tuple[str, ...] = field(default=(), compare=False)

    name = "plan"

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override] # the plan decides
        """The array inputs in binding order."""
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
        """For each lookup, the axis of data along which a unit of its value moves furthest."""
        steps = packed_strides(self.data.shape)
        return tuple(
            next((axis for axis, step in enumerate(steps) if step <= abs(lookup.in_stride)), 0) for lookup in self.packed.lookups
        )

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, *indices, output = layouts
        plan = self.packed
        if not _is_packed(data):
            plan = compose(plan, _copy(data, Layout.packed(data.sizes), plan.element_bytes))
        if indices and not _is_packed(indices[0]):
            plan = compose_indices(plan, _copy(indices[0], Layout.packed(indices[0].sizes), plan.element_bytes))
        if not _is_packed(output):
            plan = compose(_copy(Layout.packed(output.sizes), output, plan.element_bytes), plan)
        return plan


def under(problem: Problem, out_of_bounds: OutOfBounds, fill: bytes) -> Problem:
    """The problem with another policy for its indices. fill: the bytes of one element, for FILL."""
    if not problem.lookup_axes or (out_of_bounds, fill) == (problem.out_of_bounds, problem.fill):
        return problem
    return Planned(problem.data, problem.tensors[1], problem.output, problem.plan(out_of_bounds, fill))


def _copy(source: Layout, target: Layout, element_bytes: int) -> IndexPlan:
    return build(source, target, source.strides, element_bytes)


def _is_packed(layout: Layout) -> bool:
    packed = Layout.packed(layout.sizes)
    steps = zip(layout.sizes, layout.strides, packed.strides, strict=True)
    return 0 in layout.sizes or (layout.offset == 0 and all(size == 1 or step == wide for size, step, wide in steps))
