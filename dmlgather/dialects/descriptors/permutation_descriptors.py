"""Blocks of views between channels and rows and columns: DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1, or slices of everything."""

from __future__ import annotations

from dataclasses import replace

from dmlgather.dialects.descriptors.level_limits import require, tensor_descs
from dmlgather.dialects.descriptors.slice_descriptors import slices
from dmlgather.dialects.descriptors.tensor_views import Dim, View
from dmlgather.dialects.windows import Window
from dmlgather.directml import (
    DepthSpaceOrder,
    DepthToSpace1OperatorDesc,
    FeatureLevel,
    Operator,
    OperatorDesc,
    SpaceToDepth1OperatorDesc,
    operator_named,
)
from dmlgather.directml.support import row_at
from dmlgather.plan import Layout, blocks

DEPTH_TO_SPACE1, SPACE_TO_DEPTH1 = map(operator_named, ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1"))


def depth_to_space(data: View, output: View, block: int, order: DepthSpaceOrder, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Channels of data as blocks of output, as DEPTH_TO_SPACE1.

    Where its data type or a further dimension keep that from it, all of data is sliced, with the strides of a permutation.
    """
    require(DEPTH_TO_SPACE1, level)
    if _takes(DEPTH_TO_SPACE1, data, level):
        tensors = tensor_descs(DEPTH_TO_SPACE1, level, data, output)
        return (DepthToSpace1OperatorDesc(**tensors, block_size=block, order=order),)
    return _sliced_whole(*_in_blocks(data, output, block, order), level)


def space_to_depth(data: View, output: View, block: int, order: DepthSpaceOrder, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    """Blocks of data as channels of output, as SPACE_TO_DEPTH1; else as `depth_to_space` does."""
    require(SPACE_TO_DEPTH1, level)
    if _takes(SPACE_TO_DEPTH1, data, level):
        tensors = tensor_descs(SPACE_TO_DEPTH1, level, data, output)
        return (SpaceToDepth1OperatorDesc(**tensors, block_size=block, order=order),)
    depth, space = _in_blocks(output, data, block, order)
    return _sliced_whole(space, depth, level)


def _takes(operator: Operator, data: View, level: FeatureLevel) -> bool:
    row = row_at(operator.name, "InputTensor", level)
    return row is not None and data.data_type in row.data_types and data.rank in row.dimension_counts


def _in_blocks(depth: View, space: View, block: int, order: DepthSpaceOrder) -> tuple[View, View]:
    """Both with the dimensions of `blocks`."""
    last = order is DepthSpaceOrder.DEPTH_COLUMN_ROW
    first, second = blocks(_layout(depth), _layout(space), block, channels_last=last)
    return _with_layout(depth, first), _with_layout(space, second)


def _layout(view: View) -> Layout:
    return Layout(view.sizes, tuple(dim.stride for dim in view.dims), 0, view.span)


def _with_layout(view: View, layout: Layout) -> View:
    return replace(view, dims=tuple(map(Dim, layout.sizes, layout.strides)))


def _sliced_whole(data: View, output: View, level: FeatureLevel) -> tuple[OperatorDesc, ...]:
    return slices(data, output, [Window.whole(size) for size in data.sizes], level)
