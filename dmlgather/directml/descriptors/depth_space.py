"""The descriptors of DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1, with the fields of the structures in directml.h."""

from __future__ import annotations

from typing import Any, Self

from dmlgather.directml import building
from dmlgather.directml.descriptors.operator_desc import OperatorDesc
from dmlgather.directml.fields import UInt32
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DepthSpaceOrder, DepthSpaceOrderField


class _BlockOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    """The tensor to read from, {BatchCount, ChannelCount, Height, Width}."""

    output_tensor: BufferTensorDesc
    """The tensor to write, {BatchCount, ChannelCount, Height, Width}; same data type as InputTensor. Microsoft's page on
    SPACE_TO_DEPTH1 states the sizes of DEPTH_TO_SPACE1 by mistake, but its examples are right. Source: [DS1], [SD1].
    """

    block_size: UInt32
    """Height and width of a block, in elements; at least 1. Source: [DS1], [SD1]."""

    order: DepthSpaceOrderField
    """Order of the channels in the tensor with more channels. DEPTH_COLUMN_ROW is ONNX's DCR, COLUMN_ROW_DEPTH its CRD. Source:
    [DSO].
    """


class DepthToSpace1OperatorDesc(_BlockOperatorDesc):
    """DML_DEPTH_TO_SPACE1_OPERATOR_DESC: output[n, c, h·BlockSize + i, w·BlockSize + j] = input[n, (i, j, c), h, w].

    (i, j, c) is channel (i · BlockSize + j) · C + c, where C is the number of channels of the output. In
    COLUMN_ROW_DEPTH, it is (c, i, j): channel (c · BlockSize + i) · BlockSize + j.
    Sources: [DS1] and [DSO] in `dmlgather.directml.SOURCES`.
    """

    @classmethod
    @building.suggesting
    def of(
        cls,
        data: Any,
        block_size: int,
        order: DepthSpaceOrder | str | int = DepthSpaceOrder.DEPTH_COLUMN_ROW,
        *,
        output: Any = None,
    ) -> Self:
        """Return the descriptor for blocks of `block_size` · `block_size` elements.

        `data`: an array, a BufferTensorDesc or a pair (sizes, type), of shape [n, c, h, w]. Leading sizes of 1 may be left out.

        >>> dg.DepthToSpace1OperatorDesc.of(((1, 8, 2, 3), "float32"), block_size=2).output_tensor.sizes
        (1, 2, 4, 6)
        """
        return building.blocks(cls, data, block_size=block_size, order=order, output=output)


class SpaceToDepth1OperatorDesc(_BlockOperatorDesc):
    """DML_SPACE_TO_DEPTH1_OPERATOR_DESC: output[n, (i, j, c), h, w] = input[n, c, h·BlockSize + i, w·BlockSize + j].

    (i, j, c) is channel (i · BlockSize + j) · C + c, where C is the number of channels of the input. In
    COLUMN_ROW_DEPTH, it is (c, i, j): channel (c · BlockSize + i) · BlockSize + j.
    Sources: [SD1] and [DSO] in `dmlgather.directml.SOURCES`.
    """

    @classmethod
    @building.suggesting
    def of(
        cls,
        data: Any,
        block_size: int,
        order: DepthSpaceOrder | str | int = DepthSpaceOrder.DEPTH_COLUMN_ROW,
        *,
        output: Any = None,
    ) -> Self:
        """Return the descriptor for blocks of `block_size` · `block_size` elements.

        `data`: an array, a BufferTensorDesc or a pair (sizes, type), of shape [n, c, h, w]. Leading sizes of 1 may be left out.

        >>> dg.SpaceToDepth1OperatorDesc.of(((1, 2, 4, 6), "float32"), block_size=2).output_tensor.sizes
        (1, 8, 2, 3)
        """
        return building.blocks(cls, data, block_size=block_size, order=order, output=output)
