"""Slice as a problem: its rules and windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dmlgather.dialects.problem import TensorType, check_axes
from dmlgather.dialects.windows import Window, WindowProblem, integers, window
from dmlgather.onnx.problems.data_types import check_type
from dmlgather.onnx.problems.operator_versions import OnnxProblem, OperatorVersion
from dmlgather.wording import counted


@dataclass(frozen=True)
class Slice(OnnxProblem, WindowProblem):
    """output[c] = data[start + step · c] in each dimension. Before opset 10, `steps` must be None."""

    data: TensorType
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    opset: int = 13

    name = "Slice"

    def __post_init__(self) -> None:
        version, rank = self.version, self.data.rank
        check_type(version, "data", self.data.dtype, version.types)
        if self.steps is not None and version.since < 10:
            raise ValueError(f"steps is {self.steps}, but {version} has no steps; they came with opset 10")
        starts, ends = integers(version, "starts", self.starts), integers(version, "ends", self.ends)
        axes = tuple(range(len(starts))) if self.axes is None else integers(version, "axes", self.axes)
        steps = (1,) * len(starts) if self.steps is None else integers(version, "steps", self.steps)
        for name, values in (("ends", ends), ("axes", axes), ("steps", steps)):
            if len(values) != len(starts):
                raise ValueError(f"starts has {counted(len(starts), 'entry')} and {name} {len(values)}: expected equally many")
        if len(starts) > rank:
            raise ValueError(f"starts has {counted(len(starts), 'entry')}, but data has rank {rank}: at most one per axis")
        axes = check_axes(axes, rank, "data")
        if 0 in steps:
            raise ValueError(f"steps is {steps}, but a step cannot be 0: steps[{steps.index(0)}] must be 1 or more, or negative")
        for name, values in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps)):
            object.__setattr__(self, name, values)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        assert self.axes is not None
        assert self.steps is not None
        windows = [Window.whole(size) for size in self.data.shape]
        for start, end, axis, step in zip(self.starts, self.ends, self.axes, self.steps, strict=True):
            windows[axis] = window(self.data.shape[axis], start, end, step)
        return tuple(windows)


def check_bound_types(version: OperatorVersion, bounds: Mapping[str, Any]) -> None:
    """Check the data types of a Slice's starts, ends, axes and steps. Values that are not arrays pass."""
    arrays = {name: values for name, values in bounds.items() if hasattr(values, "dtype")}
    for name, values in arrays.items():
        check_type(version, name, values.dtype, version.index_types)
    if len({values.dtype for values in arrays.values()}) > 1:
        listed = ", ".join(f"{name} {values.dtype}" for name, values in arrays.items())
        raise TypeError(f"starts, ends, axes and steps have different types ({listed}), but {version} takes one type for all")
