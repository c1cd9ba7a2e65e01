"""Builders of GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1 descriptors."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dmlgather.dialects.descriptors.level_limits import fits, refuse, require, tensor_descs
from dmlgather.dialects.descriptors.slice_descriptors import slices, whole_copy
from dmlgather.dialects.descriptors.tensor_views import Dim, View, merge
from dmlgather.dialects.windows import Window
from dmlgather.directml import (
    FeatureLevel,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    operator_named,
)
from dmlgather.wording import counted

GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1 = map(operator_named, ("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1"))


def gather(data: View, indices: View, output: View, axis: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return a GATHER of output[lead…, i…, trail…] = data[lead…, indices[i…], trail…]."""
    after = axis + indices.rank
    if not fits(GATHER, level, data, indices, output):
        lead = merge(data.dims[:axis], output.dims[:axis])
        index = merge(indices.dims, output.dims[axis:after])
        trail = merge(data.dims[axis + 1 :], output.dims[after:])
        data = replace(data, dims=(*lead[0], data.dims[axis], *trail[0]))
        indices = replace(indices, dims=index[0])
        output = replace(output, dims=(*lead[1], *index[1], *trail[1]))
        axis = len(lead[0])
    tensors = tensor_descs(GATHER, level, data, output, indices)
    missing = tensors["input_tensor"].rank - data.rank
    return (GatherOperatorDesc(**tensors, axis=axis + missing, index_dimensions=indices.rank),)


def gather_elements(data: View, indices: View, output: View, axis: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return descriptors of output[c] = data[c with c[axis] replaced by indices[c]].

    If `indices` are smaller than `data` along other axes, the descriptor describes only the first elements of `data`. If the
    level takes too few dimensions for this, slices copy these elements to a packed tensor first.
    """
    require(GATHER_ELEMENTS, level, "reshape data to one dimension, and Gather by the position of each element there")
    pairs = enumerate(zip(data.dims, indices.sizes, strict=True))
    part = replace(data, dims=tuple(dim if number == axis else Dim(size, dim.stride) for number, (dim, size) in pairs))
    if fits(GATHER_ELEMENTS, level, part):
        return _elements(part, indices, output, axis, level)
    merged = _merged_elements(part, indices, output, axis)
    if fits(GATHER_ELEMENTS, level, merged[0]) or part.sizes == data.sizes:
        return _elements(*merged, level)
    copy = View.packed(data.name, data.data_type, part.sizes)
    first = slices(data, copy, [Window.whole(size) for size in copy.sizes], level)
    return (*first, *gather_elements(copy, indices, output, axis, level))


def gather_nd(data: View, indices: View, output: View, batch: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return descriptors of output[b…, i…, trail…] = data[b…, *indices[b…, i…, :], trail…], a gather by index tuples.

    A level without GATHER_ND1 has no batches. There, a call with batches becomes a GATHER_ELEMENTS, and each tuple must have
    one component. For empty tuples, a slice repeats `data`.
    """
    size = indices.dims[-1].size
    if size == 0:
        repeats = tuple(Dim(count, 0) for count in indices.sizes[batch:-1])
        return whole_copy(replace(data, dims=(*data.dims[:batch], *repeats, *data.dims[batch:])), output, level)
    operator = GATHER_ND1 if level >= GATHER_ND1.introduced else GATHER_ND
    if operator is GATHER_ND and prod(data.sizes[:batch]) > 1:
        return _batched_elements(data, indices, output, batch, level)
    require(GATHER_ND, level, "reshape the indexed dimensions of data into one, and Gather by the position of each tuple there")
    if not fits(operator, level, data, indices, output):
        data, indices, output, batch = _merged_nd(data, indices, output, batch)
    tensors = tensor_descs(operator, level, data, output, indices)
    # GATHER_ND has no BatchDimensionCount. Its batch dimensions have size 1 here, so its counts leave them out.
    uncounted = batch if operator is GATHER_ND else 0
    counts = {"input_dimension_count": data.rank - uncounted, "indices_dimension_count": indices.rank - uncounted}
    if operator is GATHER_ND:
        return (GatherNDOperatorDesc(**tensors, **counts),)
    return (GatherND1OperatorDesc(**tensors, **counts, batch_dimension_count=batch),)


def _merged_elements(data: View, indices: View, output: View, axis: int) -> tuple[View, View, View, int]:
    views = (data, indices, output)
    lead = merge(*(view.dims[:axis] for view in views))
    trail = merge(*(view.dims[axis + 1 :] for view in views))
    ends = zip(views, lead, trail, strict=True)
    data, indices, output = (replace(view, dims=(*before, view.dims[axis], *after)) for view, before, after in ends)
    return data, indices, output, len(lead[0])


def _elements(data: View, indices: View, output: View, axis: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    tensors = tensor_descs(GATHER_ELEMENTS, level, data, output, indices)
    return (GatherElementsOperatorDesc(**tensors, axis=axis + tensors["input_tensor"].rank - data.rank),)


def _merged_nd(data: View, indices: View, output: View, batch: int) -> tuple[View, View, View, int]:
    size, tuples = indices.dims[-1].size, indices.rank - 1
    lead = merge(data.dims[:batch], indices.dims[:batch], output.dims[:batch])
    index = merge(indices.dims[batch:-1], output.dims[batch:tuples])
    trail = merge(data.dims[batch + size :], output.dims[tuples:])
    return (
        replace(data, dims=(*lead[0], *data.dims[batch : batch + size], *trail[0])),
        replace(indices, dims=(*lead[1], *index[0], indices.dims[-1])),
        replace(output, dims=(*lead[2], *index[1], *trail[1])),
        len(lead[0]),
    )


def _batched_elements(data: View, indices: View, output: View, batch: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Return a GATHER_ELEMENTS for a gather with batches. Each index tuple must have one component.

    GATHER_ELEMENTS needs an index for each output element. So strides of 0 repeat `indices` along the trailing dimensions.
    """
    size = indices.dims[-1].size
    data, indices, output, batch = _merged_nd(data, indices, output, batch)
    positions = indices.rank - 1 - batch
    if size > 1 or positions > 1:
        refuse(
            "EXP106",
            "batch_dims",
            expected=f"1 batch, because level {level} has no BatchDimensionCount; or tuples of 1 component in 1 dimension",
            got=f"{prod(data.sizes[:batch])} batches, {counted(size, 'component')}, {counted(positions, 'dimension')}",
            remedy="add the batch's coordinates to the tuples",
            newer=True,
        )
    # GATHER_ELEMENTS needs one dimension of indices behind the batch dimensions. If there is none, add one of size 1.
    unit_dims = (Dim(1, 0),) * (1 - positions)
    trail = data.dims[batch + 1 :]
    return gather_elements(
        data,
        replace(indices, dims=(*indices.dims[:-1], *unit_dims, *(Dim(dim.size, 0) for dim in trail))),
        replace(output, dims=(*output.dims[: batch + positions], *unit_dims, *output.dims[batch + positions :])),
        batch,
        level,
    )
