"""Gathers in the operators that ONNX and OpenVINO share: along an axis, one element per index, by tuples; else by positions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.translation.axes import Steps, by_positions, positions
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.targets import IndexRule, Target, UntranslatableError

InBatches = Callable[[str, str, int, int], str]

POSITIONS = IndexRule(None, wraps=False, types=("int64",))
"""For positions that are computed."""


class OperatorTarget(Target):
    """A target with an operator for each kind of gather."""

    @property
    @abstractmethod
    def elements_rule(self) -> IndexRule:
        """That of `elements`."""

    @property
    @abstractmethod
    def tuples_rule(self) -> IndexRule:
        """That of `tuples`."""

    @property
    def in_batches(self) -> InBatches | None:
        """`along_axis` of data and indices that share leading dimensions, as many as its last argument says; None without."""
        return None

    @abstractmethod
    def elements(self, data: str, indices: str, axis: int) -> str:
        """One element per index."""

    @abstractmethod
    def tuples(self, data: str, indices: str, batch: int) -> str:
        """Index tuples, in the last dimension of indices; batch: leading dimensions that data and indices share."""

    def gathered(self, gathering: Gathering) -> str | None:
        if gathering.windowed:
            return None if gathering.index_dims else _one_window(self, gathering)
        if len(gathering.plan.lookups) > 1:
            return _by_tuples(self, gathering.without_small_batch())
        if _one_per_index(gathering) and not (self.in_batches and _fills(self, gathering.plan)):
            return _by_elements(self, gathering)
        gathering = gathering.without_small_batch()
        if gathering.batch and not self.in_batches:
            return _by_tuples(self, gathering)
        return _by_axis(self, gathering)


def _fills(target: OperatorTarget, plan: IndexPlan) -> bool:
    """Whether `along_axis` fills by itself, and should."""
    return plan.out_of_bounds is OutOfBounds.FILL and target.axis_rule.keeps(plan.out_of_bounds, plan.fill)


def _one_per_index(gathering: Gathering) -> bool:
    """Whether each axis of the data is a batch dimension, but for the one that is looked up, whose place one dimension takes."""
    batch, moved = gathering.batch, gathering.index_dims
    others = [dim for dim in gathering.walked if dim is not None]
    return bool(batch) and len(moved) - len(batch) <= 1 and set(others) == set(batch)


def _by_axis(target: OperatorTarget, gathering: Gathering) -> str:
    """One lookup; behind the batch dimensions, the axes keep their places."""
    rule, batch = target.axis_rule, gathering.batch
    fitted = gathering.fitted([0], rule)
    moved = [dim for dim in gathering.index_dims if dim not in batch]
    dims: list[int | None] = [*batch, *(dim for dim in gathering.walked if dim not in batch)]  # None is the axis
    places = [*(gathering.walked.index(dim) for dim in batch)]
    places += [axis for axis in range(len(gathering.walked)) if axis not in places]
    data = target.transposed(gathering.data, places)
    axis = dims.index(None)
    indices = _batch_first(gathering, fitted.value)
    if batch:
        assert target.in_batches is not None, "else the batch is stated in tuples"
        result = target.in_batches(data, indices, axis, len(batch))
    else:
        result = target.along_axis(data, indices, axis)
    written = [dim for dim in (*dims[:axis], *moved, *dims[axis + 1 :]) if dim is not None]
    return gathering.finished(result, written, _masks(gathering, fitted.valid))


def _batch_first(gathering: Gathering, indices: str, *, components: bool = False) -> str:
    """The indices with the batch dimensions in front."""
    moved, batch = gathering.index_dims, gathering.batch
    order = [moved.index(dim) for dim in (*batch, *(dim for dim in moved if dim not in batch))]
    return gathering.target.transposed(indices, [*order, len(order)] if components else order)


def _by_elements(target: OperatorTarget, gathering: Gathering) -> str:
    """One lookup; the data's axes in the order of the output's dimensions."""
    fitted = gathering.fitted([0], target.elements_rule)
    moved = gathering.moved(0)
    order = [gathering.walked.index(dim if dim in gathering.batch else None) for dim in moved]
    indices, dims = fitted.value, list(moved)
    if len(order) < len(gathering.walked):  # one index for each of the batch: the axis stays, with one position
        axis = gathering.walked.index(None)
        order.insert(axis, axis)
        sizes = [gathering.sizes[dim] for dim in moved]
        indices = target.reshaped(indices, [*sizes[:axis], 1, *sizes[axis:]])
    data = target.transposed(gathering.data, order)
    result = target.elements(data, indices, order.index(gathering.walked.index(None)))
    result = target.reshaped(result, [gathering.sizes[dim] for dim in dims])
    return gathering.finished(result, dims, _masks(gathering, fitted.valid))


def _by_tuples(target: OperatorTarget, gathering: Gathering) -> str:
    """Batch dimensions first, then the axes that are looked up, in the order of the components, then the others."""
    tuples = gathering.tuples(target.tuples_rule)
    batch, moved = gathering.batch, gathering.index_dims
    first = [gathering.walked.index(dim) for dim in batch] + [gathering.looked_up.index(number) for number in tuples.order]
    others = [axis for axis in range(len(gathering.walked)) if axis not in first]
    data = target.transposed(gathering.data, [*first, *others])
    result = target.tuples(data, _batch_first(gathering, tuples.value, components=True), len(batch))
    behind = [dim for axis in others if (dim := gathering.walked[axis]) is not None]
    return gathering.finished(result, [*batch, *(dim for dim in moved if dim not in batch), *behind], tuples.valid)


def _masks(gathering: Gathering, valid: str | None) -> list[str]:
    return [] if valid is None else [gathering.spread(valid, gathering.index_dims)]


def _one_window(target: OperatorTarget, gathering: Gathering) -> str | None:
    """One window, behind one index per axis: along each of these, the positions from the index on."""
    plan = gathering.plan
    if plan.out_of_bounds is OutOfBounds.RAISE:
        return None
    result, valid = gathering.data, list[str]()
    for axis, (dim, number) in enumerate(zip(gathering.walked, gathering.looked_up, strict=True)):
        if number is None or (plan.out_of_bounds is not OutOfBounds.FILL and plan.lookups[number].limit == 1):
            continue
        fitted = gathering.fitted([number], POSITIONS)
        places = target.reshaped(fitted.value, (1,))
        if dim is not None:
            kind = target.type_of(places).dtype
            offsets = target.graph.constant(np.arange(gathering.sizes[dim], dtype=kind))
            places = target.computed("add", kind, places, offsets)
        result = target.along_axis(result, places, axis)
        if fitted.valid is not None:
            valid.append(gathering.spread(fitted.valid, ()))
    written = [dim for dim in gathering.walked if dim is not None]
    return gathering.finished(target.reshaped(result, [gathering.sizes[dim] for dim in written]), written, valid)


def flat(target: Target, gathering: Gathering, steps: Steps) -> str:
    """By positions in the flattened data, which are computed. steps: of the data, with its lookups."""
    plan, elements = gathering.plan, target.type_of(gathering.data)
    kind = target.position_type(int(np.prod(elements.shape, dtype=object)))
    rule = IndexRule(None, wraps=False, types=(kind.name, "int64"))
    if plan.out_of_bounds is OutOfBounds.RAISE and target.raises:
        raise UntranslatableError(
            "its lookups index no axes of the data, and positions in the flattened data do not tell which index is out of range"
        )
    total = target.graph.constant(positions(target, gathering.data, Steps(steps.sizes, steps.strides, steps.offset)))
    valid = []
    for number, lookup in enumerate(plan.lookups):
        fitted, dims = gathering.fitted([number], rule), gathering.moved(number)
        value = target.cast(fitted.value, kind)
        moved = target.computed("multiply", kind, value, target.number(lookup.in_stride, kind))
        total = target.computed("add", kind, total, gathering.spread(moved, dims))
        if fitted.valid is not None:
            valid.append(gathering.spread(fitted.valid, dims))
    result = target.graph.expanded("expand", by_positions(target, gathering.data, total), gathering.sizes)
    return gathering.finished(result, range(len(gathering.sizes)), valid)
