"""Output sizes and batch dimensions of the operators.

All tensors of a descriptor must have the same DimensionCount. Axis and the counts of dimensions must be in range.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmlgather.directml.descriptors import (
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    Slice1OperatorDesc,
)


def aligned(sizes: Sequence[int], rank: int) -> tuple[int, ...] | None:
    """Add or remove leading 1s of `sizes`, so that there are `rank` sizes. Return None if this is impossible."""
    surplus = len(sizes) - rank
    if surplus <= 0:
        return (1,) * -surplus + tuple(sizes)
    return tuple(sizes[surplus:]) if all(size == 1 for size in sizes[:surplus]) else None


def gathered(desc: GatherOperatorDesc) -> tuple[int, ...]:
    """Return the sizes of GATHER's result without leading 1s: Input[:Axis] + Indices[-IndexDimensions:] + Input[Axis+1:]."""
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    return (*data[: desc.axis], *indices[len(indices) - desc.index_dimensions :], *data[desc.axis + 1 :])


def gather_output(desc: GatherOperatorDesc) -> tuple[int, ...] | None:
    """Return GATHER's output sizes, with leading 1s, or None if there are more sizes than DimensionCount."""
    return aligned(gathered(desc), desc.input_tensor.rank)


def gather_batch(desc: GatherOperatorDesc) -> tuple[tuple[int, int], ...]:
    """Return GATHER's batch dimensions, as pairs (dimension of InputTensor, dimension of IndicesTensor).

    Every dimension of IndicesTensor is a batch dimension, except leading 1s and the last IndexDimensions dimensions. The first
    batch dimension belongs to the first dimension of InputTensor after its leading 1s, the second one to the next, and so on.
    Example: InputTensor {1,5,7,9}, IndicesTensor {1,1,5,3}, IndexDimensions 1: the result is ((1, 2),). In an invalid
    descriptor, the dimension of InputTensor may not exist.
    """
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    leading = indices[: len(indices) - desc.index_dimensions]
    first = _leading_ones(leading)
    start = _leading_ones(data)
    return tuple((start + step, first + step) for step in range(len(leading) - first))


def batch_count(desc: GatherNDOperatorDesc) -> int:
    """Return BatchDimensionCount, or 0 for GATHER_ND."""
    return desc.batch_dimension_count if isinstance(desc, GatherND1OperatorDesc) else 0


def tuple_size(desc: GatherNDOperatorDesc) -> int:
    """Return the number of components of an index tuple."""
    return desc.indices_tensor.sizes[-1]


def first_indexed(desc: GatherNDOperatorDesc) -> int:
    """Return the dimension of InputTensor that the first component of an index tuple indexes."""
    return desc.input_tensor.rank - desc.input_dimension_count + batch_count(desc)


def gathered_nd(desc: GatherNDOperatorDesc) -> tuple[int, ...]:
    """Return the sizes of the result of GATHER_ND or GATHER_ND1, without leading 1s.

    They are the last IndicesDimensionCount sizes of IndicesTensor without the very last one, then the sizes of InputTensor
    after the indexed dimensions.
    """
    indices = desc.indices_tensor.sizes
    trailing = desc.input_tensor.sizes[first_indexed(desc) + tuple_size(desc) :]
    return (*indices[len(indices) - desc.indices_dimension_count : -1], *trailing)


def gather_nd_output(desc: GatherNDOperatorDesc) -> tuple[int, ...] | None:
    """Return GATHER_ND's or GATHER_ND1's output sizes, with leading 1s, or None if there are more sizes than DimensionCount."""
    sizes = gathered_nd(desc)
    return aligned(sizes, desc.input_tensor.rank) if len(sizes) <= desc.input_tensor.rank else None


def slice1_output(desc: Slice1OperatorDesc) -> tuple[int, ...]:
    """Return the largest allowed output sizes of SLICE1: 1 + (InputWindowSizes - 1) div |InputWindowStrides|."""
    return tuple(
        1 + (size - 1) // abs(stride) for size, stride in zip(desc.input_window_sizes, desc.input_window_strides, strict=True)
    )


def space_sizes(sizes: Sequence[int], block: int) -> tuple[int, ...]:
    """Return DEPTH_TO_SPACE1's output sizes: {N, C / BlockSize², H · BlockSize, W · BlockSize}. The division rounds up."""
    batch, channels, height, width = sizes
    return batch, -(-channels // block**2), height * block, width * block


def depth_sizes(sizes: Sequence[int], block: int) -> tuple[int, ...]:
    """Return SPACE_TO_DEPTH1's output sizes: {N, C · BlockSize², H / BlockSize, W / BlockSize}. Divisions round up."""
    batch, channels, height, width = sizes
    return batch, channels * block**2, -(-height // block), -(-width // block)


def _leading_ones(sizes: Sequence[int]) -> int:
    return next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
