"""Derivations: how one plan makes a value of others that exist, and how an index follows from another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_arithmetic import arithmetic, whole_range
from dmlgather.dialects.index_graph import Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import TensorType, index_type
from dmlgather.dialects.views import ExpandView, ReshapeView
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds, simplify
from dmlgather.plan.compose import compose, compose_indices
from dmlgather.plan.index_arguments import look_up_arguments
from dmlgather.plan.index_function import IndexFunction
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
class IndexDerivation:
    """Every element of a value is `function` of the element of `base` that `view` reads. holds: the names of the steps between.

    view: over packed arrays, its elements of one byte, because their size plays no part here.
    """

    base: str
    view: IndexPlan
    function: IndexFunction
    holds: tuple[str, ...] = ()


class IndexDerivations:
    """The derivations of the integers and bools of a graph, as far as views and arithmetic can be followed backwards."""

    def __init__(self, graph: IndexGraph, constants: Mapping[str, NDArray[Any]]) -> None:
        """constants: the values that are known; more may come to be known later."""
        self._types, self._constants = graph.types, constants
        self._followed: dict[str, IndexDerivation] = {}
        self._viewed: dict[str, IndexDerivation] = {}

    def follow_view(self, step: Step, plan: IndexPlan) -> None:
        """Learn that a step is a view, with this plan over packed arrays."""
        for known, source in ((self._followed, self._of(step.inputs[0])), (self._viewed, self._viewed_of(step.inputs[0]))):
            view = None if source is None else _composed(plan, source.view)
            if source is not None and view is not None:
                known[step.outputs[0]] = replace(source, view=view, holds=(*source.holds, step.name))

    def follow_arithmetic(self, step: Step, work: Elementwise) -> None:
        """Learn what a step makes of one index and constants."""
        output = self._types[step.outputs[0]]
        moving = [name for name in dict.fromkeys(step.inputs) if name not in self._constants]
        found = {name: self._broadcast(name, output) for name in moving}
        first = found[moving[0]] if moving else None
        if first is None or any(each is None or (each.base, each.view) != (first.base, first.view) for each in found.values()):
            return
        values = whole_range(self._types[first.base].dtype)
        operands = []
        for name in step.inputs:
            constant, followed = _single(self._constants.get(name)), found.get(name)
            if followed is None and constant is None:
                return
            operands.append(followed.function if followed else IndexFunction.constant(constant or 0, *values))
        function = arithmetic(work, operands, [self._types[name].dtype for name in step.inputs])
        if function is not None:
            holds = [name for each in found.values() if each is not None for name in each.holds]
            self._followed[step.outputs[0]] = replace(first, function=function, holds=(*dict.fromkeys(holds), step.name))

    def looked_up(self, plan: IndexPlan, name: str) -> tuple[Derivation, CompositionError | None]:
        """The plan, which looks up a value, as one that looks up what the value is derived from; its data is left open. And what
        kept it from looking up what arithmetic starts from.
        """
        refusal = None
        reads = plan.in_reach is not None or plan.out_of_bounds is OutOfBounds.RAISE  # else no index matters, or it cannot run
        for source in (self._of(name), self._viewed_of(name)) if reads else ():
            assert source is not None, "indices are integers"
            try:
                found = compose_indices(plan, source.view)
                found = look_up_arguments(found, source.function, index_type(self._types[source.base].dtype))
            except CompositionError as error:
                refusal = refusal or error
            else:
                return Derivation("", (source.base,), found, source.holds), refusal
        return Derivation("", (name,), plan, ()), refusal

    def _of(self, name: str) -> IndexDerivation | None:
        """The derivation of a value, of itself if it cannot be followed; None where it is no index."""
        return self._followed.get(name) or self._viewed_of(name)

    def _viewed_of(self, name: str) -> IndexDerivation | None:
        """As `_of`, without arithmetic."""
        tensor = self._types[name]
        if name not in self._viewed and tensor.dtype.name.upper() in IndexType.__members__:
            own = ReshapeView(TensorType(tensor.shape, np.dtype(np.int8)), tensor.shape).plan()
            self._viewed[name] = IndexDerivation(name, tidied(own), IndexFunction.identity(*whole_range(tensor.dtype)))
        return self._viewed.get(name)

    def _broadcast(self, name: str, output: TensorType) -> IndexDerivation | None:
        """The derivation of a value that is broadcast to a shape."""
        source = self._of(name)
        if source is None:
            return None
        expansion = ExpandView(self._types[name], output.shape)
        view = _composed(expansion.plan(), source.view)
        return None if view is None else replace(source, view=view)


def _composed(outer: IndexPlan, view: IndexPlan) -> IndexPlan | None:
    try:
        plan = compose(replace(outer, element_bytes=1), view)
    except CompositionError:
        return None
    return tidied(plan)


def tidied(plan: IndexPlan) -> IndexPlan:
    """The canonical form at the plan's own element size; plans that read nothing stay as they are."""
    return plan if plan.in_reach is None else simplify(plan)


def _single(array: NDArray[Any] | None) -> int | None:
    """The value of all elements of a known array of integers or bools; None where they differ."""
    if array is None or not array.size or array.dtype.kind not in "biu":
        return None
    value = array.flat[0]
    return int(value) if (array == value).all() else None
