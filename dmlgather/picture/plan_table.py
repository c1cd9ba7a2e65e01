"""A plan's dimensions as a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import svg

from dmlgather.picture.canvas import DIGIT, INK, RULE, SIZE, SOFT, line, text, wrapped
from dmlgather.plan import IndexPlan
from dmlgather.wording import counted

ROW, APART = 16.0, 12.0
"""Height of a row, and width between columns."""

MOST_ROWS, MOST_LOOKUPS = 12, 4
"""Dimensions and lookups that are listed."""


class PlanTable:
    """A table of a plan's dimensions, laid out from (0, 0) in `room` x `height`; its rows are `width` wide.

    Of the lookups, it has as many as fit.
    """

    def __init__(self, title: str, plan: IndexPlan, room: float, lookup_axes: tuple[int, ...] = ()) -> None:
        self.title = title
        for shown in range(min(len(plan.lookups), MOST_LOOKUPS), -1, -1):
            self.head, self.rows = _cells(plan, shown)
            columns = zip(self.head, *self.rows, strict=True)
            self.widths = [max(map(len, column)) * DIGIT * SIZE + APART for column in columns]
            if sum(self.widths) <= room:
                break
        self.width = sum(self.widths)
        self.notes = [row for note in _notes(plan, lookup_axes) for row in wrapped(note, room)]
        self.height = 16 + ROW * (len(self.rows) + 1) + 8 + ROW * len(self.notes)

    def elements(self) -> Iterator[svg.Element]:
        """Title, head, rows and notes."""
        yield text(0, 11, self.title, size=13, bold=True)
        y = 16 + ROW - 4
        for number, row in enumerate((self.head, *self.rows)):
            at = 0.0
            for column, (content, width) in enumerate(zip(row, self.widths, strict=True)):
                at += width
                last = number == len(self.rows)
                data = {"plan": self.title, "row": row[0], "column": self.head[column]} if number else None
                colour = SOFT if number == 0 or column == 0 or last else INK
                yield text(at - APART / 2, y, content, colour=colour, anchor="end", mono=True, data=data)
            y += ROW
            if number in (0, len(self.rows) - 1):
                yield line(0, y - ROW + 4.5, sum(self.widths), y - ROW + 4.5, colour=RULE)
        for number, note in enumerate(self.notes):
            yield text(0, y + 4 + ROW * number, note, colour=SOFT)


def _cells(plan: IndexPlan, shown: int) -> tuple[list[str], list[list[str]]]:
    lookups = plan.lookups[:shown]
    head = ["dim", "size", "out", "in", *_titles(len(plan.lookups))[:shown]]
    steps = list(zip(plan.shape, plan.out_strides, plan.in_strides, *(item.index_strides for item in lookups), strict=True))
    rows = [[str(axis), *map(str, step)] for axis, step in enumerate(steps[:MOST_ROWS])]
    if len(steps) > MOST_ROWS:
        rows.append(["…"] * len(head))
    offsets = chain((plan.out_offset, plan.in_offset), (item.index_offset for item in lookups))
    rows.append(["offset", "", *map(str, offsets)])
    return head, rows


def _titles(lookups: int) -> list[str]:
    return ["index"] if lookups == 1 else [f"index {number}" for number in range(lookups)]


def _notes(plan: IndexPlan, lookup_axes: tuple[int, ...]) -> Iterator[str]:
    yield f"{counted(plan.elements, 'element')} of {counted(plan.element_bytes, 'byte')}; strides in elements"
    for number, lookup in enumerate(plan.lookups[:MOST_LOOKUPS]):
        values = f"values 0 … {lookup.limit - 1}" if lookup.limit else "no valid value"
        along = f" along dimension {lookup_axes[number]}" if number < len(lookup_axes) else ""
        wrap = f", negative ones + {lookup.wrap}" if lookup.wrap else ""
        yield f"lookup {number}: {values}{along}{wrap}; input stride {lookup.in_stride}"
    if len(plan.lookups) > MOST_LOOKUPS:
        yield f"and {counted(len(plan.lookups) - MOST_LOOKUPS, 'more lookup')}"
