"""Problems that take a window of each dimension and look nothing up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a dimension that a slice takes: `count` elements from `start` on, `step` apart. In elements; count may be 0."""

    start: int
    count: int
    step: int

    @classmethod
    def whole(cls, size: int) -> Window:
        """Every element of a dimension of that size."""
        return cls(0, size, 1)


def window(size: int, start: int, end: int, step: int) -> Window:
    """What a slice of ONNX or OpenVINO takes along an axis of that size.

    Negative bounds have `size` added. Then start is clamped to 0 … size and end to 0 … size; for negative steps, start to
    0 … size - 1 and end to -1 … size - 1.
    """
    start, end = (value + size if value < 0 else value for value in (start, end))
    if step > 0:
        start, end = (min(max(value, 0), size) for value in (start, end))
        return Window(start, max(0, -((start - end) // step)), step)
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return Window(start, max(0, -((end - start) // -step)), step)


class WindowProblem(Problem):
    """output[c] = data[start + step · c], per dimension."""

    inputs = ("data",)
    out_of_bounds = OutOfBounds.CLAMP  # no index can be out of bounds

    @property
    @abstractmethod
    def windows(self) -> tuple[Window, ...]:
        """The window of each dimension of data."""

    @property
    def output(self) -> TensorType:
        return TensorType(tuple(window.count for window in self.windows), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        in_strides = [window.step * stride for window, stride in zip(self.windows, data.strides, strict=True)]
        in_offset = sum(window.start * stride for window, stride in zip(self.windows, data.strides, strict=True))
        return build(data, output, in_strides, self.data.dtype.itemsize, in_offset=in_offset)
