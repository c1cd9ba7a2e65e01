"""Gathers in ONNX's operators: along an axis, one element per index, by tuples; else by positions."""

from __future__ import annotations

import numpy as np

from dmlgather.plan import OutOfBounds
from dmlgather.translation.axes import Steps, by_positions, positions
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.onnx_operators import POSITIONS, OnnxProgram, UntranslatableError


def gathered(target: OnnxProgram, gathering: Gathering) -> str | None:
    """Return the result of lookups, of shape `gathering.sizes`; None where only `flat` can say it."""
    if gathering.windowed:
        return None if gathering.index_dims else _one_window(target, gathering)
    if len(gathering.plan.lookups) > 1:
        return _by_tuples(target, gathering.without_small_batch())
    if _one_per_index(gathering):
        return _by_elements(target, gathering)
    gathering = gathering.without_small_batch()
    return _by_tuples(target, gathering) if gathering.batch else _by_axis(target, gathering)


def _one_per_index(gathering: Gathering) -> bool:
    """Whether each axis of the data is a batch dimension, but for the one that is looked up, whose place one dimension takes."""
    batch, moved = gathering.batch, gathering.index_dims
    others = [dim for dim in gathering.walked if dim is not None]
    return bool(batch) and len(moved) - len(batch) <= 1 and set(others) == set(batch)


def _by_axis(target: OnnxProgram, gathering: Gathering) -> str:
    """One lookup, and no batch dimensions: the axes keep their places."""
    fitted = gathering.fitted([0], target.axis_rule)
    dims: list[int | None] = [*gathering.walked]  # None is the axis
    axis = dims.index(None)
    result = target.along_axis(gathering.data, fitted.value, axis)
    written = [dim for dim in (*dims[:axis], *gathering.index_dims, *dims[axis + 1 :]) if dim is not None]
    return gathering.finished(result, written, _masks(gathering, fitted.valid))


def _batch_first(gathering: Gathering, indices: str, *, components: bool = False) -> str:
    """The indices with the batch dimensions in front."""
    moved, batch = gathering.index_dims, gathering.batch
    order = [moved.index(dim) for dim in (*batch, *(dim for dim in moved if dim not in batch))]
    return gathering.target.transposed(indices, [*order, len(order)] if components else order)


def _by_elements(target: OnnxProgram, gathering: Gathering) -> str:
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


def _by_tuples(target: OnnxProgram, gathering: Gathering) -> str:
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


def _one_window(target: OnnxProgram, gathering: Gathering) -> str | None:
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


def flat(target: OnnxProgram, gathering: Gathering, steps: Steps) -> str:
    """By positions in the flattened data, which are computed. steps: of the data, with its lookups."""
    plan, kind = gathering.plan, np.dtype(np.int64)
    if plan.out_of_bounds is OutOfBounds.RAISE:
        raise UntranslatableError(
            "its lookups index no axes of the data, and positions in the flattened data do not tell which index is out of range"
        )
    total = target.graph.constant(positions(Steps(steps.sizes, steps.strides, steps.offset)))
    valid = []
    for number, lookup in enumerate(plan.lookups):
        fitted, dims = gathering.fitted([number], POSITIONS), gathering.moved(number)
        moved = target.computed("multiply", kind, fitted.value, target.number(lookup.in_stride, kind))
        total = target.computed("add", kind, total, gathering.spread(moved, dims))
        if fitted.valid is not None:
            valid.append(gathering.spread(fitted.valid, dims))
    result = target.graph.expanded("expand", by_positions(target, gathering.data, total), gathering.sizes)
    return gathering.finished(result, range(len(gathering.sizes)), valid)
