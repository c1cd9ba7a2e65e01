"""What an index means along one axis, by the rules of a dialect: resolved before any row moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.outcomes import out_of_range
from dmlgather.dialects.element_types import numpy_type
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import BufferTensorDesc, DataType, Finding, GatherOperatorDesc, lower, validate
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.policy import Fill, resolve_policy
from dmlgather.wording import alternatives

FILLED = -1
"""What stands for a position where an index is out of bounds and the result is filled."""


@dataclass(frozen=True, slots=True)
class AxisRule:
    """How indices along one axis are resolved to positions.

    extent: size of the axis. wrap: added once to a negative index; 0 leaves those out of bounds. fill: the bytes of one element
    under FILL, else empty. dtype: of the elements. name, axis: what messages call the indices, and the axis. refusal: why the
    dialect takes no index at all; empty where it does. reads: whether an index reads elements, which it does not where another
    axis has none.
    """

    extent: int
    wrap: int
    out_of_bounds: OutOfBounds
    fill: bytes
    dtype: np.dtype[Any]
    name: str
    axis: int = 0
    refusal: str = ""
    reads: bool = True

    def resolve(self, indices: Any, start: Sequence[int] = ()) -> NDArray[np.int64]:
        """The position 0 … extent - 1 that each index means, FILLED (-1) where its element is filled; a new array of their shape.

        indices: integers on the host, shape [i…]. start: coordinates of their first element in the whole index array, for
        messages. Raises IndexError under RAISE for the first index out of bounds, ValueError under CLAMP and PROMISE where the
        axis has no elements but an index reads some, TypeError for anything but integers and where the dialect takes no index.
        """
        values = np.asarray(indices)
        if values.dtype.kind not in "iu":
            raise TypeError(f"{self.name} has type {values.dtype}, expected integers")
        if self.refusal and values.size:
            raise TypeError(self.refusal)
        positions = values.astype(np.int64, order="C")
        if self.wrap and values.dtype.kind == "i":
            np.add(positions, self.wrap, out=positions, where=positions < 0)
        # As unsigned numbers, negative positions and integers of more than 63 bits are too large as well.
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

    def _error(self, values: NDArray[Any], outside: NDArray[np.bool_], start: Sequence[int]) -> IndexError:
        first = np.unravel_index(int(outside.argmax()), values.shape)
        place = [int(at) + origin for at, origin in zip(first, start or (0,) * values.ndim, strict=True)]
        where = f"{self.name}[{', '.join(map(str, place))}]"
        return out_of_range(where, int(values[first]), self.axis, self.extent, self.wrap)


def axis_rule(
    dialect: str,
    extent: int,
    dtype: Any,
    index_dtype: Any,
    out_of_bounds: str | Fill | None = None,
    *,
    axis: int = 0,
    reads: bool = True,
) -> AxisRule:
    """The rule of a dialect's gather for one axis.

    dialect: one of DIALECTS. extent: size of the axis, any. dtype, index_dtype: of the elements and of the indices.
    out_of_bounds: None for the dialect's own policy, else "clamp", "raise", "promise" or a Fill. axis, reads: as in `AxisRule`.

    Raises TypeError for types that the dialect does not take and for strings, ValueError for an unknown dialect or policy.
    """
    if dialect not in _PLANS:
        raise ValueError(f"dialect is {dialect!r}, expected {alternatives(map(repr, DIALECTS))}")
    element, index = numpy_type(dtype), numpy_type(index_dtype)
    if element.hasobject:
        raise TypeError(f"the table has type {np.dtype(dtype)}: strings and objects lie outside of their array and are not moved")
    plan, name, refusal = _PLANS[dialect](extent, element, index)
    policy, fill = plan.out_of_bounds, plan.fill
    if out_of_bounds is not None:
        policy, fill = resolve_policy(out_of_bounds, policy, element)
    wrap = extent if plan.lookups[0].wrap else 0
    return AxisRule(extent, wrap, policy, fill, element, name, axis, refusal, reads)


class Stated(NamedTuple):
    """A dialect's gather of one index along one axis, under its own policy; what it calls its indices; `AxisRule.refusal`."""

    plan: IndexPlan
    name: str
    refusal: str = ""


def _onnx(extent: int, dtype: np.dtype[Any], index: np.dtype[Any]) -> Stated:
    from dmlgather.onnx.problems.gather import Gather

    return _planned(Gather(TensorType((extent,), dtype), TensorType((1,), index)))


def _openvino(extent: int, dtype: np.dtype[Any], index: np.dtype[Any]) -> Stated:
    from dmlgather.openvino.problems.gather import OpenVINOGather

    return _planned(OpenVINOGather(TensorType((extent,), dtype), TensorType((1,), index), axis=0))


def _lax(extent: int, dtype: np.dtype[Any], index: np.dtype[Any]) -> Stated:
    from dmlgather.lax.problems.dimension_numbers import GatherDimensionNumbers
    from dmlgather.lax.problems.gather import LaxGather

    def problem(size: int) -> Problem:
        numbers = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
        data, indices = TensorType((size,), dtype), TensorType((1, 1), index)
        return LaxGather(data, indices, numbers, (1,))

    stated = _planned(problem(max(extent, 1)))
    if not extent:
        try:
            problem(0)
        except TypeError as error:  # which an array without indices does not meet
            return stated._replace(refusal=str(error))
    return stated


def _planned(problem: Problem) -> Stated:
    return Stated(problem.plan(), problem.arguments[-1])


def _directml(extent: int, dtype: np.dtype[Any], index: np.dtype[Any]) -> Stated:
    """By the descriptor for the nearest extent that a descriptor can have: only parts of a larger table are ever described."""
    stated = min(max(extent, 1), ELEMENT_LIMIT)
    desc = GatherOperatorDesc(
        input_tensor=BufferTensorDesc(data_type=_data_type(dtype), sizes=(stated,)),
        indices_tensor=BufferTensorDesc(data_type=_data_type(index), sizes=(1,)),
        output_tensor=BufferTensorDesc(data_type=_data_type(dtype), sizes=(1,)),
        axis=0,
        index_dimensions=1,
    )
    for finding in validate(desc).errors:
        raise _refused_type(finding, index if finding.path.startswith("Indices") else dtype)
    return Stated(lower(desc), "IndicesTensor")


def _data_type(dtype: np.dtype[Any]) -> DataType:
    """UNKNOWN, which every operator refuses, for a type that DirectML lacks."""
    return DataType.__members__.get(dtype.name.upper(), DataType.UNKNOWN) if dtype.isnative else DataType.UNKNOWN


def _refused_type(finding: Finding, dtype: np.dtype[Any]) -> TypeError:
    name = finding.path.partition(".")[0]
    return TypeError(
        f"{name} has type {dtype.name if dtype.isnative else dtype.str}, but dialect 'directml' takes {finding.expected}: "
        "convert with .astype or .view, or use another dialect"
    )


_PLANS: dict[str, Callable[[int, np.dtype[Any], np.dtype[Any]], Stated]] = {
    "directml": _directml,
    "onnx": _onnx,
    "openvino": _openvino,
    "lax": _lax,
}

DIALECTS = tuple(_PLANS)
"""Whose rules say what an index means."""
