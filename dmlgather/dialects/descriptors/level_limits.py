"""Limits of feature levels: dimension counts, index types, and sizes of tensors in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from dmlgather.dialects.descriptors.tensor_views import View
from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import BufferTensorDesc, DataType, FeatureLevel, Finding, Operator
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT, split_remedy
from dmlgather.directml.support import Row, row_at
from dmlgather.wording import braces


class InexpressibleError(Exception):
    """No descriptor expresses an operator call at a feature level. `newer`: True if a newer level may take it."""

    def __init__(self, finding: Finding, newer: bool = False) -> None:
        self.finding, self.newer = finding, newer
        super().__init__(str(finding))


def _row(operator: Operator, tensor: str, level: FeatureLevel) -> Row:
    row = row_at(operator.name, tensor, level)
    assert row is not None, "the level has the operator"
    return row


def fits(operator: Operator, level: FeatureLevel, *views: View) -> bool:
    """Return True if the operator takes as many dimensions as `views` have. The level must have the operator."""
    return max(view.rank for view in views) <= _row(operator, "InputTensor", level).dimension_counts[-1]


def tensor_descs(
    operator: Operator, level: FeatureLevel, data: View, output: View, indices: View | None = None
) -> Mapping[str, BufferTensorDesc]:
    """Return the descriptor of each tensor, by field. Leading 1s are added if the level needs more dimensions."""
    if indices is not None:
        indices = replace(indices, data_type=_index_type(operator, indices.data_type, level))
    views = {"input_tensor": data, "output_tensor": output} | ({"indices_tensor": indices} if indices is not None else {})
    for view in views.values():
        if view.span > ELEMENT_LIMIT:
            refuse(
                "EXP107",
                f"{view.name}.shape",
                expected=f"at most {ELEMENT_LIMIT} elements",
                got=f"{view.span} from the first to the last of {braces(view.sizes)}",
                remedy=split_remedy(view.span),
            )
    rank = _dimension_count(operator, level, max(views.values(), key=lambda view: view.rank))
    return {field: view.tensor_desc(rank) for field, view in views.items()}


def _dimension_count(operator: Operator, level: FeatureLevel, widest: View) -> int:
    counts = _row(operator, "InputTensor", level).dimension_counts
    if widest.rank > counts[-1]:
        refuse(
            "EXP104",
            f"{widest.name}.shape",
            expected=f"at most {counts[-1]} dimensions after merging adjacent dimensions ({operator.name} at level {level})",
            got=f"{widest.rank}: {braces(widest.sizes)}",
            remedy="reshape the dimensions that a tuple indexes into one dimension, and combine their indices into one position",
            newer=any(widest.rank in row.dimension_counts for row in operator.table),
        )
    return max(widest.rank, counts[0])


def _index_type(operator: Operator, data_type: DataType, level: FeatureLevel) -> DataType:
    """Return `data_type` if the level takes it, else INT32 for a signed type if possible, else UINT32."""
    supported = _row(operator, "IndicesTensor", level).data_types
    signed = data_type.index_type is not None and data_type.index_type.signed
    return next(kind for kind in (data_type, *([DataType.INT32] if signed else []), DataType.UINT32) if kind in supported)


def require(operator: Operator, level: FeatureLevel, remedy: str = "") -> None:
    """Raise InexpressibleError if the level does not have the operator."""
    if level < operator.introduced:
        refuse(
            "EXP106",
            "",
            expected=f"{operator.name}, which feature level {operator.introduced} introduced",
            got=f"feature level {level}",
            remedy=remedy,
            newer=True,
        )


def refuse(code: str, path: str, *, expected: str, got: str, remedy: str = "", newer: bool = False) -> NoReturn:
    """Raise InexpressibleError. `newer`: True if a newer level may take the call."""
    raise InexpressibleError(CODES[code].finding(path, expected=expected, got=got, remedy=remedy), newer)
