"""Index expressions like x[0, :, ids, None, ::-1], checked by the rules of NumPy and PyTorch and turned into problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import Problem, TensorType, gathering
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, dot


@dataclass(frozen=True, slots=True)
class Mask:
    """A boolean index array without its elements. `count`: the number of True elements."""

    shape: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, values: NDArray[np.bool_]) -> Mask:
        """Return the description of a boolean array."""
        return cls(values.shape, int(np.count_nonzero(values)))


Entry = int | slice | None | EllipsisType | TensorType | Mask
"""A TensorType is an integer index array. A Mask of shape () is a bool."""

POSITIONS = np.dtype(np.int64)
"""Type of the index arrays that replace a mask."""


@dataclass(frozen=True)
class BasicIndexing(SliceView):
    """An index expression without index arrays: integers, slices, and None for a new dimension.

    `taken`: slice of each dimension of data. An integer is a slice of one element.
    `kept`: dimension of data for each output dimension; None for a new one. Example: x[0, None, 2:5] has `kept` (None, 1).
    """

    kept: tuple[int | None, ...]

    name = "index"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_kept(self.data, self.taken, self.kept, ())

    @property
    def output_axes(self) -> tuple[int | None, ...]:
        return self.kept


@dataclass(frozen=True)
class AdvancedIndexing(Problem):
    """An index expression with index arrays: output[…, i…, …] = data[…, indices[i…], …], with slices of the other dimensions.

    `axes`: the dimensions with index arrays. It is empty for x[True] and x[False].
    `indices`: of shape [i…] for one array. Several arrays are broadcast and stacked: [i…, number of arrays].
    `taken`, `kept`: as in BasicIndexing, for the other dimensions.
    `place`: position in `kept` where the dimensions i… are inserted.
    """

    data: TensorType
    indices: TensorType
    taken: tuple[Window, ...]
    axes: tuple[int, ...]
    kept: tuple[int | None, ...]
    place: int

    name = "index"
    inputs = ("data", "indices")
    out_of_bounds = OutOfBounds.RAISE
    wraps = True

    def __post_init__(self) -> None:
        if self.indices.dtype.kind not in "iu":
            raise TypeError(f"indices has type {self.indices.dtype}, but must have an integer type")
        SliceView(self.data, self.taken)  # checks the windows
        _check_kept(self.data, self.taken, self.kept, self.axes)
        if not 0 <= self.place <= len(self.kept):
            raise ValueError(f"place is {self.place}, expected 0 … {len(self.kept)}: kept has {len(self.kept)} dimensions")
        if self._stacked and self.indices.shape[-1:] != (len(self.axes),):
            raise ValueError(f"indices is {self.indices}, but its last size must be the number of index arrays, {len(self.axes)}")

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return self.axes

    @property
    def positions(self) -> tuple[int, ...]:
        """Shape to which the index arrays are broadcast."""
        return self.indices.shape[:-1] if self._stacked else self.indices.shape

    @property
    def output(self) -> TensorType:
        sizes = tuple(1 if axis is None else self.taken[axis].count for axis in self.kept)
        return TensorType((*sizes[: self.place], *self.positions, *sizes[self.place :]), self.data.dtype)

    @property
    def _stacked(self) -> bool:
        return len(self.axes) != 1

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, _ = layouts
        steps = [window.step * stride for window, stride in zip(self.taken, data.strides, strict=True)]
        in_strides = [0 if axis is None else steps[axis] for axis in self.kept]
        in_strides[self.place : self.place] = [0] * len(self.positions)
        moved = indices.strides[: len(self.positions)]
        index_strides = (*(0,) * self.place, *moved, *(0,) * (len(self.kept) - self.place))
        first = dot([window.start for window in self.taken], data.strides)
        component = indices.strides[-1] if self._stacked else 0
        return gathering(self, layouts, in_strides, index_strides, component_stride=component, in_offset=first)


def indexing(data: TensorType, entries: Sequence[Entry], *, integers_advance: bool = True) -> BasicIndexing | AdvancedIndexing:
    """Return data[entries] as an AdvancedIndexing if it has index arrays or masks, else as a BasicIndexing.

    `integers_advance`: True if integers count as index arrays in an expression that has some, as in NumPy; False for PyTorch.

    Raises IndexError, ValueError (a step of 0) or TypeError (a bound or step that is no integer).
    """
    parsed = _Parsed(data, integers_advance and any(isinstance(entry, TensorType | Mask) for entry in entries))
    for number, (entry, sizes) in enumerate(_with_sizes(data, entries)):
        parsed.add(number, entry, sizes)
    taken, kept = tuple(parsed.taken), tuple(parsed.kept)
    if parsed.place is None:
        return BasicIndexing(data, taken, kept)
    indices = stacked_type(entries)
    if not parsed.axes and indices.shape == (1, 0):  # x[True] adds a dimension of size 1, without a lookup
        return BasicIndexing(data, taken, (*kept[: parsed.place], None, *kept[parsed.place :]))
    return AdvancedIndexing(data, indices, taken, tuple(parsed.axes), kept, parsed.place)


def stacked_type(entries: Sequence[Entry]) -> TensorType:
    """Return the type of the array that `stacked` returns. Raises IndexError if index arrays cannot be broadcast together."""
    shapes, dtypes = list[tuple[int, ...]](), list[np.dtype[Any]]()
    for entry in entries:
        if isinstance(entry, Mask):
            shapes.append((entry.count,))  # a mask of shape () is broadcast, too, but has no index array
            dtypes += [POSITIONS] * len(entry.shape)
        elif isinstance(entry, TensorType):
            shapes.append(entry.shape)
            dtypes.append(entry.dtype)
    try:
        positions = np.broadcast_shapes(*shapes)
    except ValueError:
        shown = " ".join(str(list(shape)) for shape in shapes)
        raise IndexError(f"index arrays of shapes {shown} cannot be broadcast together: sizes must be equal, or 1") from None
    return TensorType(positions if len(dtypes) == 1 else (*positions, len(dtypes)), np.result_type(*dtypes or [POSITIONS]))


def stacked(entries: Sequence[Entry], arrays: Sequence[Any]) -> Any:
    """Combine the index arrays of an expression into one array. A single index array is not copied.

    `arrays`: the index arrays. In place of a mask, pass the arrays of `mask.nonzero()`; for a mask of shape (), pass none.
    """
    indices = stacked_type(entries)
    if not arrays:
        return np.empty(indices.shape, indices.dtype)
    positions = indices.shape[:-1] if len(arrays) > 1 else indices.shape
    spread = [array if array.shape == positions else np.broadcast_to(array, positions) for array in arrays]
    return spread[0] if len(arrays) == 1 else np.stack(spread, -1, dtype=indices.dtype)


@dataclass(slots=True)
class _Parsed:
    """The entries that `indexing` has read so far. `advancing`: True if integers count as index arrays."""

    data: TensorType
    advancing: bool
    taken: list[Window] = field(default_factory=list)
    kept: list[int | None] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    place: int | None = None
    beside: bool = False  # the previous entry is an index array

    def add(self, number: int, entry: Entry, sizes: Sequence[int]) -> None:
        """Read one entry. `sizes`: sizes of the dimensions of data that it indexes."""
        axis = len(self.taken)
        axes = range(axis, axis + len(sizes))
        if isinstance(entry, int):
            if self.advancing:
                self._join()
            self.taken.append(_element(number, entry, axis, sizes[0]))
        elif isinstance(entry, TensorType | Mask):
            self._join()
            self.axes += axes
            self.taken += map(Window.whole, sizes)
        else:
            self.beside = False
            self.kept += [None] if entry is None else axes
            self.taken += [_window(number, entry, sizes[0])] if isinstance(entry, slice) else map(Window.whole, sizes)

    def _join(self) -> None:
        """Choose the place of the index arrays' dimensions in the output.

        It is the place of the first array, or the front if other entries (such as an ellipsis) separate the arrays.
        """
        if not self.beside:
            self.place = len(self.kept) if self.place is None else 0
        self.beside = True


def _with_sizes(data: TensorType, entries: Sequence[Entry]) -> list[tuple[Entry, tuple[int, ...]]]:
    """Return each entry with the sizes of the dimensions of data that it indexes. An ellipsis takes all that are left."""
    ellipses = [number for number, entry in enumerate(entries) if entry is ...]
    if len(ellipses) > 1:
        raise IndexError(f"entries {ellipses[0]} and {ellipses[1]} are ellipses (...), but at most one is allowed")
    entries = entries if ellipses else (*entries, ...)
    ranks = [len(entry.shape) if isinstance(entry, Mask) else int(not (entry is None or entry is ...)) for entry in entries]
    others = data.rank - sum(ranks)
    if others < 0:
        raise IndexError(f"too many indices: the entries are for {sum(ranks)} dimensions, but data has {data.rank}, {data}")
    pairs, axis = [], 0
    for number, (entry, rank) in enumerate(zip(entries, ranks, strict=True)):
        sizes = data.shape[axis : axis + (others if entry is ... else rank)]
        if isinstance(entry, Mask):
            _check_mask(number, entry, axis, sizes)
        pairs.append((entry, sizes))
        axis += len(sizes)
    return pairs


def _check_mask(number: int, mask: Mask, axis: int, sizes: Sequence[int]) -> None:
    for dimension, (mask_size, size) in enumerate(zip(mask.shape, sizes, strict=True)):
        if mask_size != size:
            raise IndexError(
                f"mask in entry {number} has size {mask_size} in dimension {dimension}, but dimension {axis + dimension} of data "
                f"has size {size}: sizes must be equal"
            )


def _element(number: int, position: int, axis: int, size: int) -> Window:
    if not -size <= position < size:
        valid = f"{-size} … {size - 1}" if size else "none"
        raise IndexError(
            f"entry {number} is {position}, which is out of range for dimension {axis} of size {size}: valid indices are {valid}"
        )
    return Window(position % size, 1, 1)


def _window(number: int, entry: slice, size: int) -> Window:
    try:
        positions = range(*entry.indices(size))
    except (TypeError, ValueError) as error:
        rule = "the step must not be 0" if isinstance(error, ValueError) else "bounds and step must be integers or left out"
        raise type(error)(f"entry {number} is {entry}: {rule}") from None
    if not positions:
        return Window(0, 0, 1)
    # The step of a single element has no effect, but may be too large for a 64-bit stride. So it is replaced by 1.
    return Window(positions[0], len(positions), positions.step if len(positions) > 1 else 1)


def _check_kept(data: TensorType, taken: Sequence[Window], kept: Sequence[int | None], looked_up: Sequence[int]) -> None:
    """Raise ValueError unless each dimension of data is kept in the output, is indexed, or is sliced to one element."""
    copied = [axis for axis in kept if axis is not None]
    if copied != sorted(copied) or sorted({*copied, *looked_up}) != sorted((*copied, *looked_up)):
        raise ValueError(f"kept is {list(kept)} and axes {list(looked_up)}: no dimension of data may occur twice")
    for axis, window in enumerate(taken):
        if axis in looked_up and window != Window.whole(data.shape[axis]):
            raise ValueError(f"dimension {axis} of data is looked up, so its window must be all of it, not {window}")
        if axis not in (*copied, *looked_up) and window.count != 1:
            raise ValueError(f"dimension {axis} of data is neither kept nor looked up, so {window} must have one element")
