"""A plan's dimensions as a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import svg

from dmlgather.picture.canvas import INK, RULE, SOFT, line, text
from dmlgather.plan import IndexPlan
from dmlgather.wording import counted

ROW, FONT, CHARACTER = 16.0, 10.5, 6.4

MOST_ROWS, MOST_LOOKUPS = 12, 4
"""Dimensions and lookups that are listed."""


class PlanTable:
    """A table of a plan's dimensions, laid out from (0, 0) in `width` x `height`."""

    def __init__(self, title: str, plan: IndexPlan, lookup_axes: tuple[int, ...] = ()) -> None:
        self.title = title
        self.head, self.rows = _cells(plan)
        self.notes = list(_notes(plan, lookup_axes))
        self.widths = [max(map(len, column)) * CHARACTER + 16 for column in zip(self.head, *self.rows, strict=True)]
        longest = max((len(note) * 5.6 for note in self.notes), default=0.0)
        self.width = max(sum(self.widths), len(title) * 7.0, longest)
        self.height = 16 + ROW * (len(self.rows) + 1) + 8 + 14 * len(self.notes)

    def elements(self) -> Iterator[svg.Element]:
        """Title, head, rows and notes."""
        yield text(0, 11, self.title, size=12, bold=True)
        y = 16 + ROW - 4
        for number, row in enumerate((self.head, *self.rows)):
            at = 0.0
            for column, (content, width) in enumerate(zip(row, self.widths, strict=True)):
                at += width
                last = number == len(self.rows)
                data = {"plan": self.title, "row": row[0], "column": self.head[column]} if number else None
                colour = SOFT if number == 0 or column == 0 or last else INK
                yield text(at - 8, y, content, size=FONT, colour=colour, anchor="end", mono=True, data=data)
            y += ROW
            if number in (0, len(self.rows) - 1):
                yield line(0, y - ROW + 5, sum(self.widths), y - ROW + 5, colour=RULE)
        for number, note in enumerate(self.notes):
            yield text(0, y + 4 + 14 * number, note, size=10.5, colour=SOFT)


def _cells(plan: IndexPlan) -> tuple[list[str], list[list[str]]]:
    lookups = plan.lookups[:MOST_LOOKUPS]
    head = ["dimension", "size", "out stride", "in stride", *_titles(len(lookups))]
    steps = list(zip(plan.shape, plan.out_strides, plan.in_strides, *(item.index_strides for item in lookups), strict=True))
    rows = [[str(axis), *map(str, step)] for axis, step in enumerate(steps[:MOST_ROWS])]
    if len(steps) > MOST_ROWS:
        rows.append(["…"] * len(head))
    offsets = chain((plan.out_offset, plan.in_offset), (item.index_offset for item in lookups))
    rows.append(["offset", "", *map(str, offsets)])
    return head, rows


def _titles(lookups: int) -> list[str]:
    return ["index stride"] if lookups == 1 else [f"index stride {number}" for number in range(lookups)]


def _notes(plan: IndexPlan, lookup_axes: tuple[int, ...]) -> Iterator[str]:
    yield f"{counted(plan.elements, 'element')} of {counted(plan.element_bytes, 'byte')}; strides and offsets in elements"
    for number, lookup in enumerate(plan.lookups[:MOST_LOOKUPS]):
        values = f"values 0 … {lookup.limit - 1}" if lookup.limit else "no valid value"
        along = f" along dimension {lookup_axes[number]}" if number < len(lookup_axes) else ""
        wrap = f", negative ones + {lookup.wrap}" if lookup.wrap else ""
        yield f"lookup {number}: {values}{along}{wrap}; input stride {lookup.in_stride}"
    if len(plan.lookups) > MOST_LOOKUPS:
        yield f"and {counted(len(plan.lookups) - MOST_LOOKUPS, 'more lookup')}"
