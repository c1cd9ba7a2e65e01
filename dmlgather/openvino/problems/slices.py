"""Slice and StridedSlice: rules and lowering. Source: the operations' pages in OpenVINO's documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dmlgather.dialects.problem import TensorType, check_axes
from dmlgather.dialects.windows import Window, WindowProblem, integers, window
from dmlgather.openvino.problems.operation_versions import INTEGERS, TYPES, OpenVINOProblem
from dmlgather.wording import counted

MOST = 2**64 - 1
"""The greatest bound: bounds may be u64."""

MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
"""The masks of StridedSlice, in the order of its constructor."""


class BoundedProblem(OpenVINOProblem, WindowProblem):
    """A slice whose bounds are sequences of integers, or host arrays of any integer types."""

    def _bounds(self, **given: Any) -> None:
        """Store each as a tuple of Python integers. TypeError for other types; ValueError for other dimensions or lengths."""
        first = next(iter(given))
        for name, values in given.items():
            kind = TYPES.name_of(values.dtype) if hasattr(values, "dtype") else None
            if kind is not None and kind not in INTEGERS:
                raise TypeError(f"{name} has type {kind}, but {self} takes {', '.join(INTEGERS)}")
            object.__setattr__(self, name, integers(self, name, values, MOST))
            count, own = len(getattr(self, first)), len(getattr(self, name))
            if own != count:
                raise ValueError(f"{first} has {counted(count, 'entry')} and {name} {own}: expected equally many")


@dataclass(frozen=True)
class OpenVINOSlice(BoundedProblem):
    """output[c] = data[start + step · c], per dimension.

    data: of rank r >= 1. start, stop, step, axes: equally many integers, at most r. step: not 0. axes: default 0, 1, …; -r … r-1,
    each once, stored as 0 … r-1.
    """

    data: TensorType
    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    version: int = 8

    name = "Slice"

    def __post_init__(self) -> None:
        self._check_tensors()
        axes = range(len(self.start)) if self.axes is None else self.axes
        self._bounds(start=self.start, stop=self.stop, step=self.step, axes=axes)
        if len(self.start) > self.data.rank:
            raise ValueError(
                f"start has {counted(len(self.start), 'entry')}, but data has rank {self.data.rank}: at most one per axis"
            )
        object.__setattr__(self, "axes", check_axes("axes", self.axes or (), self.data.rank, "data"))
        if 0 in self.step:
            place = f"step[{self.step.index(0)}]"
            raise ValueError(f"step is {self.step}, but a step cannot be 0: {place} must be 1 or more, or negative")

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        windows = [Window.whole(size) for size in self.data.shape]
        for start, stop, step, axis in zip(self.start, self.stop, self.step, self.axes or (), strict=True):
            windows[axis] = window(self.data.shape[axis], start, stop, step)
        return tuple(windows)


class Entry(NamedTuple):
    """What StridedSlice does at one place: with dimension `axis` of data, None for a new one; by its bounds number `number`, None
    for a dimension that is taken whole. shrinks: whether it takes one element and drops the dimension.
    """

    axis: int | None
    number: int | None
    shrinks: bool = False


def entries(rank: int, new: Sequence[int], shrink: Sequence[int], ellipsis: Sequence[int]) -> Iterator[Entry]:
    """What StridedSlice does with data of that rank, in order. new, shrink, ellipsis: its masks, with one mark for each entry of
    begin. ValueError for more entries than dimensions, and for several ellipses.
    """
    if sum(map(bool, ellipsis)) > 1:
        raise ValueError(f"ellipsis_mask is {tuple(ellipsis)}, but StridedSlice takes at most one ellipsis")
    marks = tuple(zip(ellipsis, new, shrink, strict=True))
    bounded = sum(not (whole or fresh) for whole, fresh, _ in marks)
    if bounded > rank:
        raise ValueError(
            f"begin has {counted(bounded, 'entry')} for dimensions of data, but data has rank {rank}: at most one per "
            "dimension, besides those of new_axis_mask and ellipsis_mask"
        )
    axis = 0
    for number, (whole, fresh, drops) in enumerate(marks):
        if whole:
            yield from (Entry(each, None) for each in range(axis, axis + rank - bounded))
            axis += rank - bounded
        elif fresh:
            yield Entry(None, None)
        else:
            yield Entry(axis, number, bool(drops))
            axis += 1
    yield from (Entry(each, None) for each in range(axis, rank))


@dataclass(frozen=True)
class OpenVINOStridedSlice(BoundedProblem):
    """output = data[begin[0] : end[0] : strides[0], begin[1] : end[1] : strides[1], …], changed by masks.

    data: of any rank. begin, end, strides: equally many integers; strides: default 1, …. Entry k is for the next dimension of
    data, unless a mask has a 1 at k. Of several, the first of these counts:

    - ellipsis_mask: the entry stands for all dimensions that no other entry is for, which are taken whole. At most one entry.
    - new_axis_mask: for a new dimension of size 1.
    - shrink_axis_mask: for the element begin[k], which must exist; the dimension is dropped.
    - begin_mask, end_mask: from the first element on, up to the last element, in the direction of the stride.

    Masks are zeros and ones, stored with as many entries as begin: what a mask lacks is zeros, what it has more is ignored.
    """

    data: TensorType
    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    begin_mask: tuple[int, ...] = ()
    end_mask: tuple[int, ...] = ()
    new_axis_mask: tuple[int, ...] = ()
    shrink_axis_mask: tuple[int, ...] = ()
    ellipsis_mask: tuple[int, ...] = ()
    version: int = 1

    name = "StridedSlice"

    def __post_init__(self) -> None:
        self._check_tensors()
        strides = (1,) * len(self.begin) if self.strides is None else self.strides
        self._bounds(begin=self.begin, end=self.end, strides=strides)
        for name in MASKS:
            object.__setattr__(self, name, self._mask(name))
        assert self._taken is not None  # it checks the entries

    def _mask(self, name: str) -> tuple[int, ...]:
        given = integers(self, name, getattr(self, name))
        if not {0, 1}.issuperset(given):
            raise ValueError(f"{name} is {given}, but a mask has zeros and ones")
        if name == "ellipsis_mask" and sum(given) > 1:
            raise ValueError(f"ellipsis_mask is {given}, but {self} takes at most one ellipsis")
        count = len(self.begin)
        return (*given[:count], *(0,) * (count - len(given)))

    @property
    def windows(self) -> tuple[Window, ...]:
        return self._taken[0]

    @property
    def output_axes(self) -> tuple[int | None, ...]:
        return self._taken[1]

    @cached_property
    def _taken(self) -> tuple[tuple[Window, ...], tuple[int | None, ...]]:
        """`windows` and `output_axes`, entry by entry. ValueError for an entry that data does not allow."""
        windows, axes = list[Window](), list[int | None]()
        for entry in entries(self.data.rank, self.new_axis_mask, self.shrink_axis_mask, self.ellipsis_mask):
            if entry.shrinks:
                windows.append(self._element(entry.number, entry.axis))
                continue
            axes.append(entry.axis)
            if entry.axis is not None:
                size = self.data.shape[entry.axis]
                windows.append(Window.whole(size) if entry.number is None else self._window(entry.number, size))
        return tuple(windows), tuple(axes)

    def _element(self, k: int | None, axis: int | None) -> Window:
        """begin[k] of dimension `axis`, whatever begin_mask says: so do TensorFlow and OpenVINO's evaluate."""
        assert k is not None
        assert axis is not None
        size, position = self.data.shape[axis], self.begin[k]
        if not -size <= position < size:
            valid = f"{-size} … {size - 1}" if size else "none"
            raise ValueError(
                f"begin[{k}] is {position}, but shrink_axis_mask takes that element of dimension {axis} of data, which has size "
                f"{size}: valid positions are {valid}"
            )
        return Window(position % size, 1, 1)

    def _window(self, k: int, size: int) -> Window:
        assert self.strides is not None
        start, end, stride = self.begin[k], self.end[k], self.strides[k]
        if not stride:
            raise ValueError(f"strides is {self.strides}, but a stride cannot be 0: strides[{k}] must be 1 or more, or negative")
        first, behind = (0, size) if stride > 0 else (size - 1, -size - 1)  # the latter counted from the end
        return window(size, first if self.begin_mask[k] else start, behind if self.end_mask[k] else end, stride)
