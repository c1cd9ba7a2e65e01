"""The cells of a diagram, and the input cell that each output cell is read from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from math import gcd

from dmlgather.diagram.subject import ShownTensor, Subject
from dmlgather.plan import IndexPlan, IndexType, Lookup, unravel
from dmlgather.plan.interpreter import IndexOutcome, Origin, ResolvedIndex, index_addresses, origin_of, step_at

Cell = tuple[int, int]
"""Row and column in the grid of the whole tensor."""

LEAST = 6
"""Smallest number of rows and of columns in a grid of a larger tensor."""

MOST_PADDING = 3
"""Limit for padding elements that are drawn one by one. If a row has more, one cell shows their number."""


@dataclass(frozen=True, slots=True)
class Cutout:
    """The part of a tensor that a diagram shows. `rows`, `columns`: the row and column numbers that are shown."""

    tensor: ShownTensor
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """True if the whole tensor is shown."""
        return (len(self.rows), len(self.columns)) == (self.tensor.rows, self.tensor.columns)

    def coordinates(self, row: int, column: int) -> tuple[int, ...]:
        """Return the coordinates of a cell's element, one per dimension."""
        sizes = self.tensor.layout.sizes
        return (*unravel(row, sizes[:-1]), column) if sizes else ()

    def address(self, row: int, column: int) -> int:
        """Return the address of a cell's element, in elements from the start of the tensor's buffer."""
        return self.tensor.layout.address(self.coordinates(row, column))

    def cells(self) -> Iterable[Cell]:
        """Return the shown cells, row by row."""
        return ((row, column) for row in self.rows for column in self.columns)

    @property
    def padding(self) -> int:
        """The number of unused buffer elements between the end of a row and the next row."""
        layout = self.tensor.layout
        if len(layout.sizes) < 2 or layout.sizes[-2] < 2 or layout.strides[-1] != 1:
            return 0
        size = layout.strides[-2] - layout.sizes[-1]
        gap = range(layout.offset + layout.sizes[-1], layout.offset + layout.strides[-2])
        return size if size > 0 and all(layout.position(address) is None for address in islice(gap, 8)) else 0

    @property
    def shown_padding(self) -> int:
        """The number of padding elements that are drawn after each row; 0 if the last column is not shown."""
        return self.padding if self.columns and self.columns[-1] == self.tensor.columns - 1 else 0


def folded(coordinates: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, int]:
    """Return the row and column of an element in a grid. The last dimension becomes the columns."""
    row = 0
    for coordinate, size in zip(coordinates[:-1], sizes[:-1], strict=True):
        row = row * size + coordinate
    return row, coordinates[-1] if coordinates else 0


def first(tensor: ShownTensor, rows: int, columns: int) -> Cutout:
    """Return the Cutout of the first `rows` rows and `columns` columns of a tensor, or of all if there are fewer."""
    return Cutout(tensor, tuple(range(min(rows, tensor.rows))), tuple(range(min(columns, tensor.columns))))


def around(tensor: ShownTensor, addresses: Iterable[int], rows: int, columns: int, least: int = LEAST) -> Cutout:
    """Return a Cutout with the rows and columns of these addresses.

    `rows`, `columns`: the maximum numbers of rows and columns; addresses that do not fit are left out. `least`: the minimum
    number of both.
    """
    positions = [tensor.layout.position(address) for address in dict.fromkeys(addresses)]
    needed = [folded(coordinates, tensor.layout.sizes) for coordinates in positions if coordinates is not None]
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
    for number in sorted(kept):  # an ellipsis for a single row would be as wide as the row, so show the row
        if len(kept) < most and number + 1 not in kept and number + 2 in kept:
            kept.add(number + 1)
    return tuple(sorted(kept))


NEAR = 8
"""Invented indices refer to the first NEAR positions of an axis, so that the diagram stays small."""


def example_indices(plan: IndexPlan, looked_up: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """Invent index values, as a dict by address. The last output element gets an index out of range.

    `looked_up`: for each output element, the addresses of the indices that it depends on, one per lookup.
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
        bad = _out_of_range(plan.lookups[-1], plan.index_type)
        if bad is not None:
            values[tuples[-1][-1]] = bad
    return values


def _ordinary(number: int, limit: int, index_type: IndexType) -> int:
    count = max(1, min(limit, NEAR, _largest(index_type)))
    # A step that is coprime to the count visits all positions. Example: count 8, step 3 give 2, 5, 0, 3, 6, 1, 4, 7.
    step = next(step for step in (2, 3, 5, 7, 1) if gcd(step, count) == 1)
    return (2 + number * step + number // count) % count


def _from_the_end(wrap: int, used: set[int]) -> int:
    """Return a negative index of an unused position. Avoid -1, because clamped indices select the last position, too."""
    return next((-back for back in range(2, min(wrap, NEAR) + 1) if wrap - back not in used), -1)


def _out_of_range(lookup: Lookup, index_type: IndexType) -> int | None:
    """Return an index above the valid range. If the type cannot hold it, return an index below the range, or None."""
    if lookup.limit + 1 <= _largest(index_type):
        return lookup.limit + 1
    return -lookup.wrap - 2 if index_type.signed and lookup.wrap + 2 <= _largest(index_type) else None


def _largest(index_type: IndexType) -> int:
    return int(2 ** (8 * index_type.bytes - index_type.signed) - 1)


MOST_JOINS, FEW_JOINS = 24, 10
"""Up to MOST_JOINS lines are drawn. If there are more, only FEW_JOINS are: nobody can follow many crossing lines."""

OUTPUT_ROWS, INPUT_ROWS, INDEX_ROWS = 8, 14, 10
"""Row limits of the grids."""

MOST_COLUMNS = 8
"""Column limit of every grid."""


@dataclass(frozen=True, slots=True)
class Join:
    """A line of the diagram. It joins input cells in one row to output cells that lie side by side.

    `source`: the first input cell. `target`: the first output cell. `length`: the number of output cells. `step`: the number of
    columns from one input cell to the next. `colour`: the number of the colour; equal for cells with equal indices.
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
        """The input cells, from left to right."""
        row, first = self.source
        return tuple(sorted({(row, first + number * self.step) for number in range(self.length)}))

    @property
    def targets(self) -> tuple[Cell, ...]:
        """The output cells, from left to right."""
        row, first = self.target
        return tuple((row, first + number) for number in range(self.length))


class Scene:
    """The content of a diagram, before the layout: the shown cells, and the input cell that each output cell reads.

    `reads`: the source of each output cell. `values`: the index in each index cell. `resolved`: the position that the index in
    a cell stands for. `colours`: the colour number of each combination of index addresses. `runs`: the number of all lines,
    including lines that are not drawn.
    """

    def __init__(self, subject: Subject, columns: int = MOST_COLUMNS, index_columns: int = MOST_COLUMNS) -> None:
        """Evaluate the plan for the output cells to show. Raises ValueError if the plan would read from an axis of size 0.

        `columns`: the maximum number of columns of input and output. `index_columns`: the maximum for the index tensor.
        """
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
        """The outcomes of the indices that shown output cells use."""
        return {origin.outcome for origin in self.reads.values()}

    def colour(self, cell: Cell) -> int:
        """Return the colour number of an output cell. Without indices, each row has its own colour."""
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
                length, step = (1, 1) if source is None else self._run_length(cells, sources)
                if source is not None:
                    origin = self.reads[target]
                    indices = [cell for address in _addresses(origin) if (cell := _cell(self.indices, address)) is not None]
                    yield Join(source, target, length, step, self.colour(target), origin.outcome, tuple(indices))
                cells = cells[length:]

    def _run_length(self, cells: list[Cell], sources: dict[Cell, Cell | None]) -> tuple[int, int]:
        """Return how many of the first cells one line can join, and the `step` of this line."""
        length, step = 1, 1
        for before, cell in pairwise(cells):
            source, next_source = sources[before], sources[cell]
            same_indices = _addresses(self.reads[before]) == _addresses(self.reads[cell])
            if source is None or next_source is None or source[0] != next_source[0] or not same_indices:
                break
            if length > 1 and next_source[1] - source[1] != step:
                break
            length, step = length + 1, next_source[1] - source[1]
        return length, step


def _cell(cutout: Cutout | None, address: int | None) -> Cell | None:
    if cutout is None or address is None:
        return None
    coordinates = cutout.tensor.layout.position(address)
    return None if coordinates is None else folded(coordinates, cutout.tensor.layout.sizes)


def _addresses(origin: Origin) -> tuple[int, ...]:
    return tuple(index.address for index in origin.indices)


def _selected(runs: list[Join]) -> list[Join]:
    """Return the lines to draw. Of many, prefer lines with an index out of range, then lines to the start of a row."""
    if len(runs) <= MOST_JOINS:
        return runs
    order = sorted(range(len(runs)), key=lambda i: (runs[i].outcome is IndexOutcome.VALID, runs[i].target[1] > 0, i))
    return [runs[i] for i in sorted(order[:FEW_JOINS])]
