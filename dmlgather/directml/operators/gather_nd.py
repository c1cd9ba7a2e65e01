"""GATHER_ND and GATHER_ND1: their declarations, rules, plans, and Microsoft's pseudocode in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dmlgather.directml.descriptors import GatherND1OperatorDesc, GatherNDOperatorDesc
from dmlgather.directml.operators.operator import Layouts, Operator, lookup, plan, position
from dmlgather.directml.rules.rule import DescriptorCase, Fault, Rule
from dmlgather.directml.rules.shared import RANKS, SIZES, compare_sizes
from dmlgather.directml.shapes import batch_count, first_indexed, gather_nd_output, gathered_nd, tuple_size
from dmlgather.directml.types import FeatureLevel
from dmlgather.plan import IndexPlan
from dmlgather.wording import braces

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _input_count(case: DescriptorCase[GatherNDOperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    yield from _count("InputDimensionCount", desc.input_dimension_count, "InputTensor", desc.input_tensor.sizes)


def _indices_count(case: DescriptorCase[GatherNDOperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    yield from _count("IndicesDimensionCount", desc.indices_dimension_count, "IndicesTensor", desc.indices_tensor.sizes)


def _count(field: str, count: int, tensor: str, sizes: tuple[int, ...]) -> Iterator[Fault]:
    if not 1 <= count <= len(sizes):
        yield Fault(
            field,
            expected=f"1 … {len(sizes)}",
            got=str(count),
            remedy=f"set it to the number of trailing dimensions of {tensor} {braces(sizes)} that are used",
        )


def _batch_range(case: DescriptorCase[GatherND1OperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    most = min(desc.input_dimension_count, desc.indices_dimension_count) - 1
    if desc.batch_dimension_count > most:
        yield Fault(
            "BatchDimensionCount",
            expected=f"0 … {most} (InputDimensionCount is {desc.input_dimension_count}, "
            f"IndicesDimensionCount {desc.indices_dimension_count})",
            got=str(desc.batch_dimension_count),
            remedy="leave at least one dimension of each tensor after the batch dimensions",
        )


def _tuple_range(case: DescriptorCase[GatherNDOperatorDesc]) -> Iterator[Fault]:
    desc, batch = case.desc, batch_count(case.desc)
    most = desc.input_dimension_count - batch
    if not 1 <= tuple_size(desc) <= most:
        yield Fault(
            f"IndicesTensor.Sizes[{desc.indices_tensor.rank - 1}]",
            expected=f"1 … {most}: InputDimensionCount {desc.input_dimension_count} less {batch} batch dimensions",
            got=str(tuple_size(desc)),
            remedy=f"index at most {most} dimensions with a tuple, or raise InputDimensionCount",
        )


def _batch_sizes(case: DescriptorCase[GatherND1OperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    for batch_dim in range(desc.batch_dimension_count):
        data_dim = len(data) - desc.input_dimension_count + batch_dim
        index_dim = len(indices) - desc.indices_dimension_count + batch_dim
        if data[data_dim] != indices[index_dim]:
            yield Fault(
                f"IndicesTensor.Sizes[{index_dim}]",
                expected=f"{data[data_dim]} as InputTensor.Sizes[{data_dim}]: both are batch dimension {batch_dim}",
                got=str(indices[index_dim]),
                remedy="give both the same size (Strides of 0 repeat a batch of size 1), or lower BatchDimensionCount",
            )


def _left_of_counts(case: DescriptorCase[GatherNDOperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    for name, field, sizes, count in (
        ("InputTensor", "InputDimensionCount", desc.input_tensor.sizes, desc.input_dimension_count),
        ("IndicesTensor", "IndicesDimensionCount", desc.indices_tensor.sizes, desc.indices_dimension_count),
    ):
        for axis, size in enumerate(sizes[: len(sizes) - count]):
            if size != 1:
                yield Fault(
                    f"{name}.Sizes[{axis}]",
                    expected=f"1: {field} is {count}, so only the last {count} of {len(sizes)} dimensions are used",
                    got=str(size),
                    remedy=f"set {field} to {len(sizes) - axis}, or the size to 1",
                )
                break


def _output_fits(case: DescriptorCase[GatherNDOperatorDesc]) -> Iterator[Fault]:
    if gather_nd_output(case.desc) is None:
        sizes, rank = gathered_nd(case.desc), case.desc.input_tensor.rank
        yield Fault(
            "OutputTensor.DimensionCount",
            expected=f"at most {rank} dimensions, as all tensors have {rank}",
            got=f"{len(sizes)}: {braces(sizes)}; the stated output is {braces(case.desc.output_tensor.sizes)}",
            remedy=f"prepend 1s to all tensors until DimensionCount is {len(sizes)}, or lower IndicesDimensionCount",
        )


def _output_sizes(case: DescriptorCase[GatherNDOperatorDesc]) -> Iterator[Fault]:
    expected = gather_nd_output(case.desc)
    assert expected is not None
    data, indices = case.desc.input_tensor.sizes, case.desc.indices_tensor.sizes
    used = indices[len(indices) - case.desc.indices_dimension_count : -1]
    trailing = data[first_indexed(case.desc) + tuple_size(case.desc) :]
    reason = f"joined from leading 1s, {braces(used)} of IndicesTensor and {braces(trailing)} of InputTensor"
    got = case.desc.output_tensor.sizes
    yield from compare_sizes("OutputTensor.Sizes", expected, got, reason, f"set OutputTensor.Sizes to {braces(expected)}")


_COUNTS = ("DML501", "DML502", "DML503")
_FIELDS = ("input_dimension_count", "indices_dimension_count")
_BATCH = "batch_dimension_count"


def _rules(batched: bool) -> tuple[Rule, ...]:
    fields = (*_FIELDS, _BATCH) if batched else _FIELDS
    counts = (
        Rule("DML501", _input_count, needs=RANKS, alternatives=fields[:1]),
        Rule("DML502", _indices_count, needs=RANKS, alternatives=fields[1:2]),
    )
    batch = (
        Rule("DML503", _batch_range, needs=("DML501", "DML502"), alternatives=(_BATCH,)),
        Rule("DML505", _batch_sizes, needs=(*SIZES, "DML503"), alternatives=(_BATCH,)),
    )
    sizes = (
        Rule("DML504", _tuple_range, needs=(*SIZES, *_COUNTS), alternatives=fields),
        Rule("DML506", _left_of_counts, needs=(*SIZES, "DML501", "DML502"), alternatives=_FIELDS),
        Rule("DML508", _output_fits, needs=("DML504",), alternatives=fields),
        Rule("DML507", _output_sizes, needs=("DML508",), alternatives=fields),
    )
    return (*counts, *batch, *sizes) if batched else (*counts, *sizes)


GATHER_ND_RULES = _rules(batched=False)
GATHER_ND1_RULES = _rules(batched=True)


def indexed_axes(desc: GatherNDOperatorDesc) -> tuple[int, ...]:
    """Return the dimension of InputTensor that each component of an index tuple indexes."""
    return tuple(range(first_indexed(desc), first_indexed(desc) + tuple_size(desc)))


def lower_gather_nd(desc: GatherNDOperatorDesc, layouts: Layouts) -> IndexPlan:
    """Return the plan of a GATHER_ND or GATHER_ND1: one lookup for each component of an index tuple.

    In batch dimensions, both the input and the indices advance with the output.
    """
    data, indices = layouts["input_tensor"], layouts["indices_tensor"]
    rank, axes = len(data.sizes), indexed_axes(desc)
    first_batch, first_index = rank - desc.input_dimension_count, rank - desc.indices_dimension_count
    strides = [(0, indices.strides[dim]) for dim in range(first_index, rank - 1)]
    for batch_dim in range(batch_count(desc)):
        strides[batch_dim] = (data.strides[first_batch + batch_dim], indices.strides[first_index + batch_dim])
    strides += [(data.strides[dim], 0) for dim in range(first_indexed(desc) + tuple_size(desc), rank)]
    strides = [(0, 0)] * (rank - len(strides)) + strides
    in_strides, index_strides = zip(*strides, strict=True)
    lookups = [lookup(desc, layouts, axis, index_strides, component * indices.strides[-1]) for component, axis in enumerate(axes)]
    return plan(desc, layouts, in_strides, lookups=lookups)


def gather_nd_reference(desc: GatherNDOperatorDesc, data: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Compute output[b…, i…, trail…] = input[b…, indices[b…, i…, 0], indices[b…, i…, 1], …, trail…] in NumPy.

    GATHER_ND has no batch dimensions b…. Sources: [GN] and [GN1] in `SOURCES`.
    """
    import numpy as np

    sizes: tuple[int, ...] = data.shape[data.ndim - desc.input_dimension_count :]
    tuples: tuple[int, ...] = indices.shape[indices.ndim - desc.indices_dimension_count : -1]
    components: int = indices.shape[-1]
    batch = desc.batch_dimension_count if isinstance(desc, GatherND1OperatorDesc) else 0
    used_data, used_indices = data.reshape(sizes), indices.reshape((*tuples, components))
    output = np.empty(tuples + sizes[batch + components :], data.dtype)
    for c in np.ndindex(tuples):
        positions = tuple(position(used_indices[(*c, k)], sizes[batch + k]) for k in range(components))
        output[c] = used_data[c[:batch] + positions]
    return output.reshape(desc.output_tensor.sizes)


GATHER_ND = Operator(
    name="GATHER_ND",
    value=108,
    desc=GatherNDOperatorDesc,
    introduced=FeatureLevel.LEVEL_2_1,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_ND_RULES,
    output_sizes=gather_nd_output,
    lower=lower_gather_nd,
    lookup_axes=indexed_axes,
    reference=gather_nd_reference,
)

GATHER_ND1 = Operator(
    name="GATHER_ND1",
    value=140,
    desc=GatherND1OperatorDesc,
    introduced=FeatureLevel.LEVEL_3_0,
    inputs=("input_tensor", "indices_tensor"),
    rules=GATHER_ND1_RULES,
    output_sizes=gather_nd_output,
    lower=lower_gather_nd,
    lookup_axes=indexed_axes,
    reference=gather_nd_reference,
)
