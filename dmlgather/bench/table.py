"""What a report shows as a table, before it is rendered."""

from __future__ import annotations

from dataclasses import dataclass

from dmlgather.bench.report import AHEAD

LOST = "◀"
"""Stands behind the ratio of a case in which a peer was quicker."""

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells. words: the columns of words, which stand on the left. judged: the columns whose cells may say that a case is lost.
    always: how many columns a narrow terminal shows. legend: what the columns mean. footnotes: what is left to say.
    """

    heading: Row
    rows: list[Row]
    words: tuple[int, ...]
    judged: tuple[int, ...]
    always: int
    legend: tuple[str, ...]
    footnotes: tuple[str, ...] = ()


def ratio(value: float | None) -> str:
    """A cell with theirs by ours; LOST behind it where ours is behind."""
    if value is None:
        return "-"
    return f"{value:.2f}" + (f" {LOST}" if round(value, 2) < AHEAD else "")
