"""The descriptors of SLICE and SLICE1, with the fields of the structures in directml.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field, model_validator

from dmlgather.directml import building
from dmlgather.directml.descriptors.operator_desc import OperatorDesc
from dmlgather.directml.fields import DerivedCount, Int32s, UInt32s, fill_count, unstated
from dmlgather.directml.tensor import BufferTensorDesc

_FROM_THE_FRONT = "positions count from the front"


class _SliceDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    output_tensor: BufferTensorDesc
    """The tensor to write; same data type as InputTensor."""

    dimension_count: DerivedCount = Field(default_factory=unstated)
    """Length of the three arrays (offsets, sizes and strides), equal to DimensionCount of both tensors. Default: the length of
    the first array. Source: [S], [S1]."""


class SliceOperatorDesc(_SliceDesc):
    """DML_SLICE_OPERATOR_DESC: output[c] = input[Offsets + Strides·c]. Source: [S] in `dmlgather.directml.SOURCES`."""

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

        `data`, `output`: an array, a BufferTensorDesc or a pair (sizes, type); see OperatorDesc. `offsets`, `sizes`, `strides`:
        one entry for each dimension of `data`. Default: 0 for offsets, 1 for strides, and sizes up to the end of `data`. The
        output has the sizes `sizes`.

        >>> dg.SliceOperatorDesc.of(((10, 4), "float32"), offsets=(1, 0), strides=(3, 1)).sizes  # x[1::3]
        (3, 4)
        """
        source = building.tensor_of("data", data)
        starts = building.entries("offsets", offsets, source, default=0, reason=_FROM_THE_FRONT)
        steps = building.entries("strides", strides, source, reason="Slice1OperatorDesc walks backwards")
        if sizes is None:
            building.check_steps("strides", steps)
            # Positions 0, 3, 6, 9 of 10: ceil(10 / 3) = 4.
            rest = building.remaining("offsets", starts, source)
            counts = tuple(-(-size // step) for size, step in zip(rest, steps, strict=True))
        else:
            counts = building.entries("sizes", sizes, source)
        return building.padded_descriptor(
            cls,
            {"input_tensor": source},
            lambda padding: {
                "offsets": (0,) * padding + starts,
                "sizes": (1,) * padding + counts,
                "strides": (1,) * padding + steps,
            },
            rank=source.rank,
            output=output,
            dimension_count=dimension_count,
        )


class Slice1OperatorDesc(_SliceDesc):
    """DML_SLICE1_OPERATOR_DESC: output[c] = input[start + InputWindowStrides·c].

    In each dimension, `start` is the first position of the window, or the last one if the stride is negative. The size of the
    output is at most 1 + (InputWindowSizes - 1) div |InputWindowStrides|. Source: [S1] in `dmlgather.directml.SOURCES`.
    """

    input_window_offsets: UInt32s
    """Position of the window's first element in each dimension of InputTensor. Source: [S1]."""

    input_window_sizes: UInt32s
    """Number of elements of the window in each dimension, at least 1. The window must lie inside InputTensor. Source: [S1]."""

    input_window_strides: Int32s
    """Step from one element to the next in each dimension, not 0. A negative step reads the window backwards. Its type is INT
    in directml.h, but UINT on Microsoft's page. Source: [HDR], [S1]."""

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
        """Return the descriptor that reads a window of `data` with strides, backwards where a stride is negative.

        `data`, `output`: an array, a BufferTensorDesc or a pair (sizes, type); see OperatorDesc. `input_window_offsets`,
        `input_window_sizes`, `input_window_strides`: one entry for each dimension of `data`. Default: 0 for offsets, 1 for
        strides, and sizes up to the end of `data`. The output is as large as possible, unless `output` is smaller.

        >>> desc = dg.Slice1OperatorDesc.of(((10, 4), "float32"), input_window_strides=(-3, 1))  # x[::-3]
        >>> desc.input_window_sizes, desc.output_tensor.sizes
        ((10, 4), (4, 4))
        """
        source = building.tensor_of("data", data)
        starts = building.entries("input_window_offsets", input_window_offsets, source, default=0, reason=_FROM_THE_FRONT)
        steps = building.entries("input_window_strides", input_window_strides, source, limits=building.INT)
        building.check_steps("input_window_strides", steps)
        if input_window_sizes is None:
            counts = building.remaining("input_window_offsets", starts, source)
        else:
            counts = building.entries("input_window_sizes", input_window_sizes, source)
        return building.padded_descriptor(
            cls,
            {"input_tensor": source},
            lambda padding: {
                "input_window_offsets": (0,) * padding + starts,
                "input_window_sizes": (1,) * padding + counts,
                "input_window_strides": (1,) * padding + steps,
            },
            rank=source.rank,
            output=output,
            dimension_count=dimension_count,
            smaller=True,
        )
