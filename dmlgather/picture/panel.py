"""The grids of one picture and the lines between them: indices above; below them, input and output side by side."""

from __future__ import annotations

from collections.abc import Iterator

import svg

from dmlgather.picture.canvas import BOLD, SOFT, moved, text, wrapped
from dmlgather.picture.cell_styles import data_style, index_style, output_style
from dmlgather.picture.cutout import Cutout
from dmlgather.picture.grids import LABELS, Grid, heading
from dmlgather.picture.lines import arrivals, departures, lines
from dmlgather.picture.scene import MOST_COLUMNS, Scene
from dmlgather.picture.subject import Subject

BETWEEN, NEAREST = 72.0, 236.0
"""Space between input and output, and the least x of the output."""

LEAST_HEADING = 130.0
"""Width of the output's heading, at least."""

BELOW = 20.0
"""Space between the indices and the grids below them."""

NAME, LINE = 15.0, 15.0
"""Heights of a tensor's name and of a line below it."""

NAME_SIZE = 13.0
"""Font size of a tensor's name."""


class Panel:
    """A scene, laid out from (0, 0) in `room` x `height`. fits: whether indices, and the other grids, are as narrow as `room`."""

    def __init__(self, scene: Scene, room: float) -> None:
        self.scene, self.room = scene, room
        self.indices: Grid | None = None
        if scene.indices is not None:
            self.indices = Grid(scene.indices, 0, {cell: index_style(scene, cell) for cell in scene.indices.cells()})
        read_by: dict[int, int] = {}
        for target, found in scene.reads.items():
            if found.source is not None:
                read_by.setdefault(found.source, scene.colour(target))
        styles = {cell: data_style(scene, cell, read_by) for cell in scene.data.cells()}
        self.data = Grid(scene.data, 0, styles, departures(scene).counts)
        written = {cell: output_style(scene, cell) for cell in scene.output.cells()}
        x = max(self.data.edge + BETWEEN, NEAREST)
        self.output = Grid(scene.output, x, written, arrivals(scene).counts, labels_left=False)
        self.fits = (self.indices is None or self.indices.right <= room, max(self.output.right, x + LEAST_HEADING) <= room)
        rooms = ((scene.data, 0.0, x - 12), (scene.output, x, room - x))
        self._headings = [(at, _heading(cutout, width)) for cutout, at, width in rooms]
        self._index_heading = [] if scene.indices is None else _heading(scene.indices, room)
        self._index_top = _height(self._index_heading)
        below = 0.0 if self.indices is None else self._index_top + self.indices.bottom + BELOW
        self._top = below + max(_height(rows) for _, rows in self._headings)
        self.height = self._top + max(self.data.bottom, self.output.bottom)

    @classmethod
    def fitting(cls, subject: Subject, room: float) -> Panel:
        """The panel of a subject with as many columns of each grid as `room` has place for, at least one."""
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
        """Headings, grids, and lines."""
        if self.indices is not None:
            shown = [*_drawn(0, self._index_heading), *self.indices.elements()]
            yield moved(shown, 0, self._index_top)
        both: list[svg.Element] = []
        for x, rows in self._headings:
            both += _drawn(x, rows)
        both += [*self.data.elements(), *self.output.elements(), *lines(self.scene, self.data, self.output)]
        yield moved(both, 0, self._top)


def _heading(cutout: Cutout, room: float) -> list[tuple[str, bool]]:
    """The lines of a heading, and which of them are the name."""
    name = wrapped(cutout.tensor.name, room, NAME_SIZE, BOLD)
    return [*((row, True) for row in name), *((row, False) for row in heading(cutout, room))]


def _height(rows: list[tuple[str, bool]]) -> float:
    return LINE * len(rows) + LABELS


def _drawn(x: float, rows: list[tuple[str, bool]]) -> Iterator[svg.Element]:
    """A heading whose column numbers end at height 0."""
    y = -_height(rows)
    for content, is_name in rows:
        y += LINE
        yield text(x, y - 3, content, size=NAME_SIZE, bold=True) if is_name else text(x, y - 3, content, colour=SOFT)
