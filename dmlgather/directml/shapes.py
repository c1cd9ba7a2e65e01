"""Output sizes, and which dimensions two tensors share as a batch: the arithmetic that rules and lowering share.

Preconditions: every tensor has the same DimensionCount (DC below); Axis and the stated dimension counts are in range.
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
    """`sizes` with leading 1s removed or prepended, so that there are `rank`; None where a size to remove is not 1."""
    surplus = len(sizes) - rank
    if surplus <= 0:
        return (1,) * -surplus + tuple(sizes)
    return tuple(sizes[surplus:]) if all(size == 1 for size in sizes[:surplus]) else None


def gathered(desc: GatherOperatorDesc) -> tuple[int, ...]:
    """GATHER's result before alignment: Input[0..Axis) ++ the last IndexDimensions of Indices ++ Input(Axis+1..)."""
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    return (*data[: desc.axis], *indices[len(indices) - desc.index_dimensions :], *data[desc.axis + 1 :])


def gather_output(desc: GatherOperatorDesc) -> tuple[int, ...] | None:
    """GATHER's output sizes."""
    return aligned(gathered(desc), desc.input_tensor.rank)


def gather_batch(desc: GatherOperatorDesc) -> tuple[tuple[int, int], ...]:
    """GATHER's batch dimensions, as pairs (InputTensor dimension, IndicesTensor dimension).

    They are the dimensions of IndicesTensor left of the last IndexDimensions, from the first that is not 1 on. The first of them
    is paired with InputTensor's first dimension that is not 1, and so on. In an invalid descriptor a paired dimension of
    InputTensor may be Axis or beyond, DC included.
    """
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    leading = indices[: len(indices) - desc.index_dimensions]
    first = _leading_ones(leading)
    start = _leading_ones(data)
    return tuple((start + step, first + step) for step in range(len(leading) - first))


def batch_count(desc: GatherNDOperatorDesc) -> int:
    """BatchDimensionCount, which GATHER_ND does not have and takes as 0."""
    return desc.batch_dimension_count if isinstance(desc, GatherND1OperatorDesc) else 0


def tuple_size(desc: GatherNDOperatorDesc) -> int:
    """The number of components of an index tuple."""
    return desc.indices_tensor.sizes[-1]


def first_indexed(desc: GatherNDOperatorDesc) -> int:
    """The InputTensor dimension that a tuple's first component indexes."""
    return desc.input_tensor.rank - desc.input_dimension_count + batch_count(desc)


def gathered_nd(desc: GatherNDOperatorDesc) -> tuple[int, ...]:
    """GATHER_ND(1)'s result before alignment: used Indices dimensions but the last ++ Input dimensions behind the indexed."""
    indices = desc.indices_tensor.sizes
    behind = desc.input_tensor.sizes[first_indexed(desc) + tuple_size(desc) :]
    return (*indices[len(indices) - desc.indices_dimension_count : -1], *behind)


def gather_nd_output(desc: GatherNDOperatorDesc) -> tuple[int, ...] | None:
    """GATHER_ND(1)'s output sizes: leading 1s, then the gathered sizes; None where these are more than DC."""
    sizes = gathered_nd(desc)
    return aligned(sizes, desc.input_tensor.rank) if len(sizes) <= desc.input_tensor.rank else None


def slice1_output(desc: Slice1OperatorDesc) -> tuple[int, ...]:
    """SLICE1's largest output sizes, MaxCopied: 1 + (window - 1) div |stride|."""
    return tuple(
        1 + (size - 1) // abs(stride) for size, stride in zip(desc.input_window_sizes, desc.input_window_strides, strict=True)
    )


def space_sizes(sizes: Sequence[int], block: int) -> tuple[int, ...]:
    """DEPTH_TO_SPACE1's output sizes: {N, C / BlockSize², H · BlockSize, W · BlockSize}; for C that is no multiple, those of an
    input that is padded to the next one.
    """
    batch, channels, height, width = sizes
    return batch, -(-channels // block**2), height * block, width * block


def depth_sizes(sizes: Sequence[int], block: int) -> tuple[int, ...]:
    """SPACE_TO_DEPTH1's output sizes: {N, C · BlockSize², H / BlockSize, W / BlockSize}; for H and W that are no multiples,
    those of an input that is padded to the next ones.
    """
    batch, channels, height, width = sizes
    return batch, channels * block**2, -(-height // block), -(-width // block)


def _leading_ones(sizes: Sequence[int]) -> int:
    return next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
