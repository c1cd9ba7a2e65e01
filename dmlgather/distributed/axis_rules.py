"""Turns indices into row numbers of a table, by the rules of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.outcomes import out_of_range
from dmlgather.calls.arguments import Fill, resolve_policy
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import FeatureLevel
from dmlgather.directml.building import MASK_AS_INDICES
from dmlgather.directml.support import row_at
from dmlgather.distributed.chunk_grid import replace_axis
from dmlgather.lax.problems.gather import GatherDimensionNumbers, LaxGather
from dmlgather.onnx.problems.gather import Gather as OnnxGather
from dmlgather.openvino.problems.gather import OpenVINOGather
from dmlgather.plan import OutOfBounds
from dmlgather.wording import alternatives

FILLED = -1
"""The row number that stands for the fill value."""


@dataclass(frozen=True, slots=True)
class AxisRule:
    """A rule that turns indices along one axis of a table into row numbers.

    `extent`: size of the axis. `wrap`: number that is added to negative indices; 0 if they are out of bounds. `fill`: the bytes
    of one element; empty if nothing is filled. `reads`: False if another axis has size 0, so that no element is read.
    """

    extent: int
    wrap: int
    out_of_bounds: OutOfBounds
    fill: bytes
    dtype: np.dtype[Any]
    name: str
    axis: int
    reads: bool

    def resolve(self, indices: Any, start: Sequence[int] = ()) -> NDArray[np.int64]:
        """Return the row number of each index, from 0 to extent - 1, or FILLED, as a new array.

        `indices`: integers in host memory. `start`: coordinates of the first index in the whole index array, for messages.
        Raises IndexError under RAISE, and ValueError under CLAMP or PROMISE if the axis has size 0.
        """
        values = np.asarray(indices)
        if values.dtype.kind not in "iu":
            raise TypeError(f"{self.name} has type {values.dtype}, expected integers")
        positions = values.astype(np.int64, order="C")
        if self.wrap and values.dtype.kind == "i":
            np.add(positions, self.wrap, out=positions, where=positions < 0)
        # As uint64, -1 is 2**64 - 1, so one comparison also finds negative positions and uint64 indices above 2**63.
        outside = positions.view(np.uint64) >= np.uint64(self.extent)
        if not outside.any():
            return positions
        if self.out_of_bounds is OutOfBounds.RAISE:
            raise self._error(values, outside, start)
        if self.out_of_bounds is OutOfBounds.FILL or not (self.extent or self.reads):
            positions[outside] = FILLED
            return positions
        if not self.extent:
            raise ValueError(
                f"{self.name} has {values.size} indices along axis {self.axis} of size 0: under {self.out_of_bounds.name} there "
                "is nothing to read (expected size >= 1, or no index); use out_of_bounds=Fill(value) or 'raise'"
            )
        last, signed = self.extent - 1, values.dtype.kind == "i"
        positions[outside] = np.where(positions[outside] < 0, 0, last) if signed else last
        return positions

    def clamped(self, indices: Any) -> int:
        """Return the number of indices that `resolve` replaces by the first or last row."""
        if self.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE) or not self.extent:
            return 0
        values = np.asarray(indices)
        return int(np.count_nonzero(values >= self.extent) + np.count_nonzero(values < -self.wrap))

    def _error(self, values: NDArray[Any], outside: NDArray[np.bool_], start: Sequence[int]) -> IndexError:
        first = np.unravel_index(int(outside.argmax()), values.shape)
        coordinates = [int(index) + origin for index, origin in zip(first, start or (0,) * values.ndim, strict=True)]
        element = f"{self.name}[{', '.join(map(str, coordinates))}]"
        return out_of_range(element, int(values[first]), self.axis, self.extent, self.wrap)


def axis_rule(
    dialect: str, table: TensorType, indices: TensorType, axis: int, out_of_bounds: str | Fill | None = None
) -> AxisRule:
    """Return the rule by which a dialect turns indices into row numbers. `out_of_bounds`: None for the dialect's own rule."""
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {dialect!r}, expected {alternatives(map(repr, DIALECTS))}")
    if table.dtype.hasobject:
        raise TypeError(f"the table has type {table.dtype}: strings and objects are stored elsewhere and cannot be moved")
    if indices.dtype.hasobject:
        raise TypeError("indices has objects or strings, expected integers")
    if dialect == "directml":
        _check_directml_types(table, indices, axis)
        name, wraps, policy, fill = "IndicesTensor", True, OutOfBounds.CLAMP, b""
    else:
        problem = _PROBLEMS[dialect](table, indices, axis)
        name, wraps, policy, fill = problem.arguments[-1], problem.wraps, problem.out_of_bounds, problem.fill
    if out_of_bounds is not None:
        policy, fill = resolve_policy(out_of_bounds, policy, table.dtype)
    extent = table.shape[axis]
    wrap = extent if wraps and indices.dtype.kind == "i" else 0
    return AxisRule(extent, wrap, policy, fill, table.dtype, name, axis, reads=0 not in replace_axis(table.shape, axis))


def _check_directml_types(table: TensorType, indices: TensorType, axis: int) -> None:
    """Raise TypeError if GATHER does not support the types. Sizes are checked elsewhere."""
    if indices.dtype == np.bool_:
        raise TypeError(MASK_AS_INDICES)
    for tensor, dtype in (("InputTensor", table.dtype), ("IndicesTensor", indices.dtype)):
        row = row_at("GATHER", tensor, max(FeatureLevel))
        assert row is not None
        if not dtype.isnative or dtype.name.upper() not in {data_type.name for data_type in row.data_types}:
            bits = " or .view" if tensor == "InputTensor" and dtype.isnative else ""
            raise TypeError(
                f"{tensor} has type {dtype.name if dtype.isnative else dtype.str}, but dialect 'directml' takes "
                f"{alternatives(row.data_types)}: convert with .astype{bits}{_other_dialects(table, indices, axis)}"
            )


def _other_dialects(table: TensorType, indices: TensorType, axis: int) -> str:
    """Return the end of an error message: which other dialects accept these types."""
    dialects = []
    for name, problem in _PROBLEMS.items():
        with suppress(TypeError, ValueError):
            problem(table, indices, axis)
            dialects.append(f"dialect={name!r}")
    return f", or use {alternatives(dialects)}" if dialects else ""


def _lax_gather(table: TensorType, indices: TensorType, axis: int) -> Problem:
    """Return the jax.lax.gather that copies whole rows."""
    vectors = TensorType((*indices.shape, 1), indices.dtype)
    offset_dims = [dim for dim in range(table.rank - 1 + indices.rank) if not axis <= dim < axis + indices.rank]
    numbers = GatherDimensionNumbers(tuple(offset_dims), collapsed_slice_dims=(axis,), start_index_map=(axis,))
    return LaxGather(table, vectors, numbers, replace_axis(table.shape, axis, 1))


_PROBLEMS: dict[str, Callable[[TensorType, TensorType, int], Problem]] = {
    "onnx": OnnxGather,
    "openvino": OpenVINOGather,
    "lax": _lax_gather,
}

DIALECTS = ("directml", *_PROBLEMS)
