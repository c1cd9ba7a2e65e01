"""Which rows and columns of a tensor a grid shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from dmlgather.picture.subject import ShownTensor
from dmlgather.plan import unravel

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
