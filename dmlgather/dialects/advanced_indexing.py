"""Index expressions such as x[0, :, ids, None, ::-1] as problems, by NumPy's rules, which PyTorch shares."""

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
from dmlgather.plan import IndexPlan, Layout, OutOfBounds


@dataclass(frozen=True, slots=True)
class Mask:
    """An index array of bools whose values are known: its shape, and how many of them are true.

    It means the positions of these, `mask.nonzero()`: as many index arrays as it has dimensions, each of `count` indices.
    """

    shape: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, values: NDArray[np.bool_]) -> Mask:
        """The mask with these values."""
        return cls(values.shape, int(np.count_nonzero(values)))


Entry = int | slice | None | EllipsisType | TensorType | Mask
"""One entry of an index expression. A TensorType is an index array of integers; a bool is a Mask of shape (), not an int."""

POSITIONS = np.dtype(np.int64)
"""The type of the index arrays that masks become."""


@dataclass(frozen=True)
class BasicIndexing(SliceView):
    """A window of each dimension of data, of which the output has some, and new dimensions.

    taken: as for SliceView; a dimension that an integer indexes has a window of one element. kept: for each dimension of output,
    the dimension of data that it walks, in order; None for a new one, of size 1. The others have windows of one element.
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
    """output[…, i…, …] = data[…, indices[i…], …]: a gather along several dimensions, of windows of the others.

    taken: a window for each dimension of data; whole where it is looked up. axes: the dimensions that are looked up, in the order
    of the index arrays, each once. indices: of one index array, that array, of shape [i…]; otherwise all, broadcast to one shape
    and stacked behind it, [i…, arrays]. kept: as for BasicIndexing, without i…, which stand before entry `place` of kept.

    Negative indices count from the end of their dimension, once. No axes: nothing is looked up, but the output has the
    dimensions i…, of which one is 0: x[False] has a new dimension of size 0.
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

    def __post_init__(self) -> None:
        if self.indices.dtype.kind not in "iu":
            raise TypeError(f"indices has type {self.indices.dtype}, but must have an integer type")
        SliceView(self.data, self.taken)  # which checks the windows
        _check_kept(self.data, self.taken, self.kept, self.axes)
        if not 0 <= self.place <= len(self.kept):
            raise ValueError(f"place is {self.place}, expected 0 … {len(self.kept)}: kept has {len(self.kept)} dimensions")
        if self._stacked and self.indices.shape[-1:] != (len(self.axes),):
            raise ValueError(f"indices is {self.indices}, but its last size must be the number of index arrays, {len(self.axes)}")

    @property
    def wraps(self) -> bool:
        return True

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return self.axes

    @property
    def positions(self) -> tuple[int, ...]:
        """The sizes of i…, to which all index arrays are broadcast."""
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
        first = sum(window.start * stride for window, stride in zip(self.taken, data.strides, strict=True))
        component = indices.strides[-1] if self._stacked else 0
        return gathering(self, layouts, in_strides, index_strides, component_stride=component, in_offset=first)


def indexing(data: TensorType, entries: Sequence[Entry], *, integers_advance: bool = True) -> BasicIndexing | AdvancedIndexing:
    """The problem data[entries]. Without anything to look up it is a BasicIndexing.

    A dimension of output stands for each slice, new dimension and dimension that no entry is for, in order. The dimensions of the
    index arrays stand where these are if they are neighbours, else in front. integers_advance: whether integers beside index
    arrays count as index arrays in this; in PyTorch they do not. An ellipsis parts neighbours even if it stands for nothing.

    Raises IndexError for too many entries, a second ellipsis, an integer out of range, a mask of another size than its dimensions
    and index arrays that cannot be broadcast; ValueError for a step of 0; TypeError for bounds that are no integers.
    """
    parsed = _Parsed(data, integers_advance and any(isinstance(entry, TensorType | Mask) for entry in entries))
    for number, (entry, sizes) in enumerate(_with_sizes(data, entries)):
        parsed.add(number, entry, sizes)
    taken, kept = tuple(parsed.taken), tuple(parsed.kept)
    if parsed.place is None:
        return BasicIndexing(data, taken, kept)
    indices = stacked_type(entries)
    if not parsed.axes and indices.shape == (1, 0):  # x[True] has a new dimension, and looks nothing up
        return BasicIndexing(data, taken, (*kept[: parsed.place], None, *kept[parsed.place :]))
    return AdvancedIndexing(data, indices, taken, tuple(parsed.axes), kept, parsed.place)


def stacked_type(entries: Sequence[Entry]) -> TensorType:
    """The `indices` of an expression's AdvancedIndexing. IndexError for index arrays that cannot be broadcast."""
    shapes, dtypes = list[tuple[int, ...]](), list[np.dtype[Any]]()
    for entry in entries:
        if isinstance(entry, Mask):
            shapes.append((entry.count,))  # also where it has no dimensions, and is for none of data
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
    """The array that an expression's `indices` is, from its index arrays, of NumPy or CuPy. Those of a mask are `mask.nonzero()`;
    of shape () there are none. The only index array is not copied.
    """
    indices = stacked_type(entries)
    if not arrays:
        return np.empty(indices.shape, indices.dtype)
    positions = indices.shape[:-1] if len(arrays) > 1 else indices.shape
    spread = [array if array.shape == positions else np.broadcast_to(array, positions) for array in arrays]
    return spread[0] if len(arrays) == 1 else np.stack(spread, -1, dtype=indices.dtype)


@dataclass(slots=True)
class _Parsed:
    """The entries that were read so far. advancing: whether integers count as index arrays. place: None before the first one."""

    data: TensorType
    advancing: bool
    taken: list[Window] = field(default_factory=list)
    kept: list[int | None] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    place: int | None = None
    beside: bool = False  # whether the entry before counts as an index array

    def add(self, number: int, entry: Entry, sizes: Sequence[int]) -> None:
        """Read entry `number`, which is for the next dimensions of data, of these sizes."""
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
        """The entry counts as an index array: a neighbour of the others, or their dimensions move to the front."""
        if not self.beside:
            self.place = len(self.kept) if self.place is None else 0
        self.beside = True


def _with_sizes(data: TensorType, entries: Sequence[Entry]) -> list[tuple[Entry, tuple[int, ...]]]:
    """Each entry with the sizes of the dimensions of data that it is for; an ellipsis for those that no other is for."""
    ellipses = [number for number, entry in enumerate(entries) if entry is ...]
    if len(ellipses) > 1:
        raise IndexError(f"entries {ellipses[0]} and {ellipses[1]} are ellipses (...), but there can be one at most")
    entries = entries if ellipses else (*entries, ...)
    ranks = [len(entry.shape) if isinstance(entry, Mask) else int(not (entry is None or entry is ...)) for entry in entries]
    others = data.rank - sum(ranks)
    if others < 0:
        raise IndexError(f"too many indices: the entries are for {sum(ranks)} dimensions, but data has {data.rank}, {data}")
    found, axis = [], 0
    for number, (entry, rank) in enumerate(zip(entries, ranks, strict=True)):
        sizes = data.shape[axis : axis + (others if entry is ... else rank)]
        if isinstance(entry, Mask):
            _check_mask(number, entry, axis, sizes)
        found.append((entry, sizes))
        axis += len(sizes)
    return found


def _check_mask(number: int, mask: Mask, axis: int, sizes: Sequence[int]) -> None:
    for at, (own, size) in enumerate(zip(mask.shape, sizes, strict=True)):
        if own != size:
            raise IndexError(
                f"mask in entry {number} has size {own} in dimension {at}, but dimension {axis + at} of data, which it is for, "
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
        places = range(*entry.indices(size))
    except (TypeError, ValueError) as error:
        rule = "the step must not be 0" if isinstance(error, ValueError) else "bounds and step must be integers or left out"
        raise type(error)(f"entry {number} is {entry}: {rule}") from None
    # The step of a window of one element moves nothing, and may be wider than an address.
    return Window(places[0], len(places), places.step if len(places) > 1 else 1) if places else Window(0, 0, 1)


def _check_kept(data: TensorType, taken: Sequence[Window], kept: Sequence[int | None], looked_up: Sequence[int]) -> None:
    """ValueError unless each dimension is kept, is looked up as a whole, or has a window of one element."""
    walked = [axis for axis in kept if axis is not None]
    if walked != sorted(walked) or sorted({*walked, *looked_up}) != sorted((*walked, *looked_up)):
        raise ValueError(f"kept is {list(kept)} and axes {list(looked_up)}: each dimension of data must be there once at most")
    for axis, window in enumerate(taken):
        if axis in looked_up and window != Window.whole(data.shape[axis]):
            raise ValueError(f"dimension {axis} of data is looked up, so its window must be all of it, not {window}")
        if axis not in (*walked, *looked_up) and window.count != 1:
            raise ValueError(f"dimension {axis} of data is neither kept nor looked up, so {window} must have one element")
