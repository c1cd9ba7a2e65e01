"""A picture as facts: what an XML parser finds in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"

Cell = tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """A cell's rectangle."""

    x: float
    y: float
    width: float
    height: float
    outcome: str | None


@dataclass(frozen=True)
class Join:
    """A line from input to output."""

    source: Cell
    target: Cell
    cells: int
    step: int
    outcome: str
    start: tuple[float, float]
    end: tuple[float, float]


class Picture:
    """A picture with one operator."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)
        self.boxes: dict[str, dict[Cell, Box]] = {}
        for rect in self.root.iter(f"{SVG}rect"):
            if "data-tensor" in rect.attrib:
                x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
                box = Box(x, y, width, height, rect.get("data-outcome"))
                self.boxes.setdefault(rect.attrib["data-tensor"], {})[cell(rect.attrib["data-at"])] = box
        self.texts: dict[str, dict[Cell, str]] = {}
        self.table: dict[tuple[str, str, str], str] = {}
        for line in self.root.iter(f"{SVG}text"):
            if "data-tensor-text" in line.attrib:
                of_tensor = self.texts.setdefault(line.attrib["data-tensor-text"], {})
                of_tensor[cell(line.attrib["data-at-text"])] = line.text or ""
            if "data-plan" in line.attrib:
                self.table[line.attrib["data-plan"], line.attrib["data-row"], line.attrib["data-column"]] = line.text or ""
        self.joins = [join(path.attrib) for path in self.root.iter(f"{SVG}path") if "data-join" in path.attrib]

    @property
    def words(self) -> str:
        """All text that is drawn."""
        return "\n".join(line.text or "" for line in self.root.iter(f"{SVG}text"))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return float(self.root.attrib["width"]), float(self.root.attrib["height"])


def cell(text: str) -> Cell:
    return tuple(map(int, text.split(","))) if text else ()


def join(facts: dict[str, str]) -> Join:
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", facts["d"])]
    return Join(
        cell(facts["data-from"]),
        cell(facts["data-to"]),
        int(facts["data-cells"]),
        int(facts["data-step"]),
        facts["data-join"],
        (numbers[0], numbers[1]),
        (numbers[-2], numbers[-1]),
    )


def along(start: Cell, count: int, step: int) -> list[Cell]:
    """`count` cells from `start` on, each `step` columns after the one before."""
    return [(*start[:-1], start[-1] + number * step) for number in range(count)] if start else [start]
