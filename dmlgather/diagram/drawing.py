"""Layout of whole diagrams: title, tensors as grids, lines between them, legend, and tables of the plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import svg

from dmlgather.diagram.canvas import (
    ALERT,
    BOLD,
    DIGIT,
    INK,
    RULE,
    SHADE,
    SIZE,
    SOFT,
    Point,
    box,
    document,
    dot,
    hatching,
    hue,
    line,
    moved,
    path,
    text,
    tip,
    wrapped,
)
from dmlgather.diagram.grids import LABELS, Grid, at, data_style, heading, index_style, output_style
from dmlgather.diagram.scene import MOST_COLUMNS, Cell, Cutout, Scene
from dmlgather.diagram.subject import Subject
from dmlgather.plan import IndexPlan, OutOfBounds, bytes_moved, canonicalise
from dmlgather.plan.interpreter import IndexOutcome
from dmlgather.wording import counted

ROW, APART = 16.0, 12.0
"""Height of a row in a plan's table, and horizontal space between columns, in pixels."""

MOST_ROWS, MOST_LOOKUPS = 12, 4
"""Limits for the dimensions and lookups in a plan's table."""


class PlanTable:
    """A table of a plan's dimensions and strides. If it is wider than `room` pixels, columns of lookups are left out."""

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
        """Yield the SVG elements of the table."""
        yield text(0, 11, self.title, size=13, bold=True)
        y = 16 + ROW - 4
        for number, row in enumerate((self.head, *self.rows)):
            x = 0.0
            for column, (content, width) in enumerate(zip(row, self.widths, strict=True)):
                x += width
                last = number == len(self.rows)
                data = {"plan": self.title, "row": row[0], "column": self.head[column]} if number else None
                colour = SOFT if number == 0 or column == 0 or last else INK
                yield text(x - APART / 2, y, content, colour=colour, anchor="end", mono=True, data=data)
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


DASHES = {IndexOutcome.VALID: (), IndexOutcome.CLAMPED: (5.0, 3.0)}


@dataclass(frozen=True, slots=True)
class Lanes:
    """Horizontal tracks ("lanes") below the rows of a grid, so that the lines of the diagram do not cross cells.

    A line that starts inside a row goes down to a lane. Then it follows the lane to the end of the row. `levels`: the lane for
    each group of cells that one line joins. Lane 0 is next to the row.
    """

    levels: dict[tuple[Cell, ...], int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[int, int]:
        """The number of horizontal tracks for lines below each row of cells."""
        rows = [cells[0][0] for cells in self.levels]
        return {row: rows.count(row) for row in rows}


def departures(scene: Scene) -> Lanes:
    """Return the lanes of the input grid. Cells further left get lower lanes, so that no line crosses the lane of another."""
    cutout = scene.data
    open_end = not cutout.shown_padding
    groups = {join.sources for join in scene.joins if not (open_end and _at_edge(join.sources, cutout.columns[-1]))}
    return _lanes(groups, lambda cells: -cells[0][1])


def arrivals(scene: Scene) -> Lanes:
    """Return the lanes of the output grid. Cells further right get lower lanes, so that no line crosses the lane of another."""
    cutout = scene.output
    groups = {join.targets for join in scene.joins if not _at_edge(join.targets, cutout.columns[0])}
    return _lanes(groups, lambda cells: cells[-1][1])


def lines(scene: Scene, data: Grid, output: Grid) -> Iterator[svg.Element]:
    """Yield the lines from input to output. Input cells get a dot, output cells an arrowhead."""
    leaving, arriving = departures(scene).levels, arrivals(scene).levels
    for join in scene.joins:
        colour = hue(join.colour)
        from_cells = _strokes(data, join.sources, leaving.get(join.sources), data.edge)
        to_cells = _strokes(output, join.targets, arriving.get(join.targets), output.left)
        start = _curve_end(from_cells, data, join.sources[-1], right=True)
        end = _curve_end(to_cells, output, join.targets[0], right=False)
        facts = {
            "join": join.outcome.value,
            "from": at(scene.data.coordinates(*join.source)),
            "to": at(scene.output.coordinates(*join.target)),
            "cells": str(join.length),
            "step": str(join.step),
        }
        yield path([*from_cells, *to_cells], (start, end), colour=colour, dashes=DASHES.get(join.outcome, ()), data=facts)
        yield from (dot(*point, colour) for point in ([stroke[0] for stroke in from_cells] or [start]))
        yield from (tip(*stroke[0], colour, up=True) for stroke in to_cells)
        if not to_cells:
            yield tip(*end, colour, up=False)


def _strokes(grid: Grid, cells: Sequence[Cell], level: int | None, edge: float) -> list[list[Point]]:
    """Return the polylines from cells of one row to lane `level` below the row. If `level` is None, there is no lane."""
    if level is None:
        return []
    lane_y = grid.lane(cells[0][0], level)
    strokes = []
    for cell in cells:
        x, y, width, height = grid.place(cell)
        strokes.append([(x + width / 2, y + height), (x + width / 2, lane_y)])
    outermost = max(strokes, key=lambda stroke: abs(stroke[0][0] - edge))
    outermost.append((edge, lane_y))
    return strokes


def _curve_end(strokes: Sequence[Sequence[Point]], grid: Grid, cell: Cell, *, right: bool) -> Point:
    """Return the point where a curve meets a grid: the end of the lane, or the middle of the cell's side."""
    lane_ends = [stroke[-1] for stroke in strokes if len(stroke) > 2]
    if lane_ends:
        return lane_ends[0]
    x, y, width, height = grid.place(cell)
    return x + (width if right else 0), y + height / 2


def _at_edge(cells: Sequence[Cell], edge: int) -> bool:
    """Return True if the cells are adjacent to each other, and one of them is in column `edge`."""
    columns = [column for _, column in cells]
    return edge in columns and columns == list(range(columns[0], columns[-1] + 1))


def _lanes(groups: Iterable[tuple[Cell, ...]], order: Callable[[tuple[Cell, ...]], int]) -> Lanes:
    levels: dict[tuple[Cell, ...], int] = {}
    used: dict[int, int] = {}
    for cells in sorted(groups, key=lambda cells: (cells[0][0], order(cells), cells)):
        row = cells[0][0]
        levels[cells] = used.get(row, 0)
        used[row] = levels[cells] + 1
    return Lanes(levels)


BETWEEN, NEAREST = 72.0, 236.0
"""Horizontal space between input and output, and smallest x of the output, in pixels."""

LEAST_HEADING = 130.0
"""Smallest width of the output's heading, in pixels."""

BELOW = 20.0
"""Vertical space between the index grid and the grids below it, in pixels."""

NAME, PANEL_LINE = 15.0, 15.0
"""Heights of the line with a tensor's name and of each line below it, in pixels."""

NAME_SIZE = 13.0
"""Font size of a tensor's name, in pixels."""


class Panel:
    """The grids of a diagram with headings and lines.

    `fits`: two bools. The first is True if the index grid fits into `room`, the second if input and output fit.
    """

    def __init__(self, scene: Scene, room: float) -> None:
        self.scene, self.room = scene, room
        self.indices: Grid | None = None
        if scene.indices is not None:
            self.indices = Grid(scene.indices, 0, {cell: index_style(scene, cell) for cell in scene.indices.cells()})
        read_by: dict[int, int] = {}
        for target, origin in scene.reads.items():
            if origin.source is not None:
                read_by.setdefault(origin.source, scene.colour(target))
        styles = {cell: data_style(scene, cell, read_by) for cell in scene.data.cells()}
        self.data = Grid(scene.data, 0, styles, departures(scene).counts)
        output_styles = {cell: output_style(scene, cell) for cell in scene.output.cells()}
        x = max(self.data.edge + BETWEEN, NEAREST)
        self.output = Grid(scene.output, x, output_styles, arrivals(scene).counts, labels_left=False)
        self.fits = (self.indices is None or self.indices.right <= room, max(self.output.right, x + LEAST_HEADING) <= room)
        self._headings = [(0.0, _heading(scene.data, x - 12)), (x, _heading(scene.output, room - x))]
        self._index_heading = [] if scene.indices is None else _heading(scene.indices, room)
        self._index_top = _height(self._index_heading)
        below = 0.0 if self.indices is None else self._index_top + self.indices.bottom + BELOW
        self._top = below + max(_height(rows) for _, rows in self._headings)
        self.height = self._top + max(self.data.bottom, self.output.bottom)

    @classmethod
    def fitting(cls, subject: Subject, room: float) -> Panel:
        """Return a panel. Each grid has as many columns as fit into `room`, but at least one."""
        columns = index_columns = MOST_COLUMNS
        while True:
            panel = cls(Scene(subject, columns, index_columns), room)
            fewer = tuple(
                max(1, count if fits else count - 1) for count, fits in zip((index_columns, columns), panel.fits, strict=True)
            )
            if fewer == (index_columns, columns):
                return panel
            index_columns, columns = fewer

    def elements(self) -> Iterator[svg.Element]:
        """Yield the SVG elements of headings, grids and lines."""
        if self.indices is not None:
            indices = [*_drawn(0, self._index_heading), *self.indices.elements()]
            yield moved(indices, 0, self._index_top)
        data_and_output: list[svg.Element] = []
        for x, rows in self._headings:
            data_and_output += _drawn(x, rows)
        data_and_output += [*self.data.elements(), *self.output.elements(), *lines(self.scene, self.data, self.output)]
        yield moved(data_and_output, 0, self._top)


def _heading(cutout: Cutout, room: float) -> list[tuple[str, bool]]:
    """Return the lines of a tensor's heading, each with True if it belongs to the tensor's name."""
    name = wrapped(cutout.tensor.name, room, NAME_SIZE, BOLD)
    return [*((row, True) for row in name), *((row, False) for row in heading(cutout, room))]


def _height(rows: list[tuple[str, bool]]) -> float:
    return PANEL_LINE * len(rows) + LABELS


def _drawn(x: float, rows: list[tuple[str, bool]]) -> Iterator[svg.Element]:
    y = -_height(rows)
    for content, is_name in rows:
        y += PANEL_LINE
        yield text(x, y - 3, content, size=NAME_SIZE, bold=True) if is_name else text(x, y - 3, content, colour=SOFT)


WIDTH = 480.0
"""Width of a diagram in pixels. On a phone that is 390 pixels wide, the smallest text is 12 · 390 / 480 = 9.75 pixels high."""

EDGE, SPACE = 16.0, 26.0
"""Width of the margin, and vertical space between the parts of a diagram, in pixels."""

ROOM = WIDTH - 2 * EDGE

TITLE, LINE, MARK = 15.0, 16.0, 20.0
"""Font size of the title, and heights of a line of text and of a legend entry with a coloured mark, in pixels."""


def draw(*subjects: Subject) -> str:
    """Return an SVG document with one diagram per subject. Equal subjects give equal documents."""
    if not subjects:
        raise ValueError("there is nothing to draw")
    sections = [_Section(subject) for subject in subjects]
    drawn: list[svg.Element] = []
    y = EDGE
    for number, section in enumerate(sections):
        if number:
            drawn.append(line(EDGE, y, WIDTH - EDGE, y, colour=RULE))
            y += SPACE
        drawn.append(moved(section.elements, EDGE, y))
        y += section.height + SPACE
    title = ", ".join(dict.fromkeys(subject.title for subject in subjects))
    description = " ".join(section.description for section in sections)
    return document(title, description, drawn, WIDTH, y - SPACE + EDGE)


class _Section:
    """The diagram of one subject. `description`: a text for screen readers."""

    def __init__(self, subject: Subject) -> None:
        panel = Panel.fitting(subject, ROOM)
        remarks = list(_remarks(panel.scene))
        self.description = f"{subject.title}. " + " ".join(remarks)
        self.elements: list[svg.Element] = []
        self.height = 0.0
        for row in wrapped(subject.title, ROOM, TITLE, BOLD):
            self._add([text(0, 14, row, size=TITLE, bold=True)], 20)
        attributes = ", ".join(f"{name} {value}" for name, value in subject.attributes.items())
        for row in wrapped(attributes, ROOM):
            self._add([text(0, 12, row, colour=SOFT)], LINE)
        self.height += 8
        self._add(list(panel.elements()), panel.height + SPACE)
        for mark in _marks(panel.scene):
            self._add(mark, MARK)
        for row in (row for remark in remarks for row in wrapped(remark, ROOM)):
            self._add([text(0, 10, row)], LINE)
        self.height += SPACE - 6
        half = (ROOM - SPACE) / 2
        if max(table.width for table in _tables(subject, ROOM)) <= half:
            tables = zip(_tables(subject, half), (0, half + SPACE), strict=True)
            self._add([moved(list(table.elements()), x, 0) for table, x in tables], max(t.height for t in _tables(subject, half)))
        else:
            for table in _tables(subject, ROOM):
                self._add(list(table.elements()), table.height + 8)

    def _add(self, elements: Sequence[svg.Element], height: float) -> None:
        """Append elements below the elements added before."""
        self.elements.append(moved(elements, 0, self.height))
        self.height += height


def _tables(subject: Subject, room: float) -> tuple[PlanTable, PlanTable]:
    plan = subject.plan
    lowered = PlanTable("Plan as lowered", plan, room, subject.lookup_axes)
    return lowered, PlanTable("Canonical plan", canonicalise(plan), room)


def _marks(scene: Scene) -> Iterator[Sequence[svg.Element]]:
    """Yield the legend entries for the outcomes of indices out of range."""
    meanings = {
        IndexOutcome.CLAMPED: "index out of range: clamped to the nearest valid position",
        IndexOutcome.FILLED: f"index out of range: the fill value 0x{scene.subject.plan.fill.hex()} is written",
        IndexOutcome.REFUSED: "index out of range: IndexError, the output is not to be used",
    }
    for outcome in IndexOutcome:
        if outcome in scene.outcomes and outcome in meanings:
            swatch: list[svg.Element] = [box(0, 1, 22, 13, fill=SHADE, stroke=ALERT, stroke_width=1.6, dashed=True)]
            if outcome is IndexOutcome.FILLED:
                swatch += hatching(0, 1, 22, 13, ALERT)
            if outcome is IndexOutcome.REFUSED:
                swatch += [line(3, 3, 19, 12, colour=ALERT), line(3, 12, 19, 3, colour=ALERT)]
            yield [*swatch, text(30, 12, meanings[outcome])]


def _remarks(scene: Scene) -> Iterator[str]:
    """Yield the sentences below the grids."""
    subject = scene.subject
    if subject.plan.empty:
        yield f"{subject.output.name} has no elements: nothing is read or written."
    else:
        data, output = subject.data.name, subject.output.name
        if subject.elements is None:
            yield (
                f"Numbers in {data} are addresses, in elements from the start of its buffer; those in {output} are the addresses "
                "that each element is read from."
            )
        else:
            yield (
                f"Each cell has an element's value and, behind @, its address in {data}, in elements from the start of the "
                f"buffer. An element of {output} has the address that it is read from."
            )
    padded = [cutout.tensor.name for cutout in (scene.indices, scene.data, scene.output) if cutout is not None and cutout.padding]
    if padded:
        yield f"Hatched cells of {' and '.join(padded)} are padding: they belong to the buffer, but to no element."
    if scene.indices is not None and scene.values:
        bad = any(item.outcome is not IndexOutcome.VALID for item in scene.resolved.values())
        origin = subject.origin or "invented for this picture" + (", one of them out of range" if bad else "")
        yield f"Values in {scene.indices.tensor.name}: {origin}. What an index picks has its colour."
    if subject.plan.out_of_bounds is OutOfBounds.PROMISE and IndexOutcome.CLAMPED in scene.outcomes:
        yield "The caller promised that no index is out of range."
    if scene.runs > len(scene.joins):
        yield f"{len(scene.joins)} of the {scene.runs} joins between the cells shown are drawn."
    yield f"Bytes moved in one run: {bytes_moved(subject.plan)}."
