"""The scene of a diagram: the cells that it shows, and the input cell that each output cell reads."""

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
"""Minimum number of rows and of columns of a grid, unless the tensor has fewer."""

MOST_PADDING = 3
"""Padding up to this number of elements per row is drawn as single cells. Longer padding is drawn as one cell with the
number."""


@dataclass(frozen=True, slots=True)
class Cutout:
    """The shown rows and columns of a tensor."""

    tensor: ShownTensor
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Return True if all cells are shown."""
        return (len(self.rows), len(self.columns)) == (self.tensor.rows, self.tensor.columns)

    def coordinates(self, row: int, column: int) -> tuple[int, ...]:
        """Return the coordinates of the element at a row and column of the whole grid."""
        sizes = self.tensor.layout.sizes
        return (*unravel(row, sizes[:-1]), column) if sizes else ()

    def address(self, row: int, column: int) -> int:
        """Return the address of a cell, in elements from the start of the tensor's buffer."""
        return self.tensor.layout.address(self.coordinates(row, column))

    def cells(self) -> Iterable[Cell]:
        """Return row and column of each shown cell, row by row."""
        return ((row, column) for row in self.rows for column in self.columns)

    @property
    def padding(self) -> int:
        """Number of unused buffer elements between a row and the next."""
        layout = self.tensor.layout
        if len(layout.sizes) < 2 or layout.sizes[-2] < 2 or layout.strides[-1] != 1:
            return 0
        size = layout.strides[-2] - layout.sizes[-1]
        gap = range(layout.offset + layout.sizes[-1], layout.offset + layout.strides[-2])
        return size if size > 0 and all(layout.position(address) is None for address in islice(gap, 8)) else 0

    @property
    def shown_padding(self) -> int:
        """Padding after each row, 0 if the last column is not shown."""
        return self.padding if self.columns and self.columns[-1] == self.tensor.columns - 1 else 0


def folded(coordinates: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, int]:
    """Return row and column, in the whole grid, of the element at `coordinates`."""
    row = 0
    for coordinate, size in zip(coordinates[:-1], sizes[:-1], strict=True):
        row = row * size + coordinate
    return row, coordinates[-1] if coordinates else 0


def first(tensor: ShownTensor, rows: int, columns: int) -> Cutout:
    """Return the first rows and columns, at most `rows` and `columns`."""
    return Cutout(tensor, tuple(range(min(rows, tensor.rows))), tuple(range(min(columns, tensor.columns))))


def around(tensor: ShownTensor, addresses: Iterable[int], rows: int, columns: int, least: int = LEAST) -> Cutout:
    """Return the rows and columns of the elements at `addresses`, at most `rows` and `columns`.

    If there are fewer than `least` rows or columns, add others.
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
"""Example indices are among the first `NEAR` positions of an axis."""


def example_indices(plan: IndexPlan, looked_up: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """Return example index values by address, in elements from the start of the index tensor.

    `looked_up`: for each element of the plan, the address that each lookup reads. The last element gets an index out of range.
    The element before it gets a negative index if negative indices count from the end.
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
    """Return a negative index of an unused position near the end. Avoid -1, because clamped indices also end there."""
    return next((-back for back in range(2, min(wrap, NEAR) + 1) if wrap - back not in used), -1)


def _out_of_range(lookup: Lookup, index_type: IndexType) -> int | None:
    """Return an index above the range, or below it if the type has no larger value; None if the type has neither."""
    if lookup.limit + 1 <= _largest(index_type):
        return lookup.limit + 1
    return -lookup.wrap - 2 if index_type.signed and lookup.wrap + 2 <= _largest(index_type) else None


def _largest(index_type: IndexType) -> int:
    return int(2 ** (8 * index_type.bytes - index_type.signed) - 1)


MOST_JOINS, FEW_JOINS = 24, 10
"""Up to MOST_JOINS joins, all are drawn. If there are more, only FEW_JOINS are drawn: nobody can follow many crossing lines."""

OUTPUT_ROWS, INPUT_ROWS, INDEX_ROWS = 8, 14, 10
"""Maximum number of rows of each grid."""

MOST_COLUMNS = 8
"""Maximum number of columns of each grid."""


@dataclass(frozen=True, slots=True)
class Join:
    """A line of the diagram. It joins neighbouring output cells to the cells of one input row that they read.

    `source`, `target`: first input cell and first output cell. `length`: number of output cells. `step`: distance, in columns,
    of the input cells of two neighbours. `colour`: a number, equal for equal indices.
    `indices`: the cells of the index tensor that are looked up.
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
        """Input cells, from left to right."""
        row, first = self.source
        return tuple(sorted({(row, first + number * self.step) for number in range(self.length)}))

    @property
    def targets(self) -> tuple[Cell, ...]:
        """Output cells, from left to right."""
        row, first = self.target
        return tuple((row, first + number) for number in range(self.length))


class Scene:
    """The content of a diagram before its layout, computed by interpreting the plan for the shown part of the output.

    `reads`: the origin of each shown output cell. `values`: the index in each shown index cell. `resolved`: the resolved index
    of each index cell that shown output cells look up. `colours`: a number for each tuple of index addresses. `joins`: the
    drawn joins. `runs`: the number of all joins.
    """

    def __init__(self, subject: Subject, columns: int = MOST_COLUMNS, index_columns: int = MOST_COLUMNS) -> None:
        """`columns`, `index_columns`: maximum number of columns of data and output, and of the index tensor.

        Raise ValueError for a plan that cannot run (`IndexPlan.check_limits`).
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
        """Outcomes of the indices of the shown output cells."""
        return {origin.outcome for origin in self.reads.values()}

    def colour(self, cell: Cell) -> int:
        """Return the colour of an output cell: the colour of its indices, or without indices the colour of its row."""
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
        """Return length and step of the run (the cells of one join) that starts at the first of these neighbouring cells."""
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
    """Return the joins to draw. If there are many, prefer those with an index out of range, then those at the start of a row."""
    if len(runs) <= MOST_JOINS:
        return runs
    order = sorted(range(len(runs)), key=lambda i: (runs[i].outcome is IndexOutcome.VALID, runs[i].target[1] > 0, i))
    return [runs[i] for i in sorted(order[:FEW_JOINS])]
