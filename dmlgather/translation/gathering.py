"""A gather in terms of ONNX's operators: the axis that each lookup indexes, and indices converted to ONNX's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from dmlgather.plan import IndexPlan, Lookup, OutOfBounds, packed_strides
from dmlgather.translation.axes import AccessPattern, AxisMap, arranged, strided_copy
from dmlgather.translation.onnx_operators import IndexRule, OnnxProgram

# Index conversion: clamps, masks and casts, so that ONNX's operator reads what the source reads.

_WIDE_UNSIGNED = ("uint32", "uint64")


@dataclass(frozen=True, slots=True)
class ConvertedIndices:
    """Indices for an ONNX operator. `valid`: the mask of indices in range; None if nothing is filled."""

    value: str
    valid: str | None = None


class IndexConverter:
    """Converts indices for an ONNX operator whose rules for negative indices and indices out of range may differ."""

    def __init__(self, target: OnnxProgram, lookups: Sequence[Lookup], source: OutOfBounds, rule: IndexRule) -> None:
        self.target, self.rule = target, rule
        self.source = OutOfBounds.CLAMP if source is OutOfBounds.PROMISE else source
        # One limit and one wrap for each component of index tuples.
        self.limits = np.array([lookup.limit for lookup in lookups], object)
        self.wraps = np.array([lookup.wrap for lookup in lookups], object)
        self.both_raise = rule.raises and self.source is OutOfBounds.RAISE

    def convert(self, value: str) -> ConvertedIndices:
        """Wrap, clamp, mask and cast the indices, unless the operator does it itself."""
        dtype = self.target.type_of(value).dtype
        signed = dtype.kind == "i"
        source_wraps = signed and bool(self.wraps.any())
        operator_wraps = source_wraps and self.rule.wraps and (self.wraps == self.limits).all()
        adds_wrap = source_wraps and not operator_wraps
        rejects_negative = signed and self.rule.wraps and not operator_wraps  # the operator would wrap them
        clamps = self.source is not OutOfBounds.RAISE
        if clamps and dtype.name in _WIDE_UNSIGNED and dtype.name not in self.rule.types:
            return self._clamp_then_cast(value)
        value = self._cast(value, changes=adds_wrap or (self.both_raise and rejects_negative) or clamps)
        if adds_wrap:
            value = self._where_negative(value, self._compute("add", value, self._number(value, self.wraps)))
        if not clamps:
            return ConvertedIndices(self._without_negative(value) if self.both_raise and rejects_negative else value)
        lowest = -self.limits if operator_wraps else 0 * self.limits
        clamped = self._clamped(value, lowest, self.limits - 1, signed)
        return ConvertedIndices(clamped, self._valid(clamped, value))

    def _clamp_then_cast(self, value: str) -> ConvertedIndices:
        """Clamp unsigned indices before the cast, because onnxruntime before 1.32 does not clamp all int64 values."""
        info, largest = np.iinfo(self.target.type_of(value).dtype), max([1, *self.limits])
        clamped = self._clamped(value, None, np.minimum(self.limits - 1, info.max), signed=False)
        dtype = next(name for name in self.rule.types if np.iinfo(name).max >= largest)
        return ConvertedIndices(self.target.cast(clamped, dtype), self._valid(clamped, value))

    def _valid(self, clamped: str, value: str) -> str | None:
        return None if self.source is OutOfBounds.CLAMP else self.target.compute("equal", np.bool_, clamped, value)

    def _without_negative(self, value: str) -> str:
        """Replace negative indices by the limit. The operator then raises an error for them, as the source does."""
        return self._where_negative(value, self._number(value, self.limits))

    def _where_negative(self, value: str, other: str) -> str:
        negative = self.target.compute("less", np.bool_, value, self._number(value, 0))
        return self._compute("where", negative, other, value)

    def _clamped(self, value: str, lowest: Any, last: Any, signed: bool) -> str:
        if signed:
            value = self._compute("maximum", value, self._number(value, lowest))
        return self._compute("minimum", value, self._number(value, last))

    def _cast(self, value: str, *, changes: bool) -> str:
        """Cast the indices to a type of the operator. `changes`: True if arithmetic follows, which may need a wider type."""
        dtype = self.target.type_of(value).dtype
        largest = max([1, *self.limits, *self.wraps])
        if dtype.name in self.rule.types and (not changes or np.iinfo(dtype).max >= largest):
            return value
        wider = next((name for name in self.rule.types if _is_wide_enough(np.dtype(name), dtype, largest)), None)
        if wider is None:  # uint64 does not fit int64: first reduce all indices out of range to the limit
            value = self._compute("minimum", value, self._number(value, self.limits))
            wider = "int64"
        return self.target.cast(value, wider)

    def _compute(self, operator: str, *values: str) -> str:
        return self.target.compute(operator, self.target.type_of(values[-1]).dtype, *values)

    def _number(self, like: str, value: Any) -> str:
        return self.target.number(value, self.target.type_of(like).dtype)


def _is_wide_enough(dtype: np.dtype[Any], indices: np.dtype[Any], largest: int) -> bool:
    wide, narrow = np.iinfo(dtype), np.iinfo(indices)
    return wide.min <= narrow.min and wide.max >= max(narrow.max, largest)


@dataclass(frozen=True, slots=True)
class IndexTuples:
    """Index tuples for GatherND.

    `order`: the number of the lookup for each component. `masks`: the names of masks that are true for indices in range.
    """

    order: list[int]
    value: str
    masks: list[str]


@dataclass(frozen=True, slots=True)
class Gathering:
    """A plan in a form for ONNX's gather operators: each output dimension and each lookup moves along one axis of the data.

    The plan writes a packed output, outermost dimension first.

    `data`, `indices`: the names of the values.
    `dim_of_axis`: for each axis of the data, the output dimension that moves along it, or None.
    `lookup_of_axis`: for each axis of the data, the lookup that indexes it, or None.

    An axis has both a dimension and a lookup if each index is the start of a window.
    """

    target: OnnxProgram
    plan: IndexPlan
    data: str
    indices: str
    dim_of_axis: tuple[int | None, ...]
    lookup_of_axis: tuple[int | None, ...]

    @classmethod
    def of(cls, target: OnnxProgram, plan: IndexPlan, axis_map: AxisMap, data: str, indices: str) -> Gathering:
        """Return the Gathering of a plan. `data`: the name of the result of `read_window` for `axis_map`."""
        dims = {axis: dim for dim, axis in enumerate(axis_map.dim_axes) if axis is not None}
        lookups = {axis: number for number, axis in enumerate(axis_map.lookup_axes)}
        by_axis = (tuple(numbers.get(axis) for axis in axis_map.used_axes) for numbers in (dims, lookups))
        return cls(target, plan, data, indices, *by_axis)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the output dimensions."""
        return self.plan.shape

    @property
    def windowed(self) -> bool:
        """True if an index is the start of a window of several elements."""
        axes = zip(self.dim_of_axis, self.lookup_of_axis, strict=True)
        return any(dim is not None and number is not None for dim, number in axes)

    def lookup_dims(self, number: int) -> tuple[int, ...]:
        """Return the output dimensions along which the indices of a lookup vary."""
        return tuple(dim for dim, step in enumerate(self.plan.lookups[number].index_strides) if step)

    @property
    def index_dims(self) -> tuple[int, ...]:
        """Output dimensions along which any index varies."""
        return tuple(sorted({dim for number in range(len(self.plan.lookups)) for dim in self.lookup_dims(number)}))

    @property
    def batch_dims(self) -> tuple[int, ...]:
        """Output dimensions along which both the indices and the data advance."""
        return tuple(dim for dim in self.index_dims if dim in self.dim_of_axis)

    def without_small_batch(self) -> Gathering:
        """Return the same gather without batch dimensions of size 1."""
        small = [dim for dim in self.batch_dims if self.sizes[dim] == 1]
        lookups = (
            replace(lookup, index_strides=tuple(0 if dim in small else step for dim, step in enumerate(lookup.index_strides)))
            for lookup in self.plan.lookups
        )
        return replace(self, plan=replace(self.plan, lookups=tuple(lookups)))

    def tuple_order(self) -> list[int] | None:
        """Return the number of the lookup for each component, if the indices in memory form index tuples; otherwise None."""
        lookups = self.plan.lookups
        order = sorted(range(len(lookups)), key=lambda number: lookups[number].index_offset)
        offsets = [lookups[number].index_offset for number in order]
        steps = {later - earlier for earlier, later in pairwise(offsets)}
        equal_strides = len({lookup.index_strides for lookup in lookups}) == 1
        return order if equal_strides and len(steps) <= 1 and 0 not in steps else None

    def converted(self, numbers: Sequence[int], rule: IndexRule, *, components: bool = False) -> ConvertedIndices:
        """Convert the indices of one lookup, or of several lookups with equal index strides.

        `components`: True to append a dimension with one component for each lookup. With False, there must be one lookup.
        """
        lookups = [self.plan.lookups[number] for number in numbers]
        first, dims = lookups[0], self.lookup_dims(numbers[0])
        sizes = tuple(self.sizes[dim] for dim in dims)
        strides = tuple(first.index_strides[dim] for dim in dims)
        if components:
            step = lookups[1].index_offset - first.index_offset if len(lookups) > 1 else 1
            sizes, strides = (*sizes, len(lookups)), (*strides, step)
        value = strided_copy(self.target, self.indices, AccessPattern(sizes, strides, first.index_offset))
        return IndexConverter(self.target, lookups, self.plan.out_of_bounds, rule).convert(value)

    def index_tuples(self, rule: IndexRule) -> IndexTuples:
        """Combine the indices of all lookups into tuples for GatherND."""
        order, dims = self.tuple_order(), self.index_dims
        if order is not None:
            tuples = self.converted(order, rule, components=True)
            valid = [] if tuples.valid is None else [self._component(tuples.valid, place) for place in range(len(order))]
            return IndexTuples(order, tuples.value, [self.with_all_dims(mask, dims) for mask in valid])
        parts = [self.converted([number], rule) for number in range(len(self.plan.lookups))]
        dtype = np.result_type(*(self.target.type_of(part.value).dtype for part in parts))
        values = []
        for number, part in enumerate(parts):
            own_dims = self.lookup_dims(number)
            sizes = [self.sizes[dim] if dim in own_dims else 1 for dim in dims]
            value = self.target.reshaped(self.target.cast(part.value, dtype), sizes)
            value = self.target.graph.expanded("expand", value, [self.sizes[dim] for dim in dims])
            values.append(self.target.reshaped(value, [*(self.sizes[dim] for dim in dims), 1]))
        value = self.target.graph.concatenated("tuples", values, len(dims))
        masks = [
            self.with_all_dims(part.valid, self.lookup_dims(number))
            for number, part in enumerate(parts)
            if part.valid is not None
        ]
        return IndexTuples([*range(len(parts))], value, masks)

    def _component(self, value: str, place: int) -> str:
        *sizes, components = self.target.type_of(value).shape
        strides = tuple(components * step for step in packed_strides(sizes))
        return strided_copy(self.target, value, AccessPattern(tuple(sizes), strides, place))

    def with_all_dims(self, value: str, dims: Sequence[int]) -> str:
        """Reshape a value to the rank of the output. Dimensions that are not in `dims` get size 1."""
        sizes = [size if dim in dims else 1 for dim, size in enumerate(self.sizes)]
        return self.target.reshaped(value, sizes)

    def finish(self, result: str, dims: Sequence[int], masks: Sequence[str] = ()) -> str:
        """Transpose and broadcast a result to the shape of the output. Fill elements where a mask is false.

        `dims`: the output dimension for each dimension of the result.
        """
        result = arranged(self.target, result, dims, self.sizes)
        if not masks:
            return result
        valid = reduce(lambda one, other: self.target.compute("and", np.bool_, one, other), masks)
        return self.target.selected(valid, result, self.plan.fill)
