"""Pictures are legible: nothing covers a text, lines keep a distance from cells, sizes suit a telephone, and contrast suffices.

Judges: the metrics of DejaVu, a wide font that browsers use instead of missing ones, and WCAG's formula for contrast.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.diagram import draw, of_descriptor, of_plan
from dmlgather.selftest.random_plans import random_indices
from tests import strategies
from tests.diagram.parsed import SVG, Box, Label, Picture
from tests.diagram.test_diagrams import rows
from tests.diagram.test_random_plans import runnable
from tests.directml.examples import EXAMPLES, Example

TELEPHONE = 390
"""Width of a telephone's screen in pixels."""

SMALLEST = 9.5
"""Least height of a font in pixels."""

FONTS = Path(matplotlib.get_data_path()) / "fonts/ttf"


@cache
def font(name: str) -> FT2Font:
    return FT2Font(str(FONTS / name))


def extent(label: Label) -> Box:
    """Return the place of a text in DejaVu."""
    face = font("DejaVuSansMono.ttf" if label.mono else "DejaVuSans-Bold.ttf" if label.bold else "DejaVuSans.ttf")
    face.set_size(label.size, 72)
    face.set_text(label.text, 0)
    width = face.get_width_height()[0] / 64
    left = label.x - {"start": 0, "middle": width / 2, "end": width}[label.anchor]
    return Box(left, label.y - 0.75 * label.size, width, 0.95 * label.size, None)


def overlap(one: Box, other: Box) -> tuple[float, float]:
    """Return the width and height of the intersection of two boxes."""
    width = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    height = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return max(width, 0), max(height, 0)


def check_legible(text: str) -> None:
    picture = Picture(text)
    width, height = picture.size
    labels = [(label, extent(label)) for label in picture.labels if label.text.strip()]
    assert min(label.size for label, _ in labels) * min(1, TELEPHONE / width) >= SMALLEST
    for label, place in labels:
        assert place.x >= 0, label
        assert place.x + place.width <= width, label
        assert 0 <= place.y <= place.y + place.height <= height, label
    for (one, first), (other, second) in combinations(labels, 2):
        across, down = overlap(first, second)
        assert across < 1 or down < 2, (one, other)
    cells = [box for boxes in picture.boxes.values() for box in boxes.values()]
    for label, place in labels:
        for cell in cells:
            inside = cell.holds((label.x, label.y - 3))
            assert inside or min(overlap(place, cell)) < 1, (label, cell)
            assert not inside or place.width <= cell.width, (label, cell)
    for box, neighbour in combinations(cells, 2):
        assert min(overlap(box, neighbour)) < 0.2, (box, neighbour)
    for join in picture.joins:
        points = np.concatenate([np.array(stroke) for stroke in join.strokes])
        assert not inside_any(points, [place for _, place in labels], 0).any(), join
        assert not inside_any(points, cells, 0.2).any(), join
        pieces = np.concatenate([np.array(list(pairwise(stroke))) for stroke in join.strokes])
        assert not on_borders(pieces, cells).any(), join


def inside_any(points: NDArray[Any], boxes: list[Box], margin: float) -> Any:
    """Return which points, of shape [n, 2], lie in which boxes."""
    lows, highs = corners(boxes)
    return ((points[:, None] > lows + margin) & (points[:, None] < highs - margin)).all(-1)


def on_borders(pieces: NDArray[Any], cells: list[Box]) -> Any:
    """Return which pieces of lines, of shape [n, 2 ends, 2], lie along or next to a border of which cells."""
    lows, highs = corners(cells)
    starts, ends = pieces.min(1)[:, None], pieces.max(1)[:, None]
    beside = np.minimum(ends, highs) - np.maximum(starts, lows) > 0.2
    near = np.minimum(abs(starts - lows), abs(starts - highs)) < 3
    level = ends - starts < 0.2
    found = [beside[..., axis] & level[..., 1 - axis] & near[..., 1 - axis] for axis in (0, 1)]
    return found[0] | found[1]


def corners(boxes: list[Box]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the upper left and lower right corners, each of shape [boxes, 2]."""
    lows = np.array([(box.x, box.y) for box in boxes])
    return lows, lows + np.array([(box.width, box.height) for box in boxes])


def darkened(picture: Picture) -> dict[str, str]:
    """Return the picture with the style's dark colours instead of the light ones."""
    style = next(element.text or "" for element in picture.root.iter(f"{SVG}style"))
    rules = re.fullmatch(r".*@media \(prefers-color-scheme: dark\)\{(.*)\}", style)
    assert rules is not None
    name = picture.root.attrib["class"]
    found = re.findall(rf"\.{name} \[(fill|stroke)='(#\w+)'\]\{{(fill|stroke):(#\w+)\}}", rules[1])
    dark: dict[str, str] = {}
    for key, light, target, colour in found:
        assert key == target
        assert dark.setdefault(light, colour) == colour
    assert len(found) == 2 * len(dark)
    return dark


def luminance(colour: tuple[float, float, float]) -> float:
    """Return WCAG's relative luminance."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def check_contrast(picture: Picture, of: dict[str, str]) -> None:
    """Assert a contrast of 4.5 between a text and its background, and of 3 between a line and its background."""
    paper = rgb(of[picture.rectangles[0].fill])
    for label in picture.labels:
        behind = paper
        for box in picture.rectangles:
            if box.holds((label.x, label.y - 4)):
                over, share = rgb(of[box.fill]), box.opacity
                behind = tuple(a * share + b * (1 - share) for a, b in zip(over, behind, strict=True))  # type: ignore[assignment] # three
        assert contrast(rgb(of[label.colour]), behind) >= 4.5, label
    for join in picture.joins:
        assert contrast(rgb(of[join.colour]), paper) >= 3, join


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_documented_examples_are_legible(example: Example) -> None:
    explanation = dg.compile(example.desc).explain()
    check_legible(explanation.picture())
    data, *indices = example.arrays
    check_legible(explanation.picture(indices[0] if indices else None, data))


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_diagrams_of_random_descriptors_are_legible(seed: int) -> None:
    problem = strategies.problem(seed)
    explanation = dg.compile(problem.desc, level=problem.level).explain()
    check_legible(explanation.picture())
    check_legible(explanation.picture(data=problem.inputs[0]))


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_diagrams_of_random_plans_are_legible(seed: int) -> None:
    """The plans have any rank, strides and policy, with indices out of range."""
    rng = random.Random(seed)
    plan = runnable(rng)
    indices = random_indices(plan, rng)
    check_legible(draw(of_plan(plan) if indices is None else of_plan(plan).with_values(indices)))


def test_diagrams_of_large_tensors_are_legible() -> None:
    check_legible(dg.compile(rows((2**22, 500), 100_000)).explain().picture())
    wide = rows((4, 3), 2)
    named = replace(of_descriptor(wide, dg.compile(wide).plan), title="a name of many words " * 9)
    check_legible(draw(named))


@pytest.mark.parametrize("policy", ["clamp", "raise", "promise", dg.Fill(0)])
def test_light_and_dark_mode_have_contrast(policy: str | dg.Fill) -> None:
    desc = rows((12, 3), 12)
    indices = np.array([[0, 1, 2, 3, 4, 5, 6, 12, -13, 7, 8, 9]])
    picture = Picture(dg.compile(desc, out_of_bounds=policy).explain().picture(indices))
    dark = darkened(picture)
    light = {colour: colour for colour in dark}
    drawn = {element.get(key) for element in picture.root.iter() for key in ("fill", "stroke")} - {None, "none"}
    assert drawn <= dark.keys()
    check_contrast(picture, light)
    check_contrast(picture, dark)
    assert luminance(rgb(dark[picture.rectangles[0].fill])) < 0.05
