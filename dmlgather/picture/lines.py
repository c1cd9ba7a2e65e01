"""The lines between input and output. They run beside cells, never over them: from the right end of a row, or below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import svg

from dmlgather.picture.canvas import Point, dot, hue, path, tip
from dmlgather.picture.cell_styles import at
from dmlgather.picture.cutout import Cell
from dmlgather.picture.grids import Grid
from dmlgather.picture.scene import Scene
from dmlgather.plan.interpreter import IndexOutcome

DASHES = {IndexOutcome.VALID: (), IndexOutcome.CLAMPED: (5.0, 3.0)}


@dataclass(frozen=True, slots=True)
class Lanes:
    """Which level below its row each group of cells uses whose line cannot leave from the row's end. Level 0 is the highest."""

    levels: dict[tuple[Cell, ...], int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[int, int]:
        """The number of levels below each row."""
        rows = [cells[0][0] for cells in self.levels]
        return {row: rows.count(row) for row in rows}


def departures(scene: Scene) -> Lanes:
    """The lanes below the input. A group that begins further left is lower, so that no other line crosses its way down."""
    cutout = scene.data
    ends = not cutout.shown_padding
    groups = {join.sources for join in scene.joins if not (ends and _at_edge(join.sources, cutout.columns[-1]))}
    return _lanes(groups, lambda cells: -cells[0][1])


def arrivals(scene: Scene) -> Lanes:
    """The lanes below the output. A group that ends further right is lower."""
    cutout = scene.output
    groups = {join.targets for join in scene.joins if not _at_edge(join.targets, cutout.columns[0])}
    return _lanes(groups, lambda cells: cells[-1][1])


def lines(scene: Scene, data: Grid, output: Grid) -> Iterator[svg.Element]:
    """All lines, each with a dot at what is read and the tip of an arrow at what is written."""
    leaving, arriving = departures(scene).levels, arrivals(scene).levels
    for join in scene.joins:
        colour = hue(join.colour)
        before = _strokes(data, join.sources, leaving.get(join.sources), data.edge)
        after = _strokes(output, join.targets, arriving.get(join.targets), output.left)
        start, end = _outer(before, data, join.sources[-1], right=True), _outer(after, output, join.targets[0], right=False)
        facts = {
            "join": join.outcome.value,
            "from": at(scene.data.coordinates(*join.source)),
            "to": at(scene.output.coordinates(*join.target)),
            "cells": str(join.length),
            "step": str(join.step),
        }
        yield path([*before, *after], (start, end), colour=colour, dashes=DASHES.get(join.outcome, ()), data=facts)
        yield from (dot(*point, colour) for point in ([stroke[0] for stroke in before] or [start]))
        yield from (tip(*stroke[0], colour, up=True) for stroke in after)
        if not after:
            yield tip(*end, colour, up=False)


def _strokes(grid: Grid, cells: Sequence[Cell], level: int | None, edge: float) -> list[list[Point]]:
    """A stroke down from each cell, of which the outermost goes on to the edge; none where no lane is needed."""
    if level is None:
        return []
    low = grid.lane(cells[0][0], level)
    drops = []
    for cell in cells:
        x, y, width, height = grid.place(cell)
        drops.append([(x + width / 2, y + height), (x + width / 2, low)])
    outermost = max(drops, key=lambda drop: abs(drop[0][0] - edge))
    outermost.append((edge, low))
    return drops


def _outer(strokes: Sequence[Sequence[Point]], grid: Grid, cell: Cell, *, right: bool) -> Point:
    """Where the curve meets the grid: at the end of the lane, or at the side of the cell."""
    ends = [stroke[-1] for stroke in strokes if len(stroke) > 2]
    if ends:
        return ends[0]
    x, y, width, height = grid.place(cell)
    return x + (width if right else 0), y + height / 2


def _at_edge(cells: Sequence[Cell], edge: int) -> bool:
    """Whether the cells are neighbours up to the column at an edge."""
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
