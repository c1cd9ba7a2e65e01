"""Tensors as grids of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import svg

from dmlgather.diagram.canvas import (
    ALERT,
    DIGIT,
    INK,
    PAPER,
    RULE,
    SHADE,
    SIZE,
    SOFT,
    TINT,
    Anchor,
    box,
    hatching,
    hue,
    line,
    text,
    wrapped,
)
from dmlgather.diagram.scene import MOST_PADDING, Cell, Cutout, Scene
from dmlgather.plan import packed_strides, unravel
from dmlgather.plan.interpreter import IndexOutcome, ResolvedIndex
from dmlgather.wording import braces, counted, spelled

LABELS, GAP, BLOCK, PADDING = 18.0, 16.0, 7.0, 9.0
"""Pixels: height of column numbers, and widths of an ellipsis, of the gap between blocks of rows, and of a padding element."""

ONE_LINE, TWO_LINES = 24.0, 40.0
"""Heights of a cell with one line and with two lines of text, in pixels."""

MARGIN, NARROWEST = 8.0, 26.0
"""Free width in a cell beside its text, and smallest width of a cell, in pixels."""

CLEAR, LANE = 8.0, 4.0
"""Vertical space between cells and the lines below them, and between two of these lines, in pixels."""

LONGEST = 10
"""Limit for the characters in a cell or a row label. Longer texts are shortened in the middle."""


@dataclass(frozen=True, slots=True)
class CellStyle:
    """The text, colours and marks of a cell.

    `below`: a second line of text. `hint`: a tooltip. `data`: the data-… attributes.
    """

    text: str = ""
    below: str = ""
    fill: str = SHADE
    opacity: float = 1
    stroke: str = RULE
    dashed: bool = False
    crossed: bool = False
    hatched: bool = False
    colour: str = INK
    hint: str = ""
    data: Mapping[str, str] = field(default_factory=dict)


class Grid:
    """The drawing of a cutout. The cells begin at y = 0; the column numbers are above.

    `x`, `right`: the left and right ends, with row labels. `left`, `edge`: the left and right ends without row labels.
    `bottom`: the lower end of the cells. `lanes`: the number of lines below each row.
    """

    def __init__(
        self,
        cutout: Cutout,
        x: float,
        styles: Mapping[Cell, CellStyle],
        lanes: Mapping[int, int] | None = None,
        *,
        labels_left: bool = True,
    ) -> None:
        self.cutout, self.tensor, self.x, self._styles = cutout, cutout.tensor, x, styles
        self._lanes = lanes or {}
        texts = [content for style in styles.values() for content in (style.text, style.below)]
        longest = max((len(content) for content in (*texts, *map(_column, cutout.columns))), default=0)
        size = max(NARROWEST, round(longest * DIGIT * SIZE + MARGIN, 1))
        self.cell = (size, TWO_LINES if any(style.below for style in styles.values()) else ONE_LINE)
        self._labels = {row: self._row_label(row) for row in cutout.rows}
        characters = max(map(len, self._labels.values()), default=0)
        beside = round(characters * DIGIT * SIZE + 6, 1) if characters else 0.0
        self._labels_left = labels_left
        self.left = x + (beside if labels_left else 0.0)
        self._columns, end = _positions(cutout.columns, self.tensor.columns, lambda _: self.cell[0], self.left)
        self._rows, self.bottom = _positions(cutout.rows, self.tensor.rows, self._row_height, 0.0, self._block)
        count = cutout.shown_padding
        self._more = f"+{count}" if count > MOST_PADDING else ""
        widths = [len(self._more) * DIGIT * SIZE + MARGIN] if self._more else [PADDING] * count
        self._padded = [(end + sum(widths[:number]), width) for number, width in enumerate(widths)]
        self.edge = end + sum(widths)
        self.right = self.edge + (0.0 if labels_left else beside)

    def place(self, cell: Cell) -> tuple[float, float, float, float]:
        """Return x, y, width and height of a shown cell."""
        return self._columns[cell[1]], self._rows[cell[0]], *self.cell

    def lane(self, row: int, number: int) -> float:
        """Return the y coordinate of a line below a row of cells. Line 0 is next to the cells."""
        return self._rows[row] + self.cell[1] + CLEAR + LANE * number

    def elements(self) -> Iterator[svg.Element]:
        """Yield the SVG elements of labels, padding and cells."""
        for column, x in self._columns.items():
            yield text(x + self.cell[0] / 2, -5, _column(column), colour=SOFT, anchor="middle", mono=True)
        label_x = self.left - 5 if self._labels_left else self.edge + 5
        anchor: Anchor = "end" if self._labels_left else "start"
        for row, y in self._rows.items():
            if self._labels[row]:
                yield text(label_x, y + self.cell[1] / 2 + 4, self._labels[row], colour=SOFT, anchor=anchor, mono=True)
        for x in _breaks(self.cutout.columns, self.tensor.columns, self._columns, lambda _: self.cell[0]):
            yield text(x + GAP / 2, -5, "…", colour=SOFT, anchor="middle")
        for y in _breaks(self.cutout.rows, self.tensor.rows, self._rows, self._row_height):
            yield text(label_x, y + GAP / 2 + 4, "⋮", colour=SOFT, anchor=anchor)
        if not self._columns or not self._rows:
            yield box(self.left, 0, max(self.edge - self.left, 60), max(self.bottom, 24), dashed=True)
        for y in self._rows.values():
            for x, width in self._padded:
                yield box(x, y, width, self.cell[1], fill=SHADE, dashed=True)
                yield from () if self._more else hatching(x, y, width, self.cell[1], RULE)
                if self._more:
                    yield text(x + width / 2, y + self.cell[1] / 2 + 4, self._more, colour=SOFT, anchor="middle", mono=True)
        for cell, style in self._styles.items():
            yield from self._cell(cell, style)

    def _cell(self, cell: Cell, style: CellStyle) -> Iterator[svg.Element]:
        x, y, width, height = self.place(cell)
        yield box(
            x, y, width, height, fill=style.fill, opacity=style.opacity, stroke=style.stroke,
            stroke_width=1.6 if style.dashed else 1, dashed=style.dashed, hint=style.hint, data=style.data,
        )  # fmt: skip
        if style.hatched:
            yield from hatching(x, y, width, height, style.stroke)
        if style.crossed:
            yield line(x + 3, y + 3, x + width - 3, y + height - 3, colour=style.stroke, width=0.5)
            yield line(x + 3, y + height - 3, x + width - 3, y + 3, colour=style.stroke, width=0.5)
        middle = y + height / 2 + 4
        for part, content, baseline in (
            ("text", style.text, middle - (8 if style.below else 0)),
            ("below", style.below, middle + 8),
        ):
            if content:
                data = {f"{key}-{part}": value for key, value in style.data.items()}
                colour = style.colour if part == "text" else SOFT
                yield text(x + width / 2, baseline, content, colour=colour, anchor="middle", mono=True, data=data)

    def _row_label(self, row: int) -> str:
        sizes = self.tensor.layout.sizes[:-1]
        return short(",".join(str(c) for c, size in zip(unravel(row, sizes), sizes, strict=True) if size > 1))

    def _row_height(self, row: int) -> float:
        lanes = self._lanes.get(row, 0)
        return self.cell[1] + (2 * CLEAR + LANE * (lanes - 1) if lanes else 0)

    def _block(self, row: int) -> int:
        sizes = self.tensor.layout.sizes
        return row // sizes[-2] if len(sizes) > 2 else 0


def heading(cutout: Cutout, room: float) -> list[str]:
    """Return the lines of text below a tensor's name. `room`: the largest width of a line, in pixels."""
    tensor = cutout.tensor
    sizes, strides = tensor.layout.sizes, tensor.layout.strides
    lines = [f"{tensor.type} {braces(sizes)}"]
    if any(size > 1 and a != b for size, a, b in zip(sizes, strides, packed_strides(sizes), strict=True)):
        lines.append(f"strides {braces(strides)}")
    if sum(size > 1 for size in sizes[:-1]) > 1:
        lines.append(f"rows: dimensions 0…{len(sizes) - 2} folded")
    if not prod(sizes):
        lines.append("no elements")
    elif not cutout.complete:
        counts = ((cutout.rows, tensor.rows, "row"), (cutout.columns, tensor.columns, "column"))
        lines.append(", ".join(f"{len(shown)} of {counted(total, what)}" for shown, total, what in counts if len(shown) < total))
    return [part for content in lines for part in wrapped(content, room)]


def short(content: str) -> str:
    """Shorten a number or coordinates to LONGEST characters."""
    return content if len(content) <= LONGEST else f"{content[:5]}…{content[-3:]}"


def _column(number: int) -> str:
    return short(str(number))


def _positions(
    shown: Sequence[int], total: int, size: Callable[[int], float], start: float, block: Callable[[int], int] = lambda _: 0
) -> tuple[dict[int, float], float]:
    """Return the coordinate of each shown row (y) or column (x), and the end of the last one."""
    positions: dict[int, float] = {}
    end, before = start, -1
    for number in shown:
        if number != before + 1:
            end += GAP
        elif before >= 0 and block(number) != block(before):
            end += BLOCK
        positions[number] = end
        end, before = end + size(number), number
    return positions, end + (GAP if before + 1 < total else 0)


def _breaks(shown: Sequence[int], total: int, positions: Mapping[int, float], size: Callable[[int], float]) -> Iterator[float]:
    """Yield the coordinate of each ellipsis that replaces hidden rows (y) or columns (x)."""
    before = -1
    for number in shown:
        if number != before + 1:
            yield positions[number] - GAP
        before = number
    if shown and before + 1 < total:
        yield positions[before] + size(before)


def data_style(scene: Scene, cell: Cell, read_by: Mapping[int, int]) -> CellStyle:
    """Return the text and colours of an input cell. `read_by`: for each address that is read, the number of the colour."""
    cutout = scene.data
    address, coordinates = cutout.address(*cell), cutout.coordinates(*cell)
    colour = read_by.get(address)
    content, below, value = _element(scene, address)
    return CellStyle(
        text=content,
        below=below,
        fill=PAPER if colour is None else hue(colour),
        opacity=1 if colour is None else TINT,
        stroke=RULE if colour is None else hue(colour),
        colour=SOFT if colour is None else INK,
        hint=f"{cutout.tensor.name}[{at(coordinates)}] is element {address} of its buffer{value}",
        data={"tensor": cutout.tensor.name, "at": at(coordinates)},
    )


def output_style(scene: Scene, cell: Cell) -> CellStyle:
    """Return the text and colours of an output cell. A dashed border means that an index is out of range."""
    origin, coordinates = scene.reads[cell], scene.output.coordinates(*cell)
    name = f"{scene.output.tensor.name}[{at(coordinates)}]"
    data = {"tensor": scene.output.tensor.name, "at": at(coordinates), "outcome": origin.outcome.value}
    if origin.source is None:
        if origin.outcome is IndexOutcome.REFUSED:
            return CellStyle(stroke=ALERT, dashed=True, crossed=True, hint=f"{name} is not written", data=data)
        hint = f"{name} gets the fill value"
        return CellStyle(text="fill", fill=PAPER, stroke=ALERT, dashed=True, hatched=True, hint=hint, data=data)
    clamped = origin.outcome is IndexOutcome.CLAMPED
    content, below, value = _element(scene, origin.source)
    return CellStyle(
        text=content,
        below=below,
        fill=hue(scene.colour(cell)),
        opacity=TINT,
        stroke=ALERT if clamped else hue(scene.colour(cell)),
        dashed=clamped,
        hint=f"{name} is read from element {origin.source}{value}" + (", to which an index was clamped" if clamped else ""),
        data=data,
    )


def index_style(scene: Scene, cell: Cell) -> CellStyle:
    """Return the text and colours of an index cell. A dashed border means that the index is out of range."""
    assert scene.indices is not None
    coordinates, index = scene.indices.coordinates(*cell), scene.resolved.get(cell)
    name, value = f"{scene.indices.tensor.name}[{at(coordinates)}]", scene.values[cell]
    data = {"tensor": scene.indices.tensor.name, "at": at(coordinates)}
    if index is None:
        hint = f"{name} is used by no output element that is shown"
        return CellStyle(text=short(str(value)), fill=PAPER, colour=SOFT, hint=hint, data=data)
    bad = index.outcome is not IndexOutcome.VALID
    colour = hue(next(number for addresses, number in scene.colours.items() if index.address in addresses))
    return CellStyle(
        text=short(str(value)),
        below=_position(index),
        fill=colour,
        opacity=TINT,
        stroke=ALERT if bad else colour,
        dashed=bad,
        crossed=index.outcome is IndexOutcome.REFUSED,
        hatched=index.outcome is IndexOutcome.FILLED,
        hint=f"{name} is {value}" + (f", out of range: {index.outcome.value}" if bad else ""),
        data={**data, "outcome": index.outcome.value},
    )


def at(coordinates: tuple[int, ...]) -> str:
    """Return coordinates as text, such as "0,3"."""
    return ",".join(map(str, coordinates))


def _element(scene: Scene, address: int) -> tuple[str, str, str]:
    """Return the two lines of an input cell and the end of its tooltip. Without values, the cell shows the address."""
    if scene.subject.elements is None:
        return str(address), "", ""
    value = spelled(scene.subject.element_at(address))
    return short(value), f"@{address}", f"; its value is {value}"


def _position(index: ResolvedIndex) -> str:
    """Return the label of an index: "→3" if the index reads position 3. It is empty if the position equals the index."""
    if index.position is None:
        return "→fill" if index.outcome is IndexOutcome.FILLED else "refused"
    return "" if index.position == index.value else f"→{short(str(index.position))}"
