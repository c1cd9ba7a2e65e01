"""Slices: a start, a count and a step for each dimension."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.problem import Problem, TensorType, whole
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build, dot


@dataclass(frozen=True, slots=True)
class Window:
    """A slice of one dimension: `count` positions from `start` on. `step` may be negative."""

    start: int
    count: int
    step: int

    @classmethod
    def whole(cls, size: int) -> Window:
        """Return the slice that takes all elements of a dimension."""
        return cls(0, size, 1)


def window(size: int, start: int, end: int, step: int) -> Window:
    """Return the slice start:end:step of a dimension of `size` elements, by the rules of ONNX and OpenVINO.

    `size` is added to a negative `start` or `end`. Then both are clamped to 0 … size. If the step is negative, `start` is
    clamped to 0 … size - 1 and `end` to -1 … size - 1 instead.
    """
    start, end = (value + size if value < 0 else value for value in (start, end))
    if step > 0:
        start, end = (min(max(value, 0), size) for value in (start, end))
        return Window(start, max(0, -((start - end) // step)), step)
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return Window(start, max(0, -((end - start) // -step)), step)


def integers(operator: object, name: str, values: Sequence[Any], most: int = 2**63 - 1) -> tuple[int, ...]:
    """Return starts, ends, axes or steps as Python ints.

    Raises TypeError if a value is no integer. Raises ValueError for an array of another rank than 1, and for an integer outside
    -2^63 … `most`.
    """
    shape = getattr(values, "shape", (0,))
    if len(shape) != 1:
        raise ValueError(f"{name} has shape {tuple(shape)}, but {operator} takes one dimension: reshape to (-1,)")
    result = tuple(whole(f"{name}[{number}]", value) for number, value in enumerate(values))
    for number, value in enumerate(result):
        if not -(2**63) <= value <= most:
            raise ValueError(f"{name}[{number}] is {value}, which is no 64-bit integer: expected {-(2**63)} … {most}")
    return result


class WindowProblem(Problem):
    """A slice: output[c] = data[start + step · c] in each dimension."""

    inputs = ("data",)
    out_of_bounds = OutOfBounds.CLAMP  # the choice does not matter: there are no indices

    @property
    @abstractmethod
    def windows(self) -> tuple[Window, ...]:
        """The window of each dimension of data."""

    @property
    def output_axes(self) -> tuple[int | None, ...]:
        """Dimension of data for each output dimension; None for a new dimension of size 1."""
        return tuple(range(self.data.rank))

    @property
    def output(self) -> TensorType:
        counts = [window.count for window in self.windows]
        return TensorType(tuple(1 if axis is None else counts[axis] for axis in self.output_axes), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        steps = [window.step * stride for window, stride in zip(self.windows, data.strides, strict=True)]
        in_strides = [0 if axis is None else steps[axis] for axis in self.output_axes]
        in_offset = dot([window.start for window in self.windows], data.strides)
        return build(data, output, in_strides, self.data.dtype.itemsize, in_offset=in_offset)
