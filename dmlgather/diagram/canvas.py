"""SVG elements in one style. All text of diagrams is escaped here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Literal
from zlib import crc32

import svg

from dmlgather.wording import printable

INK, SOFT, RULE, PAPER, SHADE = "#1b1f24", "#57606a", "#c4cad1", "#ffffff", "#eef0f2"
"""Colours of text, secondary text, lines, the background, and padding."""

ALERT = "#b3261e"
"""Colour of indices out of range."""

HUES = ("#0b63b0", "#b35900", "#1a7f4b", "#8b3fa8", "#0f7d8c", "#a3305c", "#6b7a00", "#5a5fc7")
"""Line colours, readable on the background. Neighbours differ in lightness and hue, for colour-blind readers."""

DARK = {
    INK: "#e6edf3",
    SOFT: "#9da7b3",
    RULE: "#4b535d",
    PAPER: "#0d1117",
    SHADE: "#21262d",
    ALERT: "#ff8a80",
    **dict(
        zip(HUES, ("#6cb6ff", "#f0a35e", "#57c98a", "#d29bea", "#4cc3d4", "#f28cb1", "#c3d04a", "#a5aaff"), strict=True),
    ),
}
"""Colours on dark pages, by the colour that they replace."""

TINT = 0.2
"""Opacity of a cell's fill, from 0 to 1."""

SANS, MONO = "Helvetica, Arial, sans-serif", "Consolas, Menlo, monospace"

SIZE = 12.0
"""Default font size in pixels."""

LETTER, DIGIT = 0.58, 0.605
"""Mean width of a character in a wide font, as a fraction of the font size. The viewer chooses the actual font."""

FIGURE = 0.64
"""Width of a digit in the font SANS, as a fraction of the font size. Digits are usually wider than letters."""

BOLD = 0.7
"""Mean width of a bold character in the font SANS, as a fraction of the font size."""

CLASS = "dmlgather-picture"
"""CSS class of the SVG element. It limits the style sheet to the diagram."""

Anchor = Literal["start", "middle", "end"]
Data = Mapping[str, str]
Point = tuple[float, float]


def hue(number: int) -> str:
    """Return a line colour. Colours repeat."""
    return HUES[number % len(HUES)]


def wrapped(content: str, width: float, size: float = SIZE, share: float = LETTER) -> list[str]:
    """Break a text into lines of at most `width` pixels. `share`: the mean width of a character, as a fraction of `size`."""
    lines = wrap(printable(content), max(8, int(width / (size * share))))
    digits = max((sum(map(str.isdigit, line)) for line in lines), default=0)
    if share < FIGURE and digits * 2 > len(max(lines, key=len, default="")):  # mostly digits; they are wider than letters
        return wrapped(content, width, size, FIGURE)
    return lines


def plain(text: str) -> str:
    """Escape a text for XML, and replace unprintable characters."""
    return escape(printable(text))


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float = SIZE,
    colour: str = INK,
    anchor: Anchor = "start",
    mono: bool = False,
    bold: bool = False,
    data: Data | None = None,
) -> svg.Element:
    """Return one line of text. It starts, ends or is centred at (`x`, `y`), as `anchor` says. `data`: data-… attributes."""
    return svg.Text(
        x=_n(x),
        y=_n(y),
        text=plain(content),
        font_size=size,
        font_family=MONO if mono else SANS,
        font_weight="bold" if bold else None,
        fill=colour,
        text_anchor=anchor,
        data=_data(data),
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = PAPER,
    opacity: float = 1,
    stroke: str = RULE,
    stroke_width: float = 1,
    dashed: bool = False,
    hint: str = "",
    data: Data | None = None,
) -> svg.Element:
    """Return a rectangle. `hint`: a tooltip. `data`: data-… attributes."""
    return svg.Rect(
        x=_n(x),
        y=_n(y),
        width=_n(width),
        height=_n(height),
        fill=fill,
        fill_opacity=opacity if opacity < 1 else None,
        stroke=stroke,
        stroke_width=stroke_width,
        stroke_dasharray=[4, 2.5] if dashed else None,
        elements=[svg.Title(text=plain(hint))] if hint else None,
        data=_data(data),
    )


def line(x1: float, y1: float, x2: float, y2: float, *, colour: str = RULE, width: float = 1) -> svg.Element:
    """Return a straight line."""
    return svg.Line(x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), stroke=colour, stroke_width=width)


def hatching(x: float, y: float, width: float, height: float, colour: str) -> Iterator[svg.Element]:
    """Yield diagonal lines that hatch a rectangle. (An SVG pattern would need an id that is unique on the page.)"""
    step = 6.0
    offset = step
    while offset < width + height:
        x1, y1 = (x + offset, y) if offset <= width else (x + width, y + offset - width)
        x2, y2 = (x, y + offset) if offset <= height else (x + offset - height, y + height)
        yield line(x1, y1, x2, y2, colour=colour, width=0.5)
        offset += step


def path(
    strokes: Sequence[Sequence[Point]],
    curved: tuple[Point, Point],
    *,
    colour: str,
    dashes: Sequence[float] = (),
    data: Data | None = None,
) -> svg.Element:
    """Return polylines and one curve as a single SVG path. `curved`: the two ends of the curve, where it is horizontal."""
    (x1, y1), (x2, y2) = curved
    bend = (x2 - x1) * 0.5
    parts: list[svg.PathData] = []
    for first, *others in strokes:
        parts += [svg.M(_n(first[0]), _n(first[1])), *(svg.L(_n(x), _n(y)) for x, y in others)]
    parts += [svg.M(_n(x1), _n(y1)), svg.C(_n(x1 + bend), _n(y1), _n(x2 - bend), _n(y2), _n(x2), _n(y2))]
    return svg.Path(
        d=parts, fill="none", stroke=colour, stroke_width=1.6, stroke_linejoin="round", stroke_dasharray=list(dashes) or None,
        data=_data(data),
    )  # fmt: skip


def dot(x: float, y: float, colour: str) -> svg.Element:
    """Return a small disc, which marks a cell that is read."""
    return svg.Circle(cx=_n(x), cy=_n(y), r=2.2, fill=colour)


def tip(x: float, y: float, colour: str, *, up: bool) -> svg.Element:
    """Return an arrowhead with its tip at (x, y). It points up or to the right."""
    corners = [(x, y), (x - 3, y + 5), (x + 3, y + 5)] if up else [(x, y), (x - 5, y - 3), (x - 5, y + 3)]
    (x1, y1), *others = [(_n(x2), _n(y2)) for x2, y2 in corners]
    return svg.Path(d=[svg.M(x1, y1), *(svg.L(x2, y2) for x2, y2 in others), svg.Z()], fill=colour)


def moved(elements: Sequence[svg.Element], x: float, y: float) -> svg.Element:
    """Return the elements as one group, moved right by `x` and down by `y`."""
    return svg.G(elements=list(elements), transform=[svg.Translate(_n(x), _n(y))])


def document(title: str, description: str, elements: Sequence[svg.Element], width: float, height: float) -> str:
    """Return an SVG document. Screen readers read `title` and `description`."""
    key = f"{crc32(f'{title}{description}{elements}'.encode()):08x}"  # ids must be unique on a page with several diagrams
    sheet = svg.SVG(
        viewBox=svg.ViewBoxSpec(0, 0, round(width), round(height)),
        width=round(width),
        height=round(height),
        class_=[CLASS],
        extra={"role": "img", "aria-labelledby": f"title-{key} text-{key}"},
        elements=[
            svg.Title(text=plain(title), id=f"title-{key}"),
            svg.Desc(text=plain(description), id=f"text-{key}"),
            svg.Style(text=_SCREEN + _dark()),
            box(0, 0, round(width), round(height), fill=PAPER, stroke="none"),
            *elements,
        ],
    )
    return sheet.as_str().replace("><", ">\n<") + "\n"  # escaped text has no "><"


_SCREEN = f"@media screen{{.{CLASS}{{max-width:100%;height:auto}}}}"
"""Shrinks a diagram to the page. The rule is inside @media, because CairoSVG would read "auto" as height 0."""


def _dark() -> str:
    """Return the style sheet for dark pages."""
    rules = (f".{CLASS} [{key}='{light}']{{{key}:{dark}}}" for light, dark in DARK.items() for key in ("fill", "stroke"))
    return f"@media (prefers-color-scheme: dark){{{''.join(rules)}}}"


def _n(number: float) -> float:
    """Round a coordinate to one decimal place, and drop ".0"."""
    rounded = round(number, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def _data(data: Data | None) -> dict[str, str] | None:
    return {key: plain(value) for key, value in data.items()} if data else None
