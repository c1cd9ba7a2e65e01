"""Whole pictures: title, grids, legend, tables and bytes moved, as an SVG document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import svg

from dmlgather.picture.canvas import ALERT, BOLD, RULE, SHADE, SOFT, box, document, hatching, line, moved, text, wrapped
from dmlgather.picture.panel import Panel
from dmlgather.picture.plan_table import PlanTable
from dmlgather.picture.scene import Scene
from dmlgather.picture.subject import Subject
from dmlgather.plan import OutOfBounds, bytes_moved, canonicalise
from dmlgather.plan.interpreter import IndexOutcome

WIDTH = 480.0
"""Width of a picture. On a telephone, 390 pixels wide, the smallest text is then 9.75 pixels high."""

EDGE, SPACE = 16.0, 26.0
"""Width of the margin, and height between the parts of a picture."""

ROOM = WIDTH - 2 * EDGE

TITLE, LINE, MARK = 15.0, 16.0, 20.0
"""Font size of the title, and heights of a line of text and of a mark in the legend."""


def draw(*subjects: Subject) -> str:
    """An SVG document with a picture of each subject, one below the other. Equal subjects give equal text.

    ValueError for none, and for a plan that cannot run (`IndexPlan.check_limits`).
    """
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
    """One subject's picture, laid out from (0, 0): `elements`, of `height`. description: the picture in words."""

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
        """Elements below those that there are."""
        self.elements.append(moved(elements, 0, self.height))
        self.height += height


def _tables(subject: Subject, room: float) -> tuple[PlanTable, PlanTable]:
    plan = subject.plan
    lowered = PlanTable("Plan as lowered", plan, room, subject.lookup_axes)
    return lowered, PlanTable("Canonical plan", canonicalise(plan), room)


def _marks(scene: Scene) -> Iterator[Sequence[svg.Element]]:
    """The marks of the legend: one for each way in which indices out of range are treated."""
    said = {
        IndexOutcome.CLAMPED: "index out of range: clamped to the nearest valid position",
        IndexOutcome.FILLED: f"index out of range: the fill value 0x{scene.subject.plan.fill.hex()} is written",
        IndexOutcome.REFUSED: "index out of range: IndexError, the output is not to be used",
    }
    for outcome in IndexOutcome:
        if outcome in scene.outcomes and outcome in said:
            swatch: list[svg.Element] = [box(0, 1, 22, 13, fill=SHADE, stroke=ALERT, stroke_width=1.6, dashed=True)]
            if outcome is IndexOutcome.FILLED:
                swatch += hatching(0, 1, 22, 13, ALERT)
            if outcome is IndexOutcome.REFUSED:
                swatch += [line(3, 3, 19, 12, colour=ALERT), line(3, 12, 19, 3, colour=ALERT)]
            yield [*swatch, text(30, 12, said[outcome])]


def _remarks(scene: Scene) -> Iterator[str]:
    """The sentences of the legend."""
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
