"""The operator descriptors of directml.h, field for field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from dmlgather.directml.fields import DerivedCount, Int32s, Structure, UInt32, UInt32s, fill_count, unstated
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DepthSpaceOrderField

if TYPE_CHECKING:
    from dmlgather.directml.operators.operator import Operator


class OperatorDesc(Structure):
    """What all operator descriptors share. You can construct an invalid descriptor; `validate` reports what is wrong with it."""

    operator: ClassVar[Operator]
    """The operator's declaration: name, number, tensors, support table, rules, lowering, documented pseudocode."""

    def tensor(self, field: str) -> BufferTensorDesc:
        """The tensor descriptor in `field` ("indices_tensor")."""
        found = getattr(self, field)
        assert isinstance(found, BufferTensorDesc)
        return found

    def document(self) -> dict[str, Any]:
        """The descriptor as `parse_descriptor` reads it: {"type": "DML_OPERATOR_GATHER", "desc": {...}}, ready for JSON.

        Fields that are None are left out, because DxDispatch reads no nulls.
        """
        return {"type": self.operator.type, "desc": self.model_dump(mode="json", exclude_none=True)}


class _WithIndices(OperatorDesc):
    """The three tensors that the structure of every gather starts with."""

    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    indices_tensor: BufferTensorDesc
    """Positions along the indexed dimensions. UINT32; from feature level 3_0 also INT32, INT64 and UINT64, where negative
    values of the signed types count from the end. A value out of range is clamped to the nearest valid position."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor."""


class GatherOperatorDesc(_WithIndices):
    """DML_GATHER_OPERATOR_DESC: output[lead…, i…, trail…] = input[lead…, indices[i…], trail…]. Source: [G].

    Fields take Python's names or DirectML's, and tensors may be written as dictionaries.

    >>> desc = dg.GatherOperatorDesc(
    ...     input_tensor={"data_type": "FLOAT32", "sizes": [5, 3]},
    ...     indices_tensor={"data_type": "INT64", "sizes": [1, 2]},
    ...     output_tensor={"data_type": "FLOAT32", "sizes": [2, 3]},
    ...     axis=0,
    ...     index_dimensions=1,
    ... )
    >>> dg.compile(desc)(np.arange(15, dtype=np.float32).reshape(5, 3), np.array([[4, -5]])).tolist()
    [[12.0, 13.0, 14.0], [0.0, 1.0, 2.0]]
    """

    axis: UInt32
    """Dimension of InputTensor that is indexed, 0 to DimensionCount - 1, counted with its leading 1s. Source: [G]."""

    index_dimensions: UInt32
    """How many trailing dimensions of IndicesTensor hold indices, 0 to DimensionCount; 0 for a single index, whose dimension
    is absent from the output. Source: [G]; its half-open range contradicts its own examples."""


class GatherElementsOperatorDesc(_WithIndices):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: output[c] = input[c with c[Axis] replaced by indices[c]]. Source: [GE]."""

    axis: UInt32
    """Dimension of InputTensor that is indexed, 0 to DimensionCount - 1. Source: [GE]."""


class GatherNDOperatorDesc(_WithIndices):
    """DML_GATHER_ND_OPERATOR_DESC: output[i…, trail…] = input[tuple indices[i…, :], trail…]. Source: [GN]."""

    input_dimension_count: UInt32
    """How many trailing dimensions of InputTensor are used, 1 to DimensionCount; the others are 1. Source: [GN]."""

    indices_dimension_count: UInt32
    """How many trailing dimensions of IndicesTensor are used, 1 to DimensionCount; the others are 1. The last one holds the
    index tuples. Source: [GN]."""


class GatherND1OperatorDesc(GatherNDOperatorDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: output[b…, i…, trail…] = input[b…, tuple indices[b…, i…, :], trail…]. Source: [GN1]."""

    batch_dimension_count: UInt32
    """How many of the first used dimensions of InputTensor and IndicesTensor are batch dimensions, which both tensors share;
    less than both counts. Source: [GN1]."""


class SliceOperatorDesc(OperatorDesc):
    """DML_SLICE_OPERATOR_DESC: output[c] = input[Offsets + Strides·c]. Source: [S]."""

    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor."""

    dimension_count: DerivedCount = Field(default_factory=unstated)
    """Number of entries of Offsets, Sizes and Strides: the tensors' DimensionCount. Default: the number of Offsets.
    Source: [S]."""

    offsets: UInt32s
    """First position read in each dimension, in elements. Source: [S]."""

    sizes: UInt32s
    """Elements copied in each dimension: OutputTensor's Sizes. Source: [S]."""

    strides: UInt32s
    """Elements between neighbouring reads in each dimension, at least 1. Source: [S]."""

    @model_validator(mode="after")
    def _fill_in(self) -> SliceOperatorDesc:
        fill_count(self, "dimension_count", self.offsets)
        return self


class Slice1OperatorDesc(OperatorDesc):
    """DML_SLICE1_OPERATOR_DESC: output[c] = input[start + stride·c]. start is the window's first element, or its last where the
    stride is negative. Source: [S1].
    """

    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor. In each dimension at most 1 + (window - 1) div |stride|."""

    dimension_count: DerivedCount = Field(default_factory=unstated)
    """Number of entries of the three arrays: the tensors' DimensionCount. Default: the number of InputWindowOffsets.
    Source: [S1]."""

    input_window_offsets: UInt32s
    """First position of the window in each dimension of InputTensor, in elements. Source: [S1]."""

    input_window_sizes: UInt32s
    """Elements of the window in each dimension, at least 1; the window ends inside InputTensor. Source: [S1]."""

    input_window_strides: Int32s
    """Elements between neighbouring reads in each dimension, not 0; negative walks the window backwards. INT in directml.h,
    though the page prints UINT. Source: [HDR], [S1]."""

    @model_validator(mode="after")
    def _fill_in(self) -> Slice1OperatorDesc:
        fill_count(self, "dimension_count", self.input_window_offsets)
        return self


class _WithBlocks(OperatorDesc):
    """The fields of the structures that move blocks between channels ("depth") and rows and columns ("space")."""

    input_tensor: BufferTensorDesc
    """The tensor to read from, {BatchCount, ChannelCount, Height, Width}."""

    output_tensor: BufferTensorDesc
    """The tensor to write, {BatchCount, ChannelCount, Height, Width}; same data type as InputTensor. The page of
    SPACE_TO_DEPTH1 prints the sizes of the inverse operator; its examples are right. Source: [DS1], [SD1]."""

    block_size: UInt32
    """Height and width of a block, in elements; at least 1. Source: [DS1], [SD1]."""

    order: DepthSpaceOrderField
    """In what order the tensor whose channels hold blocks has them. Source: [DSO]."""


class DepthToSpace1OperatorDesc(_WithBlocks):
    """DML_DEPTH_TO_SPACE1_OPERATOR_DESC: output[n, c, h·BlockSize + i, w·BlockSize + j] = input[n, (i, j, c), h, w], in
    COLUMN_ROW_DEPTH (c, i, j); what stands in parentheses is counted as one dimension. Source: [DS1], [DSO].
    """


class SpaceToDepth1OperatorDesc(_WithBlocks):
    """DML_SPACE_TO_DEPTH1_OPERATOR_DESC: output[n, (i, j, c), h, w] = input[n, c, h·BlockSize + i, w·BlockSize + j], in
    COLUMN_ROW_DEPTH (c, i, j); what stands in parentheses is counted as one dimension. Source: [SD1], [DSO].
    """
