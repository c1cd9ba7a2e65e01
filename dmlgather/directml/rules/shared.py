"""The rules DML2xx, which apply to every operator, and functions that rules of several operators use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmlgather.directml.descriptors import (
    GatherElementsOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
)
from dmlgather.directml.rules.rule import DescriptorCase, Fault, Rule, TensorCase
from dmlgather.directml.support import Row, row_at, rows_of
from dmlgather.directml.types import DataType, FeatureLevel
from dmlgather.wording import alternatives, braces, counted


def _introduced(case: DescriptorCase[OperatorDesc]) -> Iterator[Fault]:
    operator = case.desc.operator
    if case.level < operator.introduced:
        accepting = _lowest_level(case) or operator.introduced
        older = operator.name.removesuffix("1")  # SLICE for SLICE1
        has_older = older != operator.name and any(row.level <= case.level for row in rows_of(older))
        yield Fault(
            "",
            expected=f"feature level {operator.introduced} or newer for {operator.name}",
            got=str(case.level),
            remedy=f"use feature level {accepting} or newer" + (f", or {older} if it is sufficient" if has_older else ""),
            level=accepting,
        )


def _lowest_level(case: DescriptorCase[OperatorDesc]) -> FeatureLevel | None:
    """Return the lowest level that takes the data types and dimension counts of all tensors, or None."""
    for level in sorted({row.level for row in case.desc.operator.table}):
        rows = [(row_at(tensor.operator, tensor.name, level), tensor.tensor) for tensor in case.tensors]
        if all(row and desc.data_type in row.data_types and desc.rank in row.dimension_counts for row, desc in rows):
            return level
    return None


def _data_type(case: TensorCase) -> Iterator[Fault]:
    data_type = case.tensor.data_type
    row = case.row
    if row is None or data_type in row.data_types:
        return
    accepting = next((other for other in case.table if other.tensor == case.name and data_type in other.data_types), None)
    newer = f", or feature level {accepting.level} or newer" if accepting else f"; no feature level supports {data_type.name}"
    yield Fault(
        f"{case.name}.DataType",
        expected=f"{alternatives(row.data_types)} ({case.operator} at level {case.level})",
        got=data_type.name,
        remedy=f"use {_replacement(case, row)}{newer}",
        level=accepting.level if accepting else None,
        source=row.source,
    )


_EXACT: dict[DataType, tuple[int, int]] = {
    DataType.FLOAT16: (-(2**11), 2**11),
    DataType.FLOAT32: (-(2**24), 2**24),
    DataType.FLOAT64: (-(2**53), 2**53),
    **{DataType[f"INT{bits}"]: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{DataType[f"UINT{bits}"]: (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
"""Range of the integers that a data type represents exactly."""


def _replacement(case: TensorCase, row: Row) -> str:
    """Return a text that names the data types to use instead of a tensor's data type.

    For data of an integer type, these types can represent all its values. If the level has no such type, the text names the
    best one, and the lowest newer level with a better type.
    """
    data_type = case.tensor.data_type
    if data_type not in _EXACT or case.name == "IndicesTensor":
        return alternatives(row.data_types)
    if "FLOAT" in data_type.name:
        return alternatives([other for other in row.data_types if "FLOAT" in other.name] or row.data_types)
    least, greatest = _EXACT[data_type]

    def count(other: DataType) -> int:
        low, high = _EXACT[other]
        return min(high, greatest) - max(low, least)

    exact = [other for other in row.data_types if count(other) == count(data_type)]
    if exact:
        return alternatives(exact)
    best = max(row.data_types, key=count)
    limit = f"for integers up to {_EXACT[best][1]}" if "FLOAT" in best.name else "if the values fit"
    for other in case.table:
        wider = max(other.data_types, key=count)
        if other.tensor == case.name and other.level > case.level and count(best) < count(wider) < count(data_type):
            return f"{best} {limit}, or {wider} from feature level {other.level} on if the values fit"
    return f"{best} {limit}"


def _dimension_count(case: TensorCase) -> Iterator[Fault]:
    rank = case.tensor.rank
    row = case.row
    if row is None or rank in row.dimension_counts:
        return
    accepting = next((other for other in case.table if other.tensor == case.name and rank in other.dimension_counts), None)
    legal = alternatives(row.dimension_counts)
    missing = row.dimension_counts[0] - rank
    sizes = "sizes of 1" if case.tensor.strides is None else "sizes of 1 and strides of 0"
    padding = f"prepend {sizes} in all tensors ({braces((1,) * missing + case.tensor.sizes)} here)" if missing > 0 else ""
    # Axis and the arrays of a slice refer to InputTensor's dimensions, so prepended sizes change them.
    padding += _moved_fields(case.desc, row.dimension_counts[0] - case.desc.tensor("input_tensor").rank) if padding else ""
    newer = f"use feature level {accepting.level} or newer" if accepting else ""
    remedies = [remedy for remedy in (padding, newer) if remedy]
    remedies = remedies or [f"reshape the tensors to {legal} dimensions, because every feature level requires this"]
    yield Fault(
        f"{case.name}.DimensionCount",
        expected=f"{legal} ({case.operator} at level {case.level})",
        got=str(rank),
        remedy=", or ".join(remedies),
        level=accepting.level if accepting else None,
        source=row.source,
    )


def _same_count(case: DescriptorCase[OperatorDesc]) -> Iterator[Fault]:
    ranks = [tensor.tensor.rank for tensor in case.tensors]
    most = max(ranks)
    for tensor, rank in zip(case.tensors, ranks, strict=True):
        if rank < most:
            padding = f"prepend sizes of 1: {braces((1,) * (most - rank) + tensor.tensor.sizes)}"
            yield Fault(
                f"{tensor.name}.DimensionCount",
                expected=f"{most}, as in {case.tensors[ranks.index(most)].name}",
                got=str(rank),
                remedy=padding + (_moved_fields(case.desc, most - rank) if tensor.name == "InputTensor" else ""),
            )


def _moved_fields(desc: OperatorDesc, count: int) -> str:
    """Return advice for other fields if InputTensor gets `count` more leading dimensions: ", and raise Axis by 2"."""
    if count <= 0:
        return ""
    if isinstance(desc, GatherOperatorDesc | GatherElementsOperatorDesc):
        return f", and raise Axis by {count}"
    if isinstance(desc, SliceOperatorDesc):
        return f", and prepend {counted(count, 'entry')} to the slice's arrays: 0 in Offsets, 1 in Sizes and Strides"
    if isinstance(desc, Slice1OperatorDesc):
        return (
            f", and prepend {counted(count, 'entry')} to the slice's arrays: 0 in InputWindowOffsets, "
            "1 in InputWindowSizes and InputWindowStrides"
        )
    return ""


def _same_data_type(case: DescriptorCase[OperatorDesc]) -> Iterator[Fault]:
    operator = case.desc.operator
    source = case.desc.tensor(operator.inputs[0]).data_type
    target = case.desc.tensor(operator.output).data_type
    if source is not target:
        yield Fault(
            "OutputTensor.DataType",
            expected=f"{source.name}, as in InputTensor",
            got=target.name,
            remedy=f"set OutputTensor.DataType to {source.name}: data is moved, never converted",
        )


def _axis_range(case: DescriptorCase[GatherOperatorDesc | GatherElementsOperatorDesc]) -> Iterator[Fault]:
    desc = case.desc
    rank = desc.input_tensor.rank
    if desc.axis >= rank:
        yield Fault(
            "Axis",
            expected=f"0 … {rank - 1}",
            got=str(desc.axis),
            remedy=f"choose a dimension of InputTensor {braces(desc.input_tensor.sizes)}; leading 1s are counted",
        )


def compare_sizes(path: str, expected: Sequence[int], got: Sequence[int], reason: str, remedy: str) -> Iterator[Fault]:
    """Compare a tensor's sizes with the expected ones. Yield at most one fault. `reason`: a text that says why."""
    differing = [axis for axis in range(len(expected)) if expected[axis] != got[axis]]
    if differing:
        differences = ", ".join(f"dimension {axis}: expected {expected[axis]}, got {got[axis]}" for axis in differing)
        yield Fault(
            f"{path}[{differing[0]}]" if len(differing) == 1 else path,
            expected=f"{braces(expected)}, {reason}",
            got=f"{braces(got)} ({differences})",
            remedy=remedy,
        )


RANKS = ("DML204",)
"""`Rule.needs` of rules that compare tensors dimension by dimension."""

SIZES = (*RANKS, "DML103")
"""`Rule.needs` of rules that also need sizes of at least 1."""

OPERATOR_LEVEL = Rule("DML203", _introduced)

TENSOR_LEVEL_RULES = (
    Rule("DML201", _data_type, needs=("DML203", "DML105")),
    Rule("DML202", _dimension_count, needs=("DML203", "DML102")),
)

SHARED_RULES = (
    Rule("DML204", _same_count, needs=("DML102",)),
    Rule("DML205", _same_data_type, needs=("DML105",)),
)

AXIS = Rule("DML206", _axis_range, needs=RANKS, alternatives=("axis",))
