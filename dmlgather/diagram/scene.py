"""The cells that a picture shows, and what each output cell reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from math import gcd

from dmlgather.diagram.subject import ShownTensor, Subject
from dmlgather.plan import IndexPlan, IndexType, Lookup, unravel
from dmlgather.plan.interpreter import IndexOutcome, Origin, ResolvedIndex, index_addresses, origin_of, step_at

Cell = tuple[int, int]
"""Row and column in the whole grid of a tensor."""

LEAST = 6
"""Rows and columns that a grid shows at least, if the tensor has as many, read or not."""

MOST_PADDING = 3
"""Elements of padding behind a row that are drawn as single cells; more are one cell with their number."""


@dataclass(frozen=True, slots=True)
class Cutout:
    """The rows and columns of a tensor that are shown."""

    tensor: ShownTensor
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Whether everything is shown."""
        return (len(self.rows), len(self.columns)) == (self.tensor.rows, self.tensor.columns)

    def coordinates(self, row: int, column: int) -> tuple[int, ...]:
        """The tensor's coordinates of a row and column of the whole grid."""
        sizes = self.tensor.layout.sizes
        return (*unravel(row, sizes[:-1]), column) if sizes else ()

    def address(self, row: int, column: int) -> int:
        """Elements from the start of the tensor's buffer."""
        return self.tensor.layout.address(self.coordinates(row, column))

    def cells(self) -> Iterable[Cell]:
        """Row and column of each cell shown, row by row."""
        return ((row, column) for row in self.rows for column in self.columns)

    @property
    def padding(self) -> int:
        """Elements behind each row that belong to the tensor's buffer but to no element."""
        layout = self.tensor.layout
        if len(layout.sizes) < 2 or layout.sizes[-2] < 2 or layout.strides[-1] != 1:
            return 0
        gap = layout.strides[-2] - layout.sizes[-1]
        between = range(layout.offset + layout.sizes[-1], layout.offset + layout.strides[-2])
        return gap if gap > 0 and all(layout.position(address) is None for address in islice(between, 8)) else 0

    @property
    def shown_padding(self) -> int:
        """The padding behind each row, if the last column is shown."""
        return self.padding if self.columns and self.columns[-1] == self.tensor.columns - 1 else 0


def folded(coordinates: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, int]:
    """Row and column of the element at `coordinates`."""
    row = 0
    for coordinate, size in zip(coordinates[:-1], sizes[:-1], strict=True):
        row = row * size + coordinate
    return row, coordinates[-1] if coordinates else 0


def first(tensor: ShownTensor, rows: int, columns: int) -> Cutout:
    """The first rows and columns, at most `rows` and `columns`."""
    return Cutout(tensor, tuple(range(min(rows, tensor.rows))), tuple(range(min(columns, tensor.columns))))


def around(tensor: ShownTensor, addresses: Iterable[int], rows: int, columns: int, least: int = LEAST) -> Cutout:
    """The rows and columns of the elements at `addresses`, the first ones if not all fit; filled up with others to `least`."""
    found = [tensor.layout.position(address) for address in dict.fromkeys(addresses)]
    needed = [folded(coordinates, tensor.layout.sizes) for coordinates in found if coordinates is not None]
    return Cutout(
        tensor,
        _chosen(tensor.rows, [row for row, _ in needed], rows, least),
        _chosen(tensor.columns, [column for _, column in needed], columns, least),
    )


def _chosen(total: int, needed: Iterable[int], most: int, least: int) -> tuple[int, ...]:
    if total <= most:
        return tuple(range(total))
    kept = set(islice(dict.fromkeys(needed), most))
    for number in range(total):
        if len(kept) >= min(least, most):
            break
        kept.add(number)
    for number in sorted(kept):  # an ellipsis takes as much room as a single row between two that are shown
        if len(kept) < most and number + 1 not in kept and number + 2 in kept:
            kept.add(number + 1)
    return tuple(sorted(kept))


# The content of a picture before layout: the cells of each grid, their values, and which output cells read which input cells.


NEAR = 8
"""Positions lie among the first `NEAR` of an axis."""


def example_indices(plan: IndexPlan, looked_up: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """Index values by address (elements of the index tensor). looked_up: the addresses of each step, one per lookup.

    The last tuple of indices has one out of range, the one before it a negative one where those count from the end.
    """
    assert plan.index_type is not None
    tuples = list(dict.fromkeys(looked_up))
    values: dict[int, int] = {}
    for number, addresses in enumerate(tuples):
        for component, address in enumerate(addresses):
            lookup = plan.lookups[component]
            values.setdefault(address, _ordinary(number + component, lookup.limit, plan.index_type))
    if len(tuples) > 2 and plan.lookups[0].wrap > 1:
        values[tuples[-2][0]] = _from_the_end(plan.lookups[0].wrap, {values[addresses[0]] for addresses in tuples[:-2]})
    if len(tuples) > 1:
        beyond = _beyond(plan.lookups[-1], plan.index_type)
        if beyond is not None:
            values[tuples[-1][-1]] = beyond
    return values


def _ordinary(number: int, limit: int, index_type: IndexType) -> int:
    among = max(1, min(limit, NEAR, _most(index_type)))
    step = next(step for step in (2, 3, 5, 7, 1) if gcd(step, among) == 1)
    return (2 + number * step + number // among) % among


def _from_the_end(wrap: int, used: set[int]) -> int:
    """A negative value for a position close to the end that no other index has; -1, to which larger values are clamped, only if
    there is no other.
    """
    return next((-back for back in range(2, min(wrap, NEAR) + 1) if wrap - back not in used), -1)


def _beyond(lookup: Lookup, index_type: IndexType) -> int | None:
    """A value out of range on the side that the type has room for."""
    if lookup.limit + 1 <= _most(index_type):
        return lookup.limit + 1
    return -lookup.wrap - 2 if index_type.signed and lookup.wrap + 2 <= _most(index_type) else None


def _most(index_type: IndexType) -> int:
    return int(2 ** (8 * index_type.bytes - index_type.signed) - 1)


MOST_JOINS, FEW_JOINS = 24, 10
"""Up to MOST_JOINS joins are all drawn; of more, only FEW_JOINS, because many crossing lines cannot be followed."""

OUTPUT_ROWS, INPUT_ROWS, INDEX_ROWS = 8, 14, 10
"""Rows that each grid shows at most."""

MOST_COLUMNS = 8
"""Columns that each grid shows at most."""


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
    def sources(self) -> tuple[Cell, ...]:
        """The cells that are read, from left to right."""
        row, first = self.source
        return tuple(sorted({(row, first + number * self.step) for number in range(self.length)}))

    @property
    def targets(self) -> tuple[Cell, ...]:
        """The cells that are written, from left to right."""
        row, first = self.target
        return tuple((row, first + number) for number in range(self.length))


class Scene:
    """The content of the picture of one subject, by following the plan for the part of the output that is shown.

    columns, index_columns: that data and output, and the index tensor, show at most.
    reads: where each shown output cell comes from. values: the index of each shown index cell. resolved: each index cell that a
    shown output cell looks up. colours: a number per tuple of index addresses. joins: those that are drawn; runs: how many there
    are. ValueError for a plan that cannot run (`IndexPlan.check_limits`).
    """

    def __init__(self, subject: Subject, columns: int = MOST_COLUMNS, index_columns: int = MOST_COLUMNS) -> None:
        self.subject, plan = subject, subject.plan
        plan.check_limits()
        self.output = first(subject.output, OUTPUT_ROWS, columns)
        steps = {} if plan.empty else {cell: step_at(plan, self.output.address(*cell)) for cell in self.output.cells()}
        looked_up = [index_addresses(plan, step) for step in steps.values()]
        examples = example_indices(plan, looked_up) if subject.indices is not None and subject.values is None else {}

        def value_at(address: int) -> int:
            return examples.get(address, 0) if subject.values is None else subject.value_at(address)

        self.indices: Cutout | None = None
        self.values: dict[Cell, int] = {}
        if subject.indices is not None:
            self.indices = around(subject.indices, chain.from_iterable(looked_up), INDEX_ROWS, index_columns, least=1)
            self.values = {cell: value_at(self.indices.address(*cell)) for cell in self.indices.cells()}
        self.reads = {cell: origin_of(plan, step, value_at) for cell, step in steps.items()}
        sources = [origin.source for origin in self.reads.values() if origin.source is not None]
        self.data = around(subject.data, sources, INPUT_ROWS, columns)
        self.colours = {addresses: number for number, addresses in enumerate(dict.fromkeys(filter(None, looked_up)))}
        self.resolved: dict[Cell, ResolvedIndex] = {}
        for index in chain.from_iterable(origin.indices for origin in self.reads.values()):
            if (cell := _cell(self.indices, index.address)) is not None:
                self.resolved.setdefault(cell, index)
        runs = list(self._runs())
        self.joins, self.runs = _selected(runs), len(runs)

    @property
    def outcomes(self) -> set[IndexOutcome]:
        """The outcomes that occur."""
        return {origin.outcome for origin in self.reads.values()}

    def colour(self, cell: Cell) -> int:
        """The colour of an output cell: that of its indices, or of its row where there are none."""
        addresses = _addresses(self.reads[cell])
        return self.colours[addresses] if addresses else cell[0]

    def _runs(self) -> Iterator[Join]:
        shown = set(self.data.cells())
        sources = {
            target: cell if (cell := _cell(self.data, origin.source)) in shown else None for target, origin in self.reads.items()
        }
        for row in self.output.rows:
            cells = [(row, column) for column in self.output.columns]
            while cells:
                target, source = cells[0], sources[cells[0]]
                length, step = (1, 1) if source is None else self._reach(cells, sources)
                if source is not None:
                    origin = self.reads[target]
                    indices = [cell for cell in (_cell(self.indices, at) for at in _addresses(origin)) if cell is not None]
                    yield Join(source, target, length, step, self.colour(target), origin.outcome, tuple(indices))
                cells = cells[length:]

    def _reach(self, cells: list[Cell], sources: dict[Cell, Cell | None]) -> tuple[int, int]:
        """The length of the run that starts at the first of these neighbours, and its step."""
        length, step = 1, 1
        for before, cell in pairwise(cells):
            here, there = sources[before], sources[cell]
            alike = _addresses(self.reads[before]) == _addresses(self.reads[cell])
            if here is None or there is None or here[0] != there[0] or not alike:
                break
            if length > 1 and there[1] - here[1] != step:
                break
            length, step = length + 1, there[1] - here[1]
        return length, step


def _cell(cutout: Cutout | None, address: int | None) -> Cell | None:
    if cutout is None or address is None:
        return None
    coordinates = cutout.tensor.layout.position(address)
    return None if coordinates is None else folded(coordinates, cutout.tensor.layout.sizes)


def _addresses(origin: Origin) -> tuple[int, ...]:
    return tuple(index.address for index in origin.indices)


def _selected(runs: list[Join]) -> list[Join]:
    """All runs if they are few; else a few: first those out of range, then those that begin a row, then the others in order."""
    if len(runs) <= MOST_JOINS:
        return runs
    order = sorted(range(len(runs)), key=lambda at: (runs[at].outcome is IndexOutcome.VALID, runs[at].target[1] > 0, at))
    return [runs[at] for at in sorted(order[:FEW_JOINS])]
