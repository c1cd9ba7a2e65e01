"""Operators of a dialect that are not of the family and close to it: what DirectML has or lacks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dmlgather.record import Record

_API = "https://learn.microsoft.com/windows/win32/api/directml/"

SOURCES = {
    "DQ": "DML_DEQUANTIZE_OPERATOR_DESC, https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_dequantize_operator_desc",
    "NZ": f"DML_NONZERO_COORDINATES_OPERATOR_DESC, {_API}ns-directml-dml_nonzero_coordinates_operator_desc",
    "OH": f"DML_ONE_HOT_OPERATOR_DESC, {_API}ns-directml-dml_one_hot_operator_desc",
    "RA1": f"DML_ROI_ALIGN1_OPERATOR_DESC, {_API}ns-directml-dml_roi_align1_operator_desc",
    "SC": f"DML_SCATTER_OPERATOR_DESC, {_API}ns-directml-dml_scatter_operator_desc",
    "SCN": f"DML_SCATTER_ND_OPERATOR_DESC, {_API}ns-directml-dml_scatter_nd_operator_desc",
}
"""The documents that the keys in brackets stand for, besides those of `dmlgather.directml.SOURCES`."""


@dataclass(frozen=True, slots=True)
class RelativeRow:
    """One operator that gathers, slices, scatters or looks up, and is not judged.

    domain: empty for the dialect's own operators. directml: what DirectML has or lacks for it, with feature levels. source: where
    that comes from, with keys of `SOURCES`.
    """

    domain: str
    operator: str
    directml: str
    source: str

    @property
    def name(self) -> str:
        """The operator as `CheckedModel.others` calls it: "com.microsoft.GatherND"."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator


class Relative(Record):
    """An operator of a model that is not judged and close to the family."""

    operator: str
    """The operator, with its domain where it is not the dialect's own: "com.microsoft.GatherND"."""

    count: int
    """How many nodes have it; `others` counts them as well."""

    directml: str
    """What DirectML has or lacks for it."""

    source: str
    """Where that comes from, with a key of `SOURCES`."""


def found(rows: Iterable[RelativeRow], others: Mapping[str, int]) -> tuple[Relative, ...]:
    """The relatives among the other operators of a model, in the order of the rows. others: the number of nodes of each."""
    return tuple(
        Relative(operator=row.name, count=others[row.name], directml=row.directml, source=row.source)
        for row in rows
        if row.name in others
    )
