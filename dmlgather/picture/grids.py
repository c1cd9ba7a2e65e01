"""Draw one grid: heading, coordinates at its edges, cells, padding, and an ellipsis where something is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import svg

from dmlgather.picture.canvas import INK, RULE, SHADE, SOFT, Anchor, box, line, text, tint
from dmlgather.picture.cutout import MOST_PADDING, Cutout
from dmlgather.picture.scene import CHARACTER, MARGIN, Cell
from dmlgather.plan import packed_strides, unravel
from dmlgather.wording import braces, counted

HEADING, LABELS, GAP, BLOCK = 46.0, 16.0, 16.0, 7.0
"""Height of the heading, of the line of column numbers, of an ellipsis, and of the space between folded blocks."""

SIZE = 11
"""Font size in cells."""

_over_lines = partial(text, anchor="middle", mono=True, halo=True)


@dataclass(frozen=True, slots=True)
class CellStyle:
    """How one cell looks. second: a smaller line below its text."""

    text: str = ""
    second: str = ""
    fill: str = SHADE
    stroke: str = RULE
    stroke_width: float = 1
    dashed: bool = False
    crossed: bool = False
    hatched: bool = False
    colour: str = INK
    hint: str = ""
    data: tuple[tuple[str, str], ...] = ()


class Grid:
    """A cut-out, placed on the page."""

    def __init__(self, cutout: Cutout, x: float, y: float, cell: tuple[float, float], *, labels_left: bool = True) -> None:
        self.cutout, self.tensor, self.x, self.y, self.cell = cutout, cutout.tensor, x, y, cell
        self._labels = {row: self._row_label(row) for row in cutout.rows}
        longest = max(map(len, self._labels.values()), default=0)
        beside = longest * CHARACTER + 6 if longest else 0.0
        self._labels_left = labels_left
        self.left = x + (beside if labels_left else 0.0)
        self.top = y + HEADING + LABELS
        columns, end = _placed(cutout.columns, self.tensor.columns, cell[0], self.left)
        rows, bottom = _placed(cutout.rows, self.tensor.rows, cell[1], self.top, self._block)
        self._columns, self._rows = columns, rows
        self._padding = self._padding_labels() if cutout.columns and cutout.columns[-1] == self.tensor.columns - 1 else []
        widths = [max(cell[0], len(label) * CHARACTER + MARGIN) for label in self._padding]
        self._padded = [(end + sum(widths[:number]), width) for number, width in enumerate(widths)]
        self.edge = end + sum(widths)
        self.right = max(self.edge + (0.0 if labels_left else beside), x + self._heading_width())
        self.bottom = bottom

    def place(self, cell: Cell) -> tuple[float, float, float, float]:
        """x, y, width, height of a cell that is shown."""
        return self._columns[cell[1]], self._rows[cell[0]], *self.cell

    def lines(self) -> list[str]:
        """The lines below the name: type and sizes; then strides if not packed, folded dimensions, and how much is shown."""
        tensor, cutout = self.tensor, self.cutout
        sizes, strides = tensor.layout.sizes, tensor.layout.strides
        second = []
        if any(size > 1 and a != b for size, a, b in zip(sizes, strides, packed_strides(sizes), strict=True)):
            second.append(f"strides {braces(strides)}")
        if sum(size > 1 for size in sizes[:-1]) > 1:
            second.append(f"rows: dimensions 0…{len(sizes) - 2} folded")
        if not prod(sizes):
            second.append("no elements")
        elif not cutout.complete:
            counts = ((cutout.rows, tensor.rows, "row"), (cutout.columns, tensor.columns, "column"))
            parts = [f"{len(shown)} of {counted(total, what)}" for shown, total, what in counts if len(shown) < total]
            second.append(", ".join(parts))
        return [f"{tensor.type} {braces(sizes)}", "; ".join(second)]

    def under(self, styles: Callable[[Cell], CellStyle]) -> Iterator[svg.Element]:
        """The lower layer: headings, labels, and the cells' backgrounds."""
        yield text(self.x, self.y + 11, self.tensor.name, size=13, bold=True)
        for number, content in enumerate(self.lines()):
            yield text(self.x, self.y + 26 + 14 * number, content, size=11, colour=SOFT)
        for column, x in self._columns.items():
            yield text(x + self.cell[0] / 2, self.top - 4, str(column), size=9.5, colour=SOFT, anchor="middle", mono=True)
        for row, y in self._rows.items():
            if self._labels[row]:
                at = self.left - 5 if self._labels_left else self.edge + 5
                anchor: Anchor = "end" if self._labels_left else "start"
                yield text(at, y + self.cell[1] / 2 + 3.5, self._labels[row], size=9.5, colour=SOFT, anchor=anchor, mono=True)
        yield from self._ellipses()
        for y in self._rows.values():
            for x, width in self._padded:
                yield box(x, y, width, self.cell[1], fill=SHADE, dashed=True)
                yield from _hatching(x, y, width, self.cell[1], RULE)
        for cell in self.cutout.cells():
            style = styles(cell)
            x, y, width, height = self.place(cell)
            yield box(
                x,
                y,
                width,
                height,
                fill=style.fill,
                stroke=style.stroke,
                stroke_width=style.stroke_width,
                dashed=style.dashed,
                hint=style.hint,
                data=dict(style.data),
            )
            if style.hatched:
                yield from _hatching(x, y, width, height, tint(style.stroke, 0.45))
            if style.crossed:
                yield line(x + 3, y + 3, x + width - 3, y + height - 3, colour=tint(style.stroke, 0.45))
                yield line(x + 3, y + height - 3, x + width - 3, y + 3, colour=tint(style.stroke, 0.45))

    def over(self, styles: Callable[[Cell], CellStyle]) -> Iterator[svg.Element]:
        """The upper layer: the cells' texts, over the lines between grids."""
        for cell in self.cutout.cells():
            style = styles(cell)
            x, y, width, height = self.place(cell)
            at, middle = x + width / 2, y + height / 2 + 3 - (5 if style.second else 0)
            if style.text:
                data = {f"{key}-text": value for key, value in style.data}
                yield _over_lines(at, middle, style.text, size=SIZE, colour=style.colour, data=data)
            if style.second:
                yield _over_lines(at, middle + 12, style.second, size=9, colour=style.colour)
        for y in self._rows.values():
            for (x, width), label in zip(self._padded, self._padding, strict=True):
                yield _over_lines(x + width / 2, y + self.cell[1] / 2 + 3.5, label, size=9, colour=SOFT)

    def _row_label(self, row: int) -> str:
        sizes = self.tensor.layout.sizes[:-1]
        return ",".join(str(c) for c, size in zip(unravel(row, sizes), sizes, strict=True) if size > 1)

    def _block(self, row: int) -> int:
        sizes = self.tensor.layout.sizes
        return row // sizes[-2] if len(sizes) > 2 else 0

    def _padding_labels(self) -> list[str]:
        count = self.cutout.padding
        return [""] * count if count <= MOST_PADDING else [f"+{count}"]

    def _heading_width(self) -> float:
        return max(len(self.tensor.name) * 8.0, *(len(content) * 5.9 for content in self.lines()))

    def _ellipses(self) -> Iterator[svg.Element]:
        end, bottom = self.edge, self.bottom
        for at in _breaks(self.cutout.columns, self.tensor.columns, self._columns, self.cell[0]):
            for y in self._rows.values():
                yield text(at + GAP / 2, y + self.cell[1] / 2 + 9, "…", colour=SOFT, anchor="middle")
        for at in _breaks(self.cutout.rows, self.tensor.rows, self._rows, self.cell[1]):
            for x in self._columns.values():
                yield text(x + self.cell[0] / 2, at + GAP / 2 + 4, "⋮", colour=SOFT, anchor="middle")
        if not self._columns or not self._rows:
            yield box(self.left, self.top, max(end - self.left, 60), max(bottom - self.top, 24), dashed=True)


def _placed(
    shown: Sequence[int], total: int, size: float, start: float, block: Callable[[int], int] = lambda _: 0
) -> tuple[dict[int, float], float]:
    """Where each row or column begins, and where all of them end."""
    places: dict[int, float] = {}
    at, before = start, -1
    for number in shown:
        if number != before + 1:
            at += GAP
        elif before >= 0 and block(number) != block(before):
            at += BLOCK
        places[number] = at
        at, before = at + size, number
    return places, at + (GAP if before + 1 < total else 0)


def _breaks(shown: Sequence[int], total: int, places: dict[int, float], size: float) -> Iterator[float]:
    """Where each ellipsis begins."""
    before = -1
    for number in shown:
        if number != before + 1:
            yield places[number] - GAP
        before = number
    if shown and before + 1 < total:
        yield places[before] + size


def _hatching(x: float, y: float, width: float, height: float, colour: str) -> Iterator[svg.Element]:
    """Diagonal lines inside a rectangle. (An SVG pattern would need a name that is unique on the page.)"""
    step = 6.0
    offset = step
    while offset < width + height:
        x1, y1 = (x + offset, y) if offset <= width else (x + width, y + offset - width)
        x2, y2 = (x, y + offset) if offset <= height else (x + offset - height, y + height)
        yield line(x1, y1, x2, y2, colour=colour, width=0.7)
        offset += step
