"""How the cells of each tensor look."""

from __future__ import annotations

from collections.abc import Mapping

from dmlgather.picture.canvas import ALERT, INK, PAPER, RULE, SOFT, TINT, hue
from dmlgather.picture.cutout import Cell
from dmlgather.picture.grids import CellStyle, short
from dmlgather.picture.scene import Scene
from dmlgather.plan.interpreter import IndexOutcome, ResolvedIndex
from dmlgather.wording import spelled


def data_style(scene: Scene, cell: Cell, read_by: Mapping[int, int]) -> CellStyle:
    """A cell of the input. read_by: the colour of what reads an address."""
    cutout = scene.data
    address, coordinates = cutout.address(*cell), cutout.coordinates(*cell)
    colour = read_by.get(address)
    content, below, value = _element(scene, address)
    return CellStyle(
        text=content,
        below=below,
        fill=PAPER if colour is None else hue(colour),
        opacity=1 if colour is None else TINT,
        stroke=RULE if colour is None else hue(colour),
        colour=SOFT if colour is None else INK,
        hint=f"{cutout.tensor.name}[{at(coordinates)}] is element {address} of its buffer{value}",
        data={"tensor": cutout.tensor.name, "at": at(coordinates)},
    )


def output_style(scene: Scene, cell: Cell) -> CellStyle:
    """A cell of the output."""
    found, coordinates = scene.reads[cell], scene.output.coordinates(*cell)
    name = f"{scene.output.tensor.name}[{at(coordinates)}]"
    data = {"tensor": scene.output.tensor.name, "at": at(coordinates), "outcome": found.outcome.value}
    if found.source is None:
        if found.outcome is IndexOutcome.REFUSED:
            return CellStyle(stroke=ALERT, dashed=True, crossed=True, hint=f"{name} is not written", data=data)
        hint = f"{name} gets the fill value"
        return CellStyle(text="fill", fill=PAPER, stroke=ALERT, dashed=True, hatched=True, hint=hint, data=data)
    clamped = found.outcome is IndexOutcome.CLAMPED
    content, below, value = _element(scene, found.source)
    return CellStyle(
        text=content,
        below=below,
        fill=hue(scene.colour(cell)),
        opacity=TINT,
        stroke=ALERT if clamped else hue(scene.colour(cell)),
        dashed=clamped,
        hint=f"{name} is read from element {found.source}{value}" + (", to which an index was clamped" if clamped else ""),
        data=data,
    )


def index_style(scene: Scene, cell: Cell) -> CellStyle:
    """A cell of the index tensor."""
    assert scene.indices is not None
    coordinates, found = scene.indices.coordinates(*cell), scene.resolved.get(cell)
    name, value = f"{scene.indices.tensor.name}[{at(coordinates)}]", scene.values[cell]
    data = {"tensor": scene.indices.tensor.name, "at": at(coordinates)}
    if found is None:
        hint = f"{name} is used by no output element that is shown"
        return CellStyle(text=short(str(value)), fill=PAPER, colour=SOFT, hint=hint, data=data)
    bad = found.outcome is not IndexOutcome.VALID
    colour = hue(next(number for addresses, number in scene.colours.items() if found.address in addresses))
    return CellStyle(
        text=short(str(value)),
        below=_position(found),
        fill=colour,
        opacity=TINT,
        stroke=ALERT if bad else colour,
        dashed=bad,
        crossed=found.outcome is IndexOutcome.REFUSED,
        hatched=found.outcome is IndexOutcome.FILLED,
        hint=f"{name} is {value}" + (f", out of range: {found.outcome.value}" if bad else ""),
        data={**data, "outcome": found.outcome.value},
    )


def at(coordinates: tuple[int, ...]) -> str:
    """Coordinates as text: "0,3"."""
    return ",".join(map(str, coordinates))


def _element(scene: Scene, address: int) -> tuple[str, str, str]:
    """The two lines of a cell with this element of the input, and the end of its hint. Without values the address alone."""
    if scene.subject.elements is None:
        return str(address), "", ""
    value = spelled(scene.subject.element_at(address))
    return short(value), f"@{address}", f"; its value is {value}"


def _position(found: ResolvedIndex) -> str:
    """The position of an index, if it differs from its value."""
    if found.position is None:
        return "→fill" if found.outcome is IndexOutcome.FILLED else "refused"
    return "" if found.position == found.value else f"→{short(str(found.position))}"
