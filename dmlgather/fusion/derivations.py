"""Derivations: how one plan makes a value of others that exist, and which index tensors are views of others."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dmlgather.dialects.index_graph import IndexGraph, Step
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import ReshapeView
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds, simplify
from dmlgather.plan.compose import compose, compose_indices
from dmlgather.plan.walk import CompositionError


@dataclass(frozen=True, slots=True)
class Derivation:
    """How one plan makes a value. data, indices: the values that it reads. holds: the names of the steps that it does.

    Several index tensors lie one behind the other in one buffer; there are none where the plan looks nothing up.
    """

    data: str
    indices: tuple[str, ...]
    plan: IndexPlan
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexView:
    """A value is what `plan` reads of `base`. holds: the names of the steps between.

    plan: over packed arrays, its elements of one byte, because their size plays no part here.
    """

    base: str
    plan: IndexPlan
    holds: tuple[str, ...] = ()


class IndexViews:
    """Index tensors of a graph as views of those that are made otherwise, as far as views can be followed backwards."""

    def __init__(self, graph: IndexGraph) -> None:
        self._types, self._found = graph.types, dict[str, IndexView]()

    def follow(self, step: Step, plan: IndexPlan) -> None:
        """Learn that a step is a view, with this plan over packed arrays."""
        source = self._of(step.inputs[0])
        with suppress(CompositionError):
            if source is not None:
                view = tidied(compose(replace(plan, element_bytes=1), source.plan))
                self._found[step.outputs[0]] = IndexView(source.base, view, (*source.holds, step.name))

    def looked_up(self, plan: IndexPlan, name: str) -> tuple[Derivation, CompositionError | None]:
        """The plan, which looks up a value, as one that looks up what the value is a view of; its data is left open. And what
        kept it from that. Unsigned indices that are all in range are not checked.
        """
        source, refusal, dtype = self._of(name), None, self._types[name].dtype
        assert source is not None, "indices are integers"
        if dtype.kind == "u" and plan.lookups and unchecked(plan, np.iinfo(dtype).max):
            plan = replace(plan, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
        if plan.in_reach is not None or plan.out_of_bounds is OutOfBounds.RAISE:  # else no index matters, or it cannot run
            try:
                return Derivation("", (source.base,), compose_indices(plan, source.plan), source.holds), None
            except CompositionError as error:
                refusal = error
        return Derivation("", (name,), plan, ()), refusal

    def _of(self, name: str) -> IndexView | None:
        """A value as a view, of itself if it is none; None where it is no index."""
        tensor = self._types[name]
        if name not in self._found and tensor.dtype.name.upper() in IndexType.__members__:
            own = ReshapeView(TensorType(tensor.shape, np.dtype(np.int8)), tensor.shape).plan()
            self._found[name] = IndexView(name, tidied(own))
        return self._found.get(name)


def unchecked(plan: IndexPlan, largest: int) -> bool:
    """Whether every lookup finds all indices from 0 to the largest one."""
    return all(largest < lookup.limit for lookup in plan.lookups)


def tidied(plan: IndexPlan) -> IndexPlan:
    """The canonical form at the plan's own element size; plans that read nothing stay as they are."""
    return plan if plan.in_reach is None else simplify(plan)
