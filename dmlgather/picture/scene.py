"""The content of a picture before layout: the cells of each grid, their values, and which output cells read which input cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from dmlgather.picture.cutout import Cutout, around, first, folded
from dmlgather.picture.example_indices import example_indices
from dmlgather.picture.subject import Subject
from dmlgather.plan.interpreter import IndexOutcome, Origin, ResolvedIndex, index_addresses, origin_of, step_at

Cell = tuple[int, int]
"""Row and column in the whole grid of a tensor."""

MOST_JOINS, FEW_JOINS = 24, 10
"""Up to MOST_JOINS joins are all drawn; of more, only FEW_JOINS, because many crossing lines cannot be followed."""

OUTPUT_ROWS, INPUT_ROWS, INDEX_ROWS = 8, 14, 10
"""Rows that each grid shows at most."""

MOST_COLUMNS = 8
"""Columns of a grid whose cells are narrow; wider cells leave room for fewer."""

ROOM = 360
"""Largest width of a grid's cells together, in SVG units; at least three columns are shown nevertheless."""

CHARACTER, MARGIN, NARROWEST = 6.4, 12, 30
"""Width of a character in a cell, of the space beside it, and of a cell, in SVG units."""


@dataclass(frozen=True, slots=True)
class Join:
    """A run of neighbouring output cells that read cells of one input row, each `step` columns after the one before.

    source, target: the first cells of both; length: cells. colour: a number, the same for the same indices. indices: the cells
    of the index tensor that were looked up.
    """

    source: Cell
    target: Cell
    length: int
    step: int
    colour: int
    outcome: IndexOutcome
    indices: tuple[Cell, ...]

    @property
    def span(self) -> tuple[Cell, Cell]:
        """The leftmost and the rightmost cell that is read."""
        row, first = self.source
        low, high = sorted((first, first + (self.length - 1) * self.step))
        return (row, low), (row, high)


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of the picture of one subject.

    reads: where each shown output cell comes from. colours: a number per tuple of index addresses. found: each index cell that a
    shown output cell looks up, resolved. values: the index of each shown index cell. joins: those that are drawn; runs: how many
    there are.
    """

    subject: Subject
    data: Cutout
    output: Cutout
    indices: Cutout | None
    reads: dict[Cell, Origin]
    values: dict[Cell, int] = field(default_factory=dict)
    found: dict[Cell, ResolvedIndex] = field(default_factory=dict)
    colours: dict[tuple[int, ...], int] = field(default_factory=dict)
    joins: tuple[Join, ...] = ()
    runs: int = 0

    @property
    def outcomes(self) -> set[IndexOutcome]:
        """The outcomes that occur."""
        return {item.outcome for item in self.reads.values()}

    def colour(self, cell: Cell) -> int:
        """The colour of an output cell: that of its indices, or of its row where there are none."""
        return _colour(self.reads[cell], cell, self.colours)


def scene_of(subject: Subject) -> Scene:
    """Follow the plan for the part of the output that is shown."""
    plan = subject.plan
    plan.check_limits()
    width = cell_width(plan.in_extent)
    output = first(subject.output, OUTPUT_ROWS, columns_for(width))
    steps = {} if plan.empty else {cell: step_at(plan, output.address(*cell)) for cell in output.cells()}
    looked_up = [index_addresses(plan, step) for step in steps.values()]
    indices = None
    values: dict[Cell, int] = {}
    made: dict[int, int] = {}
    value_at: Callable[[int], int] = made.__getitem__  # never called without lookups
    if subject.indices is not None:
        if subject.values is not None:
            value_at = subject.value_at
        else:
            made = example_indices(plan, looked_up)
            value_at = lambda address: made.get(address, 0)  # noqa: E731 - the other branch binds a method
        indices = around(
            subject.indices, (item for addresses in looked_up for item in addresses), INDEX_ROWS, MOST_COLUMNS, least=1
        )
        values = {cell: value_at(indices.address(*cell)) for cell in indices.cells()}
    reads = {cell: origin_of(plan, step, value_at) for cell, step in steps.items()}
    sources = [item.source for item in reads.values() if item.source is not None]
    data = around(subject.data, sources, INPUT_ROWS, columns_for(width))
    colours = {addresses: number for number, addresses in enumerate(dict.fromkeys(filter(None, looked_up)))}
    runs = list(_runs(reads, data, output, indices, colours))
    return Scene(
        subject, data, output, indices, reads, values, _found(reads, indices), colours, tuple(_selected(runs)), len(runs)
    )


def cell_width(extent: int) -> float:
    """Room for the addresses below `extent`."""
    return label_width(str(max(extent - 1, 0)))


def label_width(label: str) -> float:
    """Width of a cell with this text."""
    return max(float(NARROWEST), round(len(label) * CHARACTER + MARGIN, 1))


def columns_for(width: float) -> int:
    """Columns of cells of this width that fit into a grid."""
    return max(3, min(MOST_COLUMNS, int(ROOM // width)))


def _cell(cutout: Cutout | None, address: int | None) -> Cell | None:
    if cutout is None or address is None:
        return None
    coordinates = cutout.tensor.layout.position(address)
    return None if coordinates is None else folded(coordinates, cutout.tensor.layout.sizes)


def _colour(found: Origin, cell: Cell, colours: dict[tuple[int, ...], int]) -> int:
    addresses = _addresses(found)
    return colours[addresses] if addresses else cell[0]


def _found(reads: dict[Cell, Origin], indices: Cutout | None) -> dict[Cell, ResolvedIndex]:
    found: dict[Cell, ResolvedIndex] = {}
    for item in (item for one in reads.values() for item in one.indices):
        cell = _cell(indices, item.address)
        if cell is not None:
            found.setdefault(cell, item)
    return found


def _runs(
    reads: dict[Cell, Origin], data: Cutout, output: Cutout, indices: Cutout | None, colours: dict[tuple[int, ...], int]
) -> Iterator[Join]:
    shown = set(data.cells())
    sources = {cell: found if (found := _cell(data, item.source)) in shown else None for cell, item in reads.items()}
    for row in output.rows:
        cells = [(row, column) for column in output.columns]
        while cells:
            source = sources[cells[0]]
            length, step = (1, 1) if source is None else _reach(cells, sources, reads)
            if source is not None:
                item = reads[cells[0]]
                looked_up = tuple(cell for cell in (_cell(indices, address) for address in _addresses(item)) if cell is not None)
                yield Join(source, cells[0], length, step, _colour(item, cells[0], colours), item.outcome, looked_up)
            cells = cells[length:]


def _reach(cells: list[Cell], sources: dict[Cell, Cell | None], reads: dict[Cell, Origin]) -> tuple[int, int]:
    """The length of the run that starts at the first of these neighbours, and its step."""
    length, step = 1, 1
    for before, cell in pairwise(cells):
        here, there = sources[before], sources[cell]
        if here is None or there is None or here[0] != there[0] or _addresses(reads[before]) != _addresses(reads[cell]):
            break
        if length > 1 and there[1] - here[1] != step:
            break
        length, step = length + 1, there[1] - here[1]
    return length, step


def _addresses(origin: Origin) -> tuple[int, ...]:
    return tuple(item.address for item in origin.indices)


def _selected(runs: list[Join]) -> list[Join]:
    """All runs if they are few; else a few: first those out of range, then those that begin a row, then the others in order."""
    if len(runs) <= MOST_JOINS:
        return runs
    order = sorted(range(len(runs)), key=lambda at: (runs[at].outcome is IndexOutcome.VALID, runs[at].target[1] > 0, at))
    return [runs[at] for at in sorted(order[:FEW_JOINS])]
