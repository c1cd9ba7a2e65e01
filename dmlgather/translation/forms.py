"""The choice of ONNX's operator for a gather: Gather, GatherElements, GatherND, or a Gather from flattened data."""

from __future__ import annotations

import numpy as np

from dmlgather.plan import OutOfBounds
from dmlgather.translation.axes import AccessPattern, gather_flat, positions
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.onnx_operators import POSITIONS, OnnxProgram, UntranslatableError


def gather_by_axes(target: OnnxProgram, gathering: Gathering) -> str | None:
    """Add one of ONNX's gather operators and return the output's name, or None if no operator fits."""
    if gathering.windowed:
        return None if gathering.index_dims else _one_window(target, gathering)
    if len(gathering.plan.lookups) > 1:
        return _gather_nd(target, gathering.without_small_batch())
    if _is_gather_elements(gathering):
        return _gather_elements(target, gathering)
    gathering = gathering.without_small_batch()
    return _gather_nd(target, gathering) if gathering.batch_dims else _gather(target, gathering)


def _is_gather_elements(gathering: Gathering) -> bool:
    """Return True if indices and data advance together along all axes of the data except one."""
    batch, indexed = gathering.batch_dims, gathering.index_dims
    dims = [dim for dim in gathering.dim_of_axis if dim is not None]
    return bool(batch) and len(indexed) - len(batch) <= 1 and set(dims) == set(batch)


def _gather(target: OnnxProgram, gathering: Gathering) -> str:
    indices = gathering.converted([0], target.gather_rule)
    dims: list[int | None] = [*gathering.dim_of_axis]  # None is the axis that is looked up
    axis = dims.index(None)
    result = target.gather(gathering.data, indices.value, axis)
    result_dims = [dim for dim in (*dims[:axis], *gathering.index_dims, *dims[axis + 1 :]) if dim is not None]
    return gathering.finish(result, result_dims, _masks(gathering, indices.valid))


def _gather_elements(target: OnnxProgram, gathering: Gathering) -> str:
    """Add a GatherElements. Before it, transpose the data to the order of the output's dimensions."""
    converted = gathering.converted([0], target.gather_elements_rule)
    dims = gathering.lookup_dims(0)
    order = [gathering.dim_of_axis.index(dim if dim in gathering.batch_dims else None) for dim in dims]
    indices = converted.value
    if len(order) < len(gathering.dim_of_axis):  # the axis that is looked up has no dimension: the indices get one of size 1
        axis = gathering.dim_of_axis.index(None)
        order.insert(axis, axis)
        sizes = [gathering.sizes[dim] for dim in dims]
        indices = target.reshaped(indices, [*sizes[:axis], 1, *sizes[axis:]])
    data = target.transposed(gathering.data, order)
    result = target.gather_elements(data, indices, order.index(gathering.dim_of_axis.index(None)))
    result = target.reshaped(result, [gathering.sizes[dim] for dim in dims])
    return gathering.finish(result, dims, _masks(gathering, converted.valid))


def _gather_nd(target: OnnxProgram, gathering: Gathering) -> str:
    """Add a GatherND of transposed data: batch dimensions first, then the indexed axes, then the others."""
    tuples = gathering.index_tuples(target.gather_nd_rule)
    batch, indexed = gathering.batch_dims, gathering.index_dims
    dims = (*batch, *(dim for dim in indexed if dim not in batch))
    indices = target.transposed(tuples.value, [*(indexed.index(dim) for dim in dims), len(dims)])
    first = [gathering.dim_of_axis.index(dim) for dim in batch]
    first += [gathering.lookup_of_axis.index(number) for number in tuples.order]
    others = [axis for axis in range(len(gathering.dim_of_axis)) if axis not in first]
    data = target.transposed(gathering.data, [*first, *others])
    result = target.gather_nd(data, indices, len(batch))
    slice_dims = [dim for axis in others if (dim := gathering.dim_of_axis[axis]) is not None]
    return gathering.finish(result, [*dims, *slice_dims], tuples.masks)


def _masks(gathering: Gathering, valid: str | None) -> list[str]:
    return [] if valid is None else [gathering.with_all_dims(valid, gathering.index_dims)]


def _one_window(target: OnnxProgram, gathering: Gathering) -> str | None:
    """Add a Gather along each indexed axis. Each lookup must have only one index. Return None under RAISE."""
    plan = gathering.plan
    if plan.out_of_bounds is OutOfBounds.RAISE:  # each element of the window would be checked
        return None
    result, masks = gathering.data, list[str]()
    for axis, (dim, number) in enumerate(zip(gathering.dim_of_axis, gathering.lookup_of_axis, strict=True)):
        if number is None or (plan.out_of_bounds is not OutOfBounds.FILL and plan.lookups[number].limit == 1):
            continue
        start = gathering.converted([number], POSITIONS)
        places = target.reshaped(start.value, (1,))
        if dim is not None:
            dtype = target.type_of(places).dtype
            offsets = target.graph.constant(np.arange(gathering.sizes[dim], dtype=dtype))
            places = target.compute("add", dtype, places, offsets)
        result = target.gather(result, places, axis)
        if start.valid is not None:
            masks.append(gathering.with_all_dims(start.valid, ()))
    dims = [dim for dim in gathering.dim_of_axis if dim is not None]
    return gathering.finish(target.reshaped(result, [gathering.sizes[dim] for dim in dims]), dims, masks)


def gather_by_positions(target: OnnxProgram, gathering: Gathering, access: AccessPattern) -> str:
    """Compute positions in the flattened data, and add a Gather that reads them.

    Raises UntranslatableError under RAISE, and if there are too many positions.
    """
    plan, dtype = gathering.plan, np.dtype(np.int64)
    if plan.out_of_bounds is OutOfBounds.RAISE:
        raise UntranslatableError(
            "its lookups index no axes of the data, and positions in the flattened data do not tell which index is out of range"
        )
    places = target.graph.constant(positions(AccessPattern(access.sizes, access.strides, access.offset)))
    masks = []
    for number, lookup in enumerate(plan.lookups):
        indices, dims = gathering.converted([number], POSITIONS), gathering.lookup_dims(number)
        offsets = target.compute("multiply", dtype, indices.value, target.number(lookup.in_stride, dtype))
        places = target.compute("add", dtype, places, gathering.with_all_dims(offsets, dims))
        if indices.valid is not None:
            masks.append(gathering.with_all_dims(indices.valid, dims))
    result = target.graph.expanded("expand", gather_flat(target, gathering.data, places), gathering.sizes)
    return gathering.finish(result, range(len(gathering.sizes)), masks)
