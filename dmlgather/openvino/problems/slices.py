"""Rules and lowering of Slice and StridedSlice. Source: their pages in OpenVINO's documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dmlgather.dialects.problem import TensorType, check_axes
from dmlgather.dialects.windows import Window, WindowProblem, integers, window
from dmlgather.openvino.problems.operation_versions import INTEGERS, MASKS, TYPES, OpenVINOProblem
from dmlgather.wording import counted

MOST = 2**64 - 1
"""Largest start, stop or step. OpenVINO allows these inputs to have type u64."""


class BoundedProblem(OpenVINOProblem, WindowProblem):
    """Base class of Slice and StridedSlice."""

    def _set_bounds(self, **bounds: Any) -> None:
        """Store each bound as a tuple of integers in the field with its name.

        Raises TypeError if a bound is not made of integers, and ValueError if the bounds have different lengths.
        """
        first = next(iter(bounds))
        for name, values in bounds.items():
            element_type = TYPES.name_of(values.dtype) if hasattr(values, "dtype") else None
            if element_type is not None and element_type not in INTEGERS:
                raise TypeError(f"{name} has type {element_type}, but {self} takes {', '.join(INTEGERS)}")
            object.__setattr__(self, name, integers(self, name, values, MOST))
            expected, count = len(getattr(self, first)), len(getattr(self, name))
            if count != expected:
                raise ValueError(f"{first} has {counted(expected, 'entry')} and {name} has {count}: expected equal lengths")


@dataclass(frozen=True)
class OpenVINOSlice(BoundedProblem):
    """output[c] = data[start + step · c] in each dimension. In the field `axes`, no number is negative."""

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
        self._set_bounds(start=self.start, stop=self.stop, step=self.step, axes=axes)
        if len(self.start) > self.data.rank:
            raise ValueError(
                f"start has {counted(len(self.start), 'entry')}, but data has rank {self.data.rank}: at most one per axis"
            )
        object.__setattr__(self, "axes", check_axes(self.axes or (), self.data.rank, "data"))
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
    """The effect of StridedSlice on one dimension.

    `axis`: the dimension of data; None for a dimension that new_axis_mask adds to the output.
    `number`: the position in begin, end and strides; None if the whole dimension is kept.
    `shrinks`: True if the output lacks the dimension.
    """

    axis: int | None
    number: int | None
    shrinks: bool = False


def entries(rank: int, new: Sequence[int], shrink: Sequence[int], ellipsis: Sequence[int]) -> Iterator[Entry]:
    """Yield an Entry for each dimension of data or of the output, in the order of the output.

    Raises ValueError if the masks describe more dimensions than data has.
    """
    masks = tuple(zip(ellipsis, new, shrink, strict=True))
    bounded = sum(not (is_ellipsis or is_new) for is_ellipsis, is_new, _ in masks)
    if bounded > rank:
        raise ValueError(
            f"begin has {counted(bounded, 'entry')} for dimensions of data, but data has rank {rank}: at most one per "
            "dimension, besides those of new_axis_mask and ellipsis_mask"
        )
    axis = 0
    for number, (is_ellipsis, is_new, shrinks) in enumerate(masks):
        if is_ellipsis:
            yield from (Entry(dimension, None) for dimension in range(axis, axis + rank - bounded))
            axis += rank - bounded
        elif is_new:
            yield Entry(None, None)
        else:
            yield Entry(axis, number, bool(shrinks))
            axis += 1
    yield from (Entry(dimension, None) for dimension in range(axis, rank))


@dataclass(frozen=True)
class OpenVINOStridedSlice(BoundedProblem):
    """output = data[begin[0]:end[0]:strides[0], begin[1]:end[1]:strides[1], …], changed by masks.

    `dmlgather.openvino.strided_slice` describes the masks. The fields store them with the length of `begin`.
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
        self._set_bounds(begin=self.begin, end=self.end, strides=strides)
        count = len(self.begin)
        for name in MASKS:
            mask = integers(self, name, getattr(self, name))
            if not {0, 1}.issuperset(mask):
                raise ValueError(f"{name} is {mask}, but a mask has zeros and ones")
            if name == "ellipsis_mask" and sum(mask) > 1:
                raise ValueError(f"ellipsis_mask is {mask}, but {self} takes at most one ellipsis")
            object.__setattr__(self, name, (*mask[:count], *(0,) * (count - len(mask))))
        assert self._windows_and_axes is not None  # computing it checks the entries

    @property
    def windows(self) -> tuple[Window, ...]:
        return self._windows_and_axes[0]

    @property
    def output_axes(self) -> tuple[int | None, ...]:
        return self._windows_and_axes[1]

    @cached_property
    def _windows_and_axes(self) -> tuple[tuple[Window, ...], tuple[int | None, ...]]:
        """The fields `windows` and `output_axes`, computed together.

        Raises ValueError if a begin, end or stride does not fit data.
        """
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
        """Return the window that contains only element begin[k] of dimension `axis`.

        As in TensorFlow, begin_mask has no effect on it. Raises ValueError if there is no such element.
        """
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
        # A masked end with a negative stride is -1, before the first element. `window` adds `size` to negative ends.
        first, after_last = (0, size) if stride > 0 else (size - 1, -size - 1)
        return window(size, first if self.begin_mask[k] else start, after_last if self.end_mask[k] else end, stride)
