"""GATHER and GATHER_ELEMENTS: their declarations, rules, plans, and Microsoft's pseudocode in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dmlgather.directml.descriptors import GatherElementsOperatorDesc, GatherOperatorDesc
from dmlgather.directml.operators.operator import Layouts, Operator, lookup, plan, position
from dmlgather.directml.rules.rule import DescriptorCase, Fault, Rule
from dmlgather.directml.rules.shared import AXIS, RANKS, SIZES, compare_sizes
from dmlgather.directml.shapes import gather_batch, gather_output, gathered
from dmlgather.directml.types import FeatureLevel
from dmlgather.plan import IndexPlan
from dmlgather.wording import braces, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _index_dimensions(case: DescriptorCase[GatherOperatorDesc]) -> Iterator[Fault]:
    count, rank = case.desc.index_dimensions, case.desc.indices_tensor.rank
    if count > rank:
        yield Fault(
            "IndexDimensions",
            expected=f"0 … {rank}",
            got=str(count),
            remedy=f"set it to the number of trailing dimensions of IndicesTensor {braces(case.desc.indices_tensor.sizes)} "
            "that hold indices",
        )


def _output_sizes(case: DescriptorCase[GatherOperatorDesc]) -> Iterator[Fault]:
    expected = gather_output(case.desc)
    assert expected is not None
    desc = case.desc
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    parts = (data[: desc.axis], indices[len(indices) - desc.index_dimensions :], data[desc.axis + 1 :])
    lead, index, trail = map(braces, parts)
    reason = (
        f"joined from {lead} of InputTensor before Axis {desc.axis}, {index} of IndicesTensor and {trail} of InputTensor "
        "behind Axis, with leading 1s as needed"
    )
    got = case.desc.output_tensor.sizes
    yield from compare_sizes("OutputTensor.Sizes", expected, got, reason, f"set OutputTensor.Sizes to {braces(expected)}")


def _output_fits(case: DescriptorCase[GatherOperatorDesc]) -> Iterator[Fault]:
    if gather_output(case.desc) is None:
        sizes, rank = gathered(case.desc), case.desc.input_tensor.rank
        yield Fault(
            "IndexDimensions",
            expected=f"at most {rank} dimensions after leading 1s are removed",
            got=f"{braces(sizes)} with IndexDimensions {case.desc.index_dimensions} and Axis {case.desc.axis}; "
            f"the stated output is {braces(case.desc.output_tensor.sizes)}",
            remedy=f"prepend 1s to all tensors until DimensionCount is {len(sizes)}, or lower IndexDimensions",
        )


def _without_indices(count: int) -> str:
    return ("all dimensions", "the dimensions before the last one", f"the dimensions before the last {count}")[min(count, 2)]


def _leading_index_dimensions(case: DescriptorCase[GatherOperatorDesc]) -> Iterator[Fault]:
    data, indices, axis = case.desc.input_tensor.sizes, case.desc.indices_tensor.sizes, case.desc.axis
    batch = gather_batch(case.desc)
    count = case.desc.index_dimensions
    remedy = f"set {_without_indices(count)} of IndicesTensor to 1, or raise IndexDimensions"
    if batch and batch[-1][0] >= axis:
        (start, first), sizes = batch[0], indices[batch[0][1] : batch[-1][1] + 1]
        yield Fault(
            f"IndicesTensor.Sizes[{first}]",
            expected=f"1, or at most {max(axis - start, 0)} batch dimensions, as InputTensor {braces(data)} has between its "
            f"leading 1s and Axis {axis}",
            got=f"{counted(len(sizes), 'dimension')} {braces(sizes)}, of {_without_indices(count)} of {braces(indices)}",
            remedy=remedy,
        )
        return
    for data_dim, index_dim in batch:
        if indices[index_dim] != data[data_dim]:
            yield Fault(
                f"IndicesTensor.Sizes[{index_dim}]",
                expected=f"1, or {data[data_dim]} as InputTensor.Sizes[{data_dim}]",
                got=str(indices[index_dim]),
                remedy=remedy,
            )


def _batch_reading(case: DescriptorCase[GatherOperatorDesc]) -> Iterator[Fault]:
    indices = case.desc.indices_tensor.sizes
    batch = gather_batch(case.desc)
    if batch:
        pairs = ", ".join(f"dimension {index_dim} with InputTensor's {data_dim}" for data_dim, index_dim in batch)
        yield Fault(
            f"IndicesTensor.Sizes[{batch[0][1]}]",
            expected="1",
            got=f"{indices[batch[0][1]]}, read as a batch ({pairs}); some devices use the first row for all",
            remedy="use GATHER_ND1 with BatchDimensionCount, or GATHER_ELEMENTS, which are documented",
        )


def _elements_sizes(case: DescriptorCase[GatherElementsOperatorDesc]) -> Iterator[Fault]:
    data, indices, axis = case.desc.input_tensor.sizes, case.desc.indices_tensor.sizes, case.desc.axis
    expected = (*data[:axis], indices[axis], *data[axis + 1 :])
    yield from compare_sizes(
        "IndicesTensor.Sizes",
        expected,
        indices,
        f"InputTensor's sizes except on Axis {axis}",
        f"set InputTensor.Sizes to {braces((*indices[:axis], data[axis], *indices[axis + 1 :]))} and keep its strides, "
        f"or set IndicesTensor.Sizes to {braces(expected)}",
    )


def _elements_output(case: DescriptorCase[GatherElementsOperatorDesc]) -> Iterator[Fault]:
    expected, got = case.desc.indices_tensor.sizes, case.desc.output_tensor.sizes
    remedy = f"set OutputTensor.Sizes to {braces(expected)}"
    yield from compare_sizes("OutputTensor.Sizes", expected, got, "IndicesTensor's sizes", remedy)


_IN_RANGE = (*SIZES, "DML206", "DML301")
_FIELDS = ("index_dimensions", "axis")

GATHER_RULES = (
    AXIS,
    Rule("DML301", _index_dimensions, needs=RANKS, alternatives=("index_dimensions",)),
    Rule("DML303", _output_fits, needs=_IN_RANGE, alternatives=_FIELDS),
    Rule("DML302", _output_sizes, needs=("DML303",), alternatives=_FIELDS),
    Rule("DML304", _leading_index_dimensions, needs=_IN_RANGE, alternatives=_FIELDS),
    Rule("DML305", _batch_reading, needs=("DML304",)),
)

GATHER_ELEMENTS_RULES = (
    AXIS,
    Rule("DML401", _elements_sizes, needs=(*SIZES, "DML206"), alternatives=("axis",)),
    Rule("DML402", _elements_output, needs=SIZES),
)


def lower_gather(desc: GatherOperatorDesc, layouts: Layouts) -> IndexPlan:
    """Return the plan of a GATHER: one lookup, which selects a position along Axis.

    The index changes only along index dimensions and batch dimensions of the output, so other index strides are 0.
    """
    data, indices = layouts["input_tensor"], layouts["indices_tensor"]
    rank, axis, count = len(data.sizes), desc.axis, desc.index_dimensions
    batch_strides = {data_dim: indices.strides[index_dim] for data_dim, index_dim in gather_batch(desc)}
    strides = [(data.strides[dim], batch_strides.get(dim, 0)) for dim in range(axis)]
    strides += [(0, indices.strides[dim]) for dim in range(rank - count, rank)]
    strides += [(data.strides[dim], 0) for dim in range(axis + 1, rank)]
    # Add or remove leading dimensions, which have size 1, until there are as many as in the output.
    strides = [(0, 0)] * (rank - len(strides)) + strides[max(len(strides) - rank, 0) :]
    in_strides, index_strides = zip(*strides, strict=True)
    return plan(desc, layouts, in_strides, lookups=[lookup(desc, layouts, axis, index_strides)])


def gather_reference(desc: GatherOperatorDesc, data: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Compute output[lead…, i…, trail…] = input[lead…, indices[i…], trail…] in NumPy. Source: [G] in `SOURCES`.

    The result has the shape OutputTensor.Sizes. In batch dimensions (`gather_batch`), each batch of the input has its own
    indices.
    """
    import numpy as np

    axis, count = desc.axis, desc.index_dimensions
    batch = _without_leading_ones(indices.shape[: indices.ndim - count])
    batch_start = data.ndim - len(_without_leading_ones(data.shape))
    unaligned = data.shape[:axis] + indices.shape[indices.ndim - count :] + data.shape[axis + 1 :]
    output = np.empty(unaligned, data.dtype)
    for c in np.ndindex(unaligned):
        lead, i, trail = c[:axis], c[axis : axis + count], c[axis + count :]
        leading = (0,) * (indices.ndim - count - len(batch)) + lead[batch_start : batch_start + len(batch)]
        output[c] = data[(*lead, position(indices[leading + i], data.shape[axis]), *trail)]
    return output.reshape(desc.output_tensor.sizes)


def lower_gather_elements(desc: GatherElementsOperatorDesc, layouts: Layouts) -> IndexPlan:
    """Return the plan of a GATHER_ELEMENTS: each output element has its own index, a position along Axis."""
    in_strides = list(layouts["input_tensor"].strides)
    in_strides[desc.axis] = 0
    return plan(desc, layouts, in_strides, lookups=[lookup(desc, layouts, desc.axis, layouts["indices_tensor"].strides)])


def gather_elements_reference(desc: GatherElementsOperatorDesc, data: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Compute output[c] = input[c with indices[c] in place of c[Axis]] in NumPy. Source: [GE] in `SOURCES`."""
    import numpy as np

    output = np.empty(indices.shape, data.dtype)
    for c in np.ndindex(indices.shape):
        output[c] = data[(*c[: desc.axis], position(indices[c], data.shape[desc.axis]), *c[desc.axis + 1 :])]
    return output


def _without_leading_ones(sizes: tuple[int, ...]) -> tuple[int, ...]:
    while sizes and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


GATHER = Operator(
    name="GATHER",
    value=67,
    desc=GatherOperatorDesc,
    introduced=FeatureLevel.LEVEL_1_0,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_RULES,
    output_sizes=gather_output,
    lower=lower_gather,
    lookup_axes=lambda desc: (desc.axis,),
    reference=gather_reference,
)

GATHER_ELEMENTS = Operator(
    name="GATHER_ELEMENTS",
    value=107,
    desc=GatherElementsOperatorDesc,
    introduced=FeatureLevel.LEVEL_2_1,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_ELEMENTS_RULES,
    output_sizes=lambda desc: desc.indices_tensor.sizes,
    lower=lower_gather_elements,
    lookup_axes=lambda desc: (desc.axis,),
    reference=gather_elements_reference,
)
