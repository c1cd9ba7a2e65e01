"""Whole pictures: title, grids, legend, tables and bytes moved, as an SVG document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import svg

from dmlgather.picture.canvas import ALERT, INK, RULE, SHADE, SOFT, box, document, line, moved, text
from dmlgather.picture.panel import Panel
from dmlgather.picture.plan_table import PlanTable
from dmlgather.picture.scene import Scene
from dmlgather.picture.subject import Subject
from dmlgather.plan import OutOfBounds, bytes_moved, canonicalise
from dmlgather.plan.interpreter import IndexOutcome

EDGE, SPACE = 24.0, 26.0
"""Width of the margin, and height between the parts of a picture."""

NARROWEST = 640.0


def draw(*subjects: Subject) -> str:
    """An SVG document with a picture of each subject, one below the other. Equal subjects give equal text.

    ValueError for none, and for a plan that cannot run (`IndexPlan.check_limits`).
    """
    if not subjects:
        raise ValueError("there is nothing to draw")
    sections = [_Section(subject) for subject in subjects]
    width = 2 * EDGE + max(NARROWEST, *(section.width for section in sections))
    drawn: list[svg.Element] = []
    y = EDGE
    for number, section in enumerate(sections):
        if number:
            drawn.append(line(EDGE, y, width - EDGE, y, colour=RULE))
            y += SPACE
        drawn.append(moved(list(section.elements(width - 2 * EDGE)), EDGE, y))
        y += section.height(width - 2 * EDGE) + SPACE
    height = y - SPACE + EDGE
    title = ", ".join(dict.fromkeys(subject.title for subject in subjects))
    description = " ".join(section.description for section in sections)
    return document(title, description, drawn, width, height)


class _Section:
    """One subject's picture, laid out from (0, 0)."""

    def __init__(self, subject: Subject) -> None:
        self.scene = Scene(subject)
        self.panel = Panel(self.scene)
        plan = subject.plan
        self.tables = [PlanTable("Plan as lowered", plan, subject.lookup_axes), PlanTable("Canonical plan", canonicalise(plan))]
        self.width = max(self.panel.width, sum(table.width for table in self.tables) + 60)
        self.remarks = list(_remarks(self.scene, dotted=bool(self.panel.picks)))
        self.attributes = ", ".join(f"{name} {value}" for name, value in subject.attributes.items())

    @property
    def description(self) -> str:
        """The picture in words, for screen readers."""
        return f"{self.scene.subject.title}. " + " ".join(self.remarks)

    def height(self, width: float) -> float:
        """The section's height at this width."""
        return self._top(width) + self.panel.height + SPACE + self._legend_height(width) + max(t.height for t in self.tables)

    def elements(self, width: float) -> Iterator[svg.Element]:
        """Everything, top to bottom."""
        yield text(0, 14, self.scene.subject.title, size=17, bold=True)
        for number, row in enumerate(_wrapped(self.attributes, width)):
            yield text(0, 33 + 15 * number, row, size=12, colour=SOFT)
        y = self._top(width)
        yield moved(list(self.panel.elements()), 0, y)
        y += self.panel.height + SPACE
        for number, mark in enumerate(_marks(self.scene)):
            yield moved(list(mark), 0, y + 20 * number)
        y += 20 * len(list(_marks(self.scene)))
        for row in self._remark_rows(width):
            yield text(0, y + 10, row, size=11, colour=INK)
            y += 15
        y += SPACE - 6
        x = 0.0
        for table in self.tables:
            yield moved(list(table.elements()), x, y)
            x += table.width + 60

    def _top(self, width: float) -> float:
        return 34.0 + 15 * len(_wrapped(self.attributes, width))

    def _legend_height(self, width: float) -> float:
        return 20.0 * len(list(_marks(self.scene))) + 15 * len(self._remark_rows(width)) + SPACE - 6

    def _remark_rows(self, width: float) -> list[str]:
        return [row for remark in self.remarks for row in _wrapped(remark, width)]


def _wrapped(content: str, width: float) -> list[str]:
    return wrap(content, max(40, int(width / 5.7)))


def _marks(scene: Scene) -> Iterator[Sequence[svg.Element]]:
    """The marks of the legend: one for each way in which indices out of range are treated."""
    subject = scene.subject
    promised = ", although the caller promised that there is none" if subject.plan.out_of_bounds is OutOfBounds.PROMISE else ""
    said = {
        IndexOutcome.CLAMPED: f"index out of range{promised}: clamped to the nearest valid position (dashed)",
        IndexOutcome.FILLED: f"index out of range: the fill value 0x{subject.plan.fill.hex()} is written (hatched)",
        IndexOutcome.REFUSED: "index out of range: IndexError, and the output is not to be used (crossed)",
    }
    for outcome in IndexOutcome:
        if outcome in scene.outcomes and outcome in said:
            swatch: list[svg.Element] = [box(0, 1, 22, 13, fill=SHADE, stroke=ALERT, stroke_width=1.6, dashed=True)]
            if outcome is IndexOutcome.FILLED:
                swatch += [line(x, 1, x - 8, 14, colour=ALERT, width=0.7) for x in (10, 16, 22)]
            if outcome is IndexOutcome.REFUSED:
                swatch += [line(3, 3, 19, 12, colour=ALERT), line(3, 12, 19, 3, colour=ALERT)]
            yield [*swatch, text(30, 12, said[outcome], size=11)]


def _remarks(scene: Scene, *, dotted: bool) -> Iterator[str]:
    """The sentences of the legend. dotted: whether lines lead from indices to the input."""
    subject = scene.subject
    if subject.plan.empty:
        yield f"{subject.output.name} has no elements: nothing is read or written."
    else:
        data, output = subject.data.name, subject.output.name
        yield (
            f"Numbers in {data} are addresses, in elements from the start of its buffer; those in {output} are the addresses "
            "that each element is read from."
        )
    padded = [cutout.tensor.name for cutout in (scene.indices, scene.data, scene.output) if cutout is not None and cutout.padding]
    if padded:
        yield f"Hatched cells of {' and '.join(padded)} are padding: they belong to the buffer, but to no element."
    if scene.indices is not None and scene.values:
        lines = " and a dotted line" if dotted else ""
        bad = any(item.outcome is not IndexOutcome.VALID for item in scene.resolved.values())
        origin = subject.origin or "invented for this picture" + (", one of them out of range" if bad else "")
        yield f"Values in {scene.indices.tensor.name}: {origin}. What an index picks has its colour{lines}."
    if scene.runs > len(scene.joins):
        yield f"{len(scene.joins)} of the {scene.runs} joins between the cells shown are drawn."
    yield f"Bytes moved in one run: {bytes_moved(subject.plan)}."
