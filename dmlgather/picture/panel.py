"""The three grids side by side, and the lines between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import svg

from dmlgather.picture.canvas import ALERT, INK, PAPER, RULE, SOFT, Point, box, curve, dot, hue, text, tint
from dmlgather.picture.grids import CellStyle, Grid
from dmlgather.picture.scene import Cell, Join, Scene, cell_width, label_width
from dmlgather.plan.interpreter import IndexOutcome, ResolvedIndex

BETWEEN = {"picks": 90.0, "joins": 130.0}
"""Space between indices and input, and between input and output."""

CELL_HEIGHT, INDEX_HEIGHT = 24.0, 32.0

MOST_PICKS = 12
"""With more joins than this, no lines lead from the indices to the input."""

LONGEST = 10
"""Characters of an index value that fit into a cell."""

LANES = 3
"""Lines that fit below the numbers of a row of cells."""

DASHES = {IndexOutcome.VALID: (), IndexOutcome.CLAMPED: (5.0, 3.0)}


class Panel:
    """A scene, laid out from (0, 0) in `width` x `height`."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        plan = scene.subject.plan
        at = 0.0
        self.indices: Grid | None = None
        if scene.indices is not None:
            labels = [_short(value) for value in scene.values.values()] + [_second(item) for item in scene.resolved.values()]
            width = max(map(label_width, labels), default=label_width(""))
            self.indices = Grid(scene.indices, at, 0, (width, INDEX_HEIGHT))
            at = self.indices.right + BETWEEN["picks"]
        cell = (cell_width(plan.in_extent), CELL_HEIGHT)
        self.data = Grid(scene.data, at, 0, cell)
        self.output = Grid(scene.output, self.data.right + BETWEEN["joins"], 0, cell, labels_left=False)
        self.grids = [grid for grid in (self.indices, self.data, self.output) if grid is not None]
        self.width = self.output.right
        self.height = max(grid.bottom for grid in self.grids)
        self._read_by: dict[int, int] = {}
        for target, found in scene.reads.items():
            if found.source is not None:
                self._read_by.setdefault(found.source, scene.colour(target))

        self.picks = self._picks()
        self._in_runs = {
            (join.target[0], join.target[1] + number) for join in scene.joins if join.length > 1 for number in range(join.length)
        }

    def elements(self) -> Iterator[svg.Element]:
        """All elements, from the back to the front."""
        styles = {id(self.data): self._input_style, id(self.output): self._output_style, id(self.indices): self._index_style}
        for grid in self.grids:
            yield from grid.under(styles[id(grid)])
        yield from self._lines()
        for grid in self.grids:
            yield from grid.over(styles[id(grid)])

    def _lines(self) -> Iterator[svg.Element]:
        leaving: Counter[int] = Counter()
        arriving: Counter[int] = Counter()
        for join in self.scene.joins:
            colour = hue(join.colour)
            yield from self._outlines(join, colour)
            before = self._departure(join, leaving)
            after = self._arrival(join, arriving)
            facts = {
                "join": join.outcome.value,
                "from": _at(self.scene.data.coordinates(*join.source)),
                "to": _at(self.scene.output.coordinates(*join.target)),
                "cells": str(join.length),
                "step": str(join.step),
            }
            yield curve(before, after, colour=colour, dashes=DASHES.get(join.outcome, ()), data=facts)
            yield dot(*before[0], colour)
            yield dot(*after[-1], colour)
            if join.length > 1 and join.step != 1:
                yield self._step(join, before[-1], colour)
        yield from self.picks

    def _outlines(self, join: Join, colour: str) -> Iterator[svg.Element]:
        """Rims around the cells that are read and those that are written, if they are several."""
        if join.length == 1:
            return
        low, high = join.span
        last = (join.target[0], join.target[1] + join.length - 1)
        clamped = join.outcome is IndexOutcome.CLAMPED
        for grid, start, end, marked in ((self.data, low, high, False), (self.output, join.target, last, clamped)):
            x, y, _, height = grid.place(start)
            right, _, width, _ = grid.place(end)
            stroke = ALERT if marked else colour
            yield box(x, y, right + width - x, height, fill="none", stroke=stroke, stroke_width=1.6, dashed=marked)

    def _departure(self, join: Join, lanes: Counter[int]) -> list[Point]:
        """From the right of the cells read to the right edge of the grid, below the numbers of the cells on the way."""
        _, cell = join.span
        x, y, width, height = self.data.place(cell)
        if cell[1] == self.data.cutout.columns[-1]:
            return [(x + width, y + height / 2), (self.data.edge, y + height / 2)]
        level = y + height - self._lane(lanes, cell[0])
        return [(x + width, level), (self.data.edge, level)]

    def _arrival(self, join: Join, lanes: Counter[int]) -> list[Point]:
        """From the left edge of the grid to the left of the cells written."""
        x, y, _, height = self.output.place(join.target)
        if join.target[1] == self.output.cutout.columns[0]:
            return [(x, y + height / 2)]
        level = y + height - self._lane(lanes, join.target[0])
        return [(self.output.left, level), (x, level)]

    @staticmethod
    def _lane(lanes: Counter[int], row: int) -> float:
        lanes[row] += 1
        return 1.5 + 2.0 * ((lanes[row] - 1) % LANES)

    @staticmethod
    def _step(join: Join, start: Point, colour: str) -> svg.Element:
        """The step of a run, written on the level part of its line."""
        content = f"step {join.step}" if join.step else "repeated"
        return text(start[0] + 5, start[1] - 4, content, size=10, colour=colour, halo=True)

    def _picks(self) -> list[svg.Element]:
        """Lines from the indices to the input rows that they select; none if any would cross a cell. They lead from the right end
        of each row, or from below the only row, to the left end of the input's rows.
        """
        joins = [join for join in self.scene.joins if join.indices]
        starts = {join.indices[-1] for join in joins}
        if self.indices is None or len(joins) > MOST_PICKS or not starts <= self.scene.values.keys():
            return []
        cutout, first = self.indices.cutout, self.scene.data.columns[:1]
        at_edge = all(cell[1] == cutout.columns[-1] for cell in starts)
        if any(join.span[0][1] not in first for join in joins) or not (at_edge or len(cutout.rows) == 1):
            return []
        lanes = {cell: number for number, cell in enumerate(sorted(starts, reverse=True))}
        drawn = []
        for join in joins:
            cell = join.indices[-1]
            x, y, width, height = self.indices.place(cell)
            _, top, _, tall = self.data.place(join.source)
            lane = y + height + 8 + 5 * lanes[cell]
            below = [(x + width / 2, y + height), (x + width / 2, lane), (self.indices.edge, lane)]
            beside = [(x + width, y + height / 2), (self.indices.edge, y + height / 2)]
            end = (self.data.x, top + tall / 2)
            path = beside if at_edge else below
            drawn.append(curve(path, [end], colour=hue(join.colour), width=1.1, dashes=(1.5, 2.5)))
        return drawn

    def _input_style(self, cell: Cell) -> CellStyle:
        cutout = self.scene.data
        address, coordinates = cutout.address(*cell), cutout.coordinates(*cell)
        colour = self._read_by.get(address)
        return CellStyle(
            text=str(address),
            fill=PAPER if colour is None else tint(hue(colour)),
            stroke=RULE if colour is None else hue(colour),
            colour=SOFT if colour is None else INK,
            hint=f"{cutout.tensor.name}[{_at(coordinates)}] is element {address} of its buffer",
            data=(("tensor", cutout.tensor.name), ("at", _at(coordinates))),
        )

    def _output_style(self, cell: Cell) -> CellStyle:
        scene = self.scene
        found, coordinates = scene.reads[cell], scene.output.coordinates(*cell)
        name = f"{scene.output.tensor.name}[{_at(coordinates)}]"
        data = (("tensor", scene.output.tensor.name), ("at", _at(coordinates)), ("outcome", found.outcome.value))
        if found.outcome is IndexOutcome.REFUSED:
            return CellStyle(stroke=ALERT, dashed=True, crossed=True, hint=f"{name} is not written", data=data)
        if found.outcome is IndexOutcome.FILLED:
            return CellStyle(
                text="fill", fill=PAPER, stroke=ALERT, dashed=True, hatched=True, hint=f"{name} gets the fill value", data=data
            )
        colour = hue(scene.colour(cell))
        clamped = found.outcome is IndexOutcome.CLAMPED
        marked = clamped and cell not in self._in_runs  # the rim of a run marks its cells
        return CellStyle(
            text=str(found.source),
            fill=tint(colour),
            stroke=ALERT if marked else colour,
            stroke_width=1.6 if marked else 1,
            dashed=marked,
            hint=f"{name} is read from element {found.source}" + (", to which an index was clamped" if clamped else ""),
            data=data,
        )

    def _index_style(self, cell: Cell) -> CellStyle:
        scene = self.scene
        assert scene.indices is not None
        coordinates, found = scene.indices.coordinates(*cell), scene.resolved.get(cell)
        name, value = f"{scene.indices.tensor.name}[{_at(coordinates)}]", scene.values[cell]
        data: tuple[tuple[str, str], ...] = (("tensor", scene.indices.tensor.name), ("at", _at(coordinates)))
        if found is None:
            return CellStyle(
                text=_short(value), fill=PAPER, colour=SOFT, hint=f"{name} is used by no output element that is shown", data=data
            )
        bad = found.outcome is not IndexOutcome.VALID
        colour = hue(self._index_colour(found.address))
        return CellStyle(
            text=_short(value),
            second=_second(found),
            fill=tint(colour),
            stroke=ALERT if bad else colour,
            stroke_width=1.6 if bad else 1,
            dashed=bad,
            crossed=found.outcome is IndexOutcome.REFUSED,
            hatched=found.outcome is IndexOutcome.FILLED,
            hint=f"{name} is {value}" + (f", out of range: {found.outcome.value}" if bad else ""),
            data=(*data, ("outcome", found.outcome.value)),
        )

    def _index_colour(self, address: int) -> int:
        return next(number for addresses, number in self.scene.colours.items() if address in addresses)


def _short(value: int) -> str:
    """A number, shortened to fit into a cell; the cell's hint has all digits."""
    digits = str(value)
    return digits if len(digits) <= LONGEST else f"{digits[:5]}…{digits[-3:]}"


def _second(found: ResolvedIndex) -> str:
    """The position of an index, if it differs from its value."""
    if found.position is None:
        return "→ fill" if found.outcome is IndexOutcome.FILLED else "refused"
    return "" if found.position == found.value else f"→ {found.position}"


def _at(coordinates: tuple[int, ...]) -> str:
    return ",".join(map(str, coordinates))
