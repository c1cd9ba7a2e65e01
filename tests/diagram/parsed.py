"""The facts of a picture, read by an XML parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"

Cell = tuple[int, ...]

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A cell's rectangle."""

    x: float
    y: float
    width: float
    height: float
    outcome: str | None
    fill: str = "none"
    opacity: float = 1.0

    def holds(self, point: Point, margin: float = 0.0) -> bool:
        """Return True if a point lies inside, at least `margin` from the border."""
        x, y = point
        return self.x + margin < x < self.x + self.width - margin and self.y + margin < y < self.y + self.height - margin

    def meets(self, point: Point) -> bool:
        """Return True if a point lies on the border."""
        x, y = point
        near = self.x - 0.11 <= x <= self.x + self.width + 0.11 and self.y - 0.11 <= y <= self.y + self.height + 0.11
        return near and not self.holds(point, 0.11)


@dataclass(frozen=True)
class Join:
    """A line from input to output. strokes: its parts, as points along them. Curves have many."""

    source: Cell
    target: Cell
    cells: int
    step: int
    outcome: str
    strokes: list[list[Point]]
    colour: str

    @property
    def sources(self) -> list[Cell]:
        """The read cells, in the order of the written ones."""
        return along(self.source, self.cells, self.step)

    @property
    def targets(self) -> list[Cell]:
        """The written cells."""
        return along(self.target, self.cells, 1)


@dataclass(frozen=True)
class Label:
    """A text, with the position of its start, end or middle."""

    text: str
    x: float
    y: float
    size: float
    anchor: str
    mono: bool
    bold: bool
    colour: str


class Picture:
    """A picture with one operator, in the coordinates of the page."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)
        self.boxes: dict[str, dict[Cell, Box]] = {}
        self.rectangles: list[Box] = []
        self.texts: dict[str, dict[Cell, str]] = {}
        self.below: dict[str, dict[Cell, str]] = {}
        self.table: dict[tuple[str, str, str], str] = {}
        self.labels: list[Label] = []
        self.joins: list[Join] = []
        self._read(self.root, (0.0, 0.0))

    def _read(self, element: ElementTree.Element, origin: Point) -> None:
        facts, (x, y) = element.attrib, origin
        if moved := re.fullmatch(r"translate\((\S+)[, ]+(\S+)\)", facts.get("transform", "")):
            x, y = x + float(moved[1]), y + float(moved[2])
        match element.tag.removeprefix(SVG):
            case "rect":
                width, height = float(facts["width"]), float(facts["height"])
                place = (x + float(facts["x"]), y + float(facts["y"]))
                fill, opacity = facts.get("fill", "none"), float(facts.get("fill-opacity", 1))
                box = Box(*place, width, height, facts.get("data-outcome"), fill, opacity)
                self.rectangles.append(box)
                if "data-tensor" in facts:
                    self.boxes.setdefault(facts["data-tensor"], {})[cell(facts["data-at"])] = box
            case "text":
                content = element.text or ""
                for part, found in (("text", self.texts), ("below", self.below)):
                    if f"data-tensor-{part}" in facts:
                        found.setdefault(facts[f"data-tensor-{part}"], {})[cell(facts[f"data-at-{part}"])] = content
                if "data-plan" in facts:
                    self.table[facts["data-plan"], facts["data-row"], facts["data-column"]] = content
                numbers = (x + float(facts["x"]), y + float(facts["y"]), float(facts["font-size"]))
                mono, bold = "monospace" in facts["font-family"], facts.get("font-weight") == "bold"
                self.labels.append(Label(content, *numbers, facts["text-anchor"], mono, bold, facts["fill"]))
            case "path" if "data-join" in facts:
                strokes = [[(x + a, y + b) for a, b in stroke] for stroke in strokes_of(facts["d"])]
                source, target = cell(facts["data-from"]), cell(facts["data-to"])
                cells, step = int(facts["data-cells"]), int(facts["data-step"])
                self.joins.append(Join(source, target, cells, step, facts["data-join"], strokes, facts["stroke"]))
        for child in element:
            self._read(child, (x, y))

    @property
    def words(self) -> str:
        """All texts."""
        return " ".join(label.text for label in self.labels)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return float(self.root.attrib["width"]), float(self.root.attrib["height"])


def cell(text: str) -> Cell:
    return tuple(map(int, text.split(","))) if text else ()


def strokes_of(path: str) -> list[list[Point]]:
    """Return the parts of a path of the commands M, L and C, as points at most two units apart."""
    strokes: list[list[Point]] = []
    for command, rest in re.findall(r"([MLC])([^MLC]*)", path):
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", rest)]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        if command == "M":
            strokes.append(points)
            continue
        controls = [strokes[-1][-1], *points]
        steps = max(1, round(max(abs(a - b) for pair in zip(controls[0], controls[-1], strict=True) for a, b in [pair])))
        strokes[-1] += [bezier(controls, number / steps) for number in range(1, steps + 1)]
    return strokes


def bezier(points: list[Point], at: float) -> Point:
    """Return the point of a curve with these controls. Two controls give a straight line."""
    while len(points) > 1:
        points = [(a + (c - a) * at, b + (d - b) * at) for (a, b), (c, d) in pairwise(points)]
    return points[0]


def along(start: Cell, count: int, step: int) -> list[Cell]:
    """Return `count` cells from `start` on, `step` columns apart."""
    return [(*start[:-1], start[-1] + number * step) for number in range(count)] if start else [start]
