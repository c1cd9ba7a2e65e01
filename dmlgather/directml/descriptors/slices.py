"""The descriptors of SLICE and SLICE1, field for field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field, model_validator

from dmlgather.directml import building
from dmlgather.directml.descriptors.operator_desc import OperatorDesc
from dmlgather.directml.fields import DerivedCount, Int32s, UInt32s, fill_count, unstated
from dmlgather.directml.tensor import BufferTensorDesc


class SliceOperatorDesc(OperatorDesc):
    """DML_SLICE_OPERATOR_DESC: output[c] = input[Offsets + Strides·c]. Source: [S]."""

    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor."""

    dimension_count: DerivedCount = Field(default_factory=unstated)
    """Length of Offsets, Sizes and Strides, equal to the tensors' DimensionCount. Default: the length of Offsets.
    Source: [S]."""

    offsets: UInt32s
    """Position of the first element to read in each dimension. Source: [S]."""

    sizes: UInt32s
    """Number of elements to read in each dimension, equal to OutputTensor's Sizes. Source: [S]."""

    strides: UInt32s
    """Step from one element to the next in each dimension, at least 1. Source: [S]."""

    @model_validator(mode="after")
    def _fill_in(self) -> SliceOperatorDesc:
        fill_count(self, "dimension_count", self.offsets)
        return self

    @classmethod
    @building.suggesting
    def of(
        cls,
        data: Any,
        offsets: Sequence[int] | None = None,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        *,
        dimension_count: int | None = None,
        output: Any = None,
    ) -> Self:
        """Return the descriptor of output[c] = data[offsets + strides·c].

        Tensors are passed as arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc.

        `offsets`, `sizes`, `strides`: one entry for each dimension of data. Offsets are 0 and strides 1 by default. Sizes are
        those of the output; by default the slice extends to the end of data.

        >>> dg.SliceOperatorDesc.of(((10, 4), "float32"), offsets=(1, 0), strides=(3, 1)).sizes  # x[1::3]
        (3, 4)
        """
        entries = {"offsets": offsets, "sizes": sizes, "strides": strides}
        return building.slices(cls, data, **entries, dimension_count=dimension_count, output=output)


class Slice1OperatorDesc(OperatorDesc):
    """DML_SLICE1_OPERATOR_DESC: output[c] = input[start + InputWindowStrides·c].

    In each dimension, `start` is the window's first position, or its last if the stride is negative. Source: [S1].
    """

    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor. Its size in each dimension is at most
    1 + (InputWindowSizes - 1) div |InputWindowStrides|."""

    dimension_count: DerivedCount = Field(default_factory=unstated)
    """Length of the three arrays, equal to the tensors' DimensionCount. Default: the length of InputWindowOffsets.
    Source: [S1]."""

    input_window_offsets: UInt32s
    """Position of the window's first element in each dimension of InputTensor. Source: [S1]."""

    input_window_sizes: UInt32s
    """Number of elements of the window in each dimension, at least 1; the window lies inside InputTensor. Source: [S1]."""

    input_window_strides: Int32s
    """Step from one element to the next in each dimension, not 0; a negative step reads the window backwards. The type in
    directml.h is INT, though the page says UINT. Source: [HDR], [S1]."""

    @model_validator(mode="after")
    def _fill_in(self) -> Slice1OperatorDesc:
        fill_count(self, "dimension_count", self.input_window_offsets)
        return self

    @classmethod
    @building.suggesting
    def of(
        cls,
        data: Any,
        input_window_offsets: Sequence[int] | None = None,
        input_window_sizes: Sequence[int] | None = None,
        input_window_strides: Sequence[int] | None = None,
        *,
        dimension_count: int | None = None,
        output: Any = None,
    ) -> Self:
        """Return the descriptor that reads a window of data with strides, backwards if a stride is negative.

        Tensors are passed as arrays, BufferTensorDescs or pairs (sizes, type); see OperatorDesc.

        `input_window_offsets`, `input_window_sizes`, `input_window_strides`: one entry for each dimension of data. Offsets are
        0 and strides 1 by default; by default the window extends to the end of data. The output is as large as possible,
        unless `output` is smaller.

        >>> desc = dg.Slice1OperatorDesc.of(((10, 4), "float32"), input_window_strides=(-3, 1))  # x[::-3]
        >>> desc.input_window_sizes, desc.output_tensor.sizes
        ((10, 4), (4, 4))
        """
        entries = {"offsets": input_window_offsets, "sizes": input_window_sizes, "strides": input_window_strides}
        return building.windows(cls, data, **entries, dimension_count=dimension_count, output=output)
