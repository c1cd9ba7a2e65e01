"""SVG elements in one style. Every text that is drawn passes through here and is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal
from zlib import crc32

import svg

from dmlgather.wording import printable

INK, SOFT, RULE, PAPER, SHADE = "#1b1f24", "#57606a", "#c4cad1", "#ffffff", "#eef0f2"
"""Colours of text, of what matters less, of lines, of the background, and of what is no element."""

ALERT = "#b3261e"
"""The colour of what is out of range."""

HUES = ("#0b63b0", "#b35900", "#1a7f4b", "#8b3fa8", "#0f7d8c", "#a3305c", "#6b7a00", "#5a5fc7")
"""Dark enough for lines on the background; neighbours differ in lightness and hue, for eyes that see fewer colours."""

SANS, MONO = "Helvetica, Arial, sans-serif", "Consolas, Menlo, monospace"

Anchor = Literal["start", "middle", "end"]
Data = Mapping[str, str]
Point = tuple[float, float]


def hue(number: int) -> str:
    """The colour of a number, in turns."""
    return HUES[number % len(HUES)]


def tint(colour: str, share: float = 0.2) -> str:
    """`colour` mixed into the background."""
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * share):02x}" for part in parts)


def plain(text: str) -> str:
    """`text` as it may stand in XML: markup escaped, what XML or a screen cannot show spelled out."""
    return escape(printable(text))


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float = 11,
    colour: str = INK,
    anchor: Anchor = "start",
    mono: bool = False,
    bold: bool = False,
    halo: bool = False,
    data: Data | None = None,
) -> svg.Element:
    """A line of text whose baseline is at y. halo: with a rim in the background's colour, to be read over lines."""
    return svg.Text(
        x=_n(x),
        y=_n(y),
        text=plain(content),
        font_size=size,
        font_family=MONO if mono else SANS,
        font_weight="bold" if bold else None,
        fill=colour,
        text_anchor=anchor,
        stroke=PAPER if halo else None,
        stroke_width=2.5 if halo else None,
        stroke_linejoin="round" if halo else None,
        paint_order="stroke" if halo else None,
        data=_data(data),
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = PAPER,
    stroke: str = RULE,
    stroke_width: float = 1,
    dashed: bool = False,
    rounded: float = 0,
    hint: str = "",
    data: Data | None = None,
) -> svg.Element:
    """A rectangle; `hint` is shown where a pointer rests on it."""
    return svg.Rect(
        x=_n(x),
        y=_n(y),
        width=_n(width),
        height=_n(height),
        fill=fill,
        stroke=stroke,
        stroke_width=stroke_width,
        stroke_dasharray=[4, 2.5] if dashed else None,
        rx=rounded or None,
        elements=[svg.Title(text=plain(hint))] if hint else None,
        data=_data(data),
    )


def line(x1: float, y1: float, x2: float, y2: float, *, colour: str = RULE, width: float = 1) -> svg.Element:
    """A straight line."""
    return svg.Line(x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), stroke=colour, stroke_width=width)


def curve(
    before: Sequence[Point],
    after: Sequence[Point],
    *,
    colour: str,
    width: float = 1.6,
    dashes: Sequence[float] = (),
    data: Data | None = None,
) -> svg.Element:
    """Straight through the points `before`, in a curve from their last to the first of `after`, and straight through those."""
    (x1, y1), (x2, y2) = before[-1], after[0]
    bend = max(18.0, (x2 - x1) * 0.45)
    start, *bends = before
    path: list[svg.PathData] = [svg.M(_n(start[0]), _n(start[1])), *(svg.L(_n(x), _n(y)) for x, y in bends)]
    path.append(svg.C(_n(x1 + bend), _n(y1), _n(x2 - bend), _n(y2), _n(x2), _n(y2)))
    path += [svg.L(_n(x), _n(y)) for x, y in after[1:]]
    return svg.Path(
        d=path,
        fill="none",
        stroke=colour,
        stroke_width=width,
        stroke_opacity=0.85,
        stroke_linejoin="round",
        stroke_dasharray=list(dashes) or None,
        data=_data(data),
    )


def dot(x: float, y: float, colour: str) -> svg.Element:
    """The end of a curve."""
    return svg.Circle(cx=_n(x), cy=_n(y), r=2.4, fill=colour)


def moved(elements: Sequence[svg.Element], x: float, y: float) -> svg.Element:
    """The elements, moved to the right and down."""
    return svg.G(elements=list(elements), transform=[svg.Translate(_n(x), _n(y))])


def document(title: str, description: str, elements: Sequence[svg.Element], width: float, height: float) -> str:
    """The elements as an SVG document of that size; title and description are what a screen reader says."""
    key = f"{crc32(f'{title}{description}{elements}'.encode()):08x}"  # names must be unique where pictures share a page
    sheet = svg.SVG(
        viewBox=svg.ViewBoxSpec(0, 0, round(width), round(height)),
        width=round(width),
        height=round(height),
        extra={"role": "img", "aria-labelledby": f"title-{key} text-{key}"},
        style="max-width: 100%; height: auto",
        elements=[
            svg.Title(text=plain(title), id=f"title-{key}"),
            svg.Desc(text=plain(description), id=f"text-{key}"),
            box(0, 0, round(width), round(height), fill=PAPER, stroke="none"),
            *elements,
        ],
    )
    return sheet.as_str().replace("><", ">\n<") + "\n"  # a text holds neither sign: both are escaped


def _n(number: float) -> float:
    """A coordinate as briefly as it is needed."""
    short = round(number, 1)
    return int(short) if short == int(short) else short


def _data(data: Data | None) -> dict[str, str] | None:
    return {key: plain(value) for key, value in data.items()} if data else None
