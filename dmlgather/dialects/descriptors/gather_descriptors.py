"""Gathers of views: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dmlgather.dialects.descriptors.level_limits import fits, refuse, require, tensor_descs
from dmlgather.dialects.descriptors.slice_descriptors import slices
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
    """output[lead…, i…, trail…] = data[lead…, indices[i…], trail…] as GATHER; i… takes the place of `axis`."""
    behind = axis + indices.rank
    if not fits(GATHER, level, data, indices, output):
        lead = merge(data.dims[:axis], output.dims[:axis])
        index = merge(indices.dims, output.dims[axis:behind])
        trail = merge(data.dims[axis + 1 :], output.dims[behind:])
        data = replace(data, dims=(*lead[0], data.dims[axis], *trail[0]))
        indices = replace(indices, dims=index[0])
        output = replace(output, dims=(*lead[1], *index[1], *trail[1]))
        axis = len(lead[0])
    tensors = tensor_descs(GATHER, level, data, output, indices)
    missing = tensors["input_tensor"].rank - data.rank
    return (GatherOperatorDesc(**tensors, axis=axis + missing, index_dimensions=indices.rank),)


def gather_elements(data: View, indices: View, output: View, axis: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """output[c] = data[c with c[axis] replaced by indices[c]] as GATHER_ELEMENTS.

    Off the axis, indices may be smaller than data: data is then a view with the sizes of indices and its own strides. Where the
    view's dimensions do not merge into as few as the level takes, slices copy that part of data first.
    """
    require(GATHER_ELEMENTS, level)
    pairs = enumerate(zip(data.dims, indices.sizes, strict=True))
    part = replace(data, dims=tuple(dim if at == axis else Dim(size, dim.stride) for at, (dim, size) in pairs))
    if fits(GATHER_ELEMENTS, level, part):
        return _elements(part, indices, output, axis, level)
    merged = _merged_elements(part, indices, output, axis)
    if fits(GATHER_ELEMENTS, level, merged[0]) or part.sizes == data.sizes:
        return _elements(*merged, level)
    copy = View.packed(data.name, data.data_type, part.sizes)
    first = slices(data, copy, [Window.whole(size) for size in copy.sizes], level)
    return (*first, *gather_elements(copy, indices, output, axis, level))


def gather_nd(data: View, indices: View, output: View, batch: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """output[b…, i…, trail…] = data[b…, *indices[b…, i…, :], trail…] as GATHER_ND1, or as GATHER_ND before GATHER_ND1.

    batch: the number of b…. Index tuples without components look nothing up: the result is a slice of data, repeated by strides
    of 0, and indices are not used. Before GATHER_ND1, batches of one-component tuples are GATHER_ELEMENTS.
    """
    size = indices.dims[-1].size
    if size == 0:
        return _repeated(data, indices, output, batch, level)
    operator = GATHER_ND1 if level >= GATHER_ND1.introduced else GATHER_ND
    if operator is GATHER_ND and prod(data.sizes[:batch]) > 1:
        return _batched_elements(data, indices, output, batch, level)
    require(GATHER_ND, level)
    if not fits(operator, level, data, indices, output):
        data, indices, output, batch = _merged_nd(data, indices, output, batch)
    tensors = tensor_descs(operator, level, data, output, indices)
    # GATHER_ND has no BatchDimensionCount: dimensions of a batch of 1 do not count, like leading 1s.
    not_counted = batch if operator is GATHER_ND else 0
    counts = {"input_dimension_count": data.rank - not_counted, "indices_dimension_count": indices.rank - not_counted}
    if operator is GATHER_ND:
        return (GatherNDOperatorDesc(**tensors, **counts),)
    return (GatherND1OperatorDesc(**tensors, **counts, batch_dimension_count=batch),)


def _merged_elements(data: View, indices: View, output: View, axis: int) -> tuple[View, View, View, int]:
    """The views and axis of GATHER_ELEMENTS with neighbours merged before the axis and behind it."""
    views = (data, indices, output)
    lead = merge(*(view.dims[:axis] for view in views))
    trail = merge(*(view.dims[axis + 1 :] for view in views))
    ends = zip(views, lead, trail, strict=True)
    data, indices, output = (replace(view, dims=(*before, view.dims[axis], *after)) for view, before, after in ends)
    return data, indices, output, len(lead[0])


def _elements(data: View, indices: View, output: View, axis: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    tensors = tensor_descs(GATHER_ELEMENTS, level, data, output, indices)
    return (GatherElementsOperatorDesc(**tensors, axis=axis + tensors["input_tensor"].rank - data.rank),)


def _repeated(data: View, indices: View, output: View, batch: int, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """GATHER_ND with tuples without components: each copies all of data behind its batch."""
    repeats = tuple(Dim(size, 0) for size in indices.sizes[batch:-1])
    view = replace(data, dims=(*data.dims[:batch], *repeats, *data.dims[batch:]))
    return slices(view, output, [Window.whole(size) for size in view.sizes], level)


def _merged_nd(data: View, indices: View, output: View, batch: int) -> tuple[View, View, View, int]:
    """The views and batch of GATHER_ND with neighbours merged in the batch, behind it, and behind the indexed dimensions."""
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
    """GATHER_ND with batches and tuples of one component, as GATHER_ELEMENTS with indices repeated along trail."""
    size = indices.dims[-1].size
    data, indices, output, batch = _merged_nd(data, indices, output, batch)
    positions = indices.rank - 1 - batch
    if size > 1 or positions > 1:
        refuse(
            "EXP106",
            "batch_dims",
            expected=f"1 batch, or tuples of 1 component in 1 dimension, at level {level}, which has no BatchDimensionCount",
            got=f"{prod(data.sizes[:batch])} batches, {counted(size, 'component')}, {counted(positions, 'dimension')}",
            remedy="add the batch's coordinates to the tuples",
            newer=True,
        )
    # GATHER_ELEMENTS has one dimension of positions between batch and trail, even where there is only one position.
    one = (Dim(1, 0),) * (1 - positions)
    trail = data.dims[batch + 1 :]
    return gather_elements(
        data,
        replace(indices, dims=(*indices.dims[:-1], *one, *(Dim(dim.size, 0) for dim in trail))),
        replace(output, dims=(*output.dims[: batch + positions], *one, *output.dims[batch + positions :])),
        batch,
        level,
    )
