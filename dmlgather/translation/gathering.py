"""A gather that is to be stated in a target: its data with the axes apart, and its lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from dmlgather.plan import IndexPlan, Lookup, OutOfBounds, packed_strides
from dmlgather.translation.axes import AxisWalk, Steps, arranged, strided
from dmlgather.translation.onnx_operators import IndexRule, OnnxProgram

# Index arithmetic: what an operator of ONNX must be given so that it reads what the source reads.

WIDE_UNSIGNED = ("uint32", "uint64")


@dataclass(frozen=True, slots=True)
class Fitted:
    """Indices for the operator. valid: the value that says which were in range, where that is needed to fill."""

    value: str
    valid: str | None = None


class Fitter:
    """The indices of some lookups, which lie in one value; with several lookups, in its last dimension."""

    def __init__(self, target: OnnxProgram, lookups: Sequence[Lookup], source: OutOfBounds, rule: IndexRule) -> None:
        self.target, self.rule = target, rule
        self.source = OutOfBounds.CLAMP if source is OutOfBounds.PROMISE else source
        self.limits = np.array([lookup.limit for lookup in lookups], object)
        self.wraps = np.array([lookup.wrap for lookup in lookups], object)
        self.kept = rule.raises and self.source is OutOfBounds.RAISE

    def fitted(self, value: str) -> Fitted:
        """The indices with what must be added, clamped, masked or converted."""
        dtype = self.target.type_of(value).dtype
        signed = dtype.kind == "i"
        wraps = signed and bool(self.wraps.any())
        own_wrap = wraps and self.rule.wraps and (self.wraps == self.limits).all()
        guards = signed and self.rule.wraps and not own_wrap
        clamps = self.source is not OutOfBounds.RAISE
        if clamps and dtype.name in WIDE_UNSIGNED and dtype.name not in self.rule.types:
            return self._clamped_first(value)
        value = self._in_type(value, changes=(wraps and not own_wrap) or (self.kept and guards) or clamps)
        if wraps and not own_wrap:
            value = self._where_negative(value, self._computed("add", value, self._number(value, self.wraps)))
        if not clamps:
            return Fitted(self._guarded(value) if self.kept and guards else value)
        lowest = -self.limits if own_wrap else 0 * self.limits
        clamped = self._clamped(value, lowest, self.limits - 1, signed)
        return Fitted(clamped, self._valid(clamped, value))

    def _clamped_first(self, value: str) -> Fitted:
        """Unsigned indices, clamped in their own type, of which the target then takes what is left. (onnxruntime before 1.32 does
        not clamp every int64.)
        """
        own, greatest = np.iinfo(self.target.type_of(value).dtype), max([1, *self.limits])
        clamped = self._clamped(value, None, np.minimum(self.limits - 1, own.max), signed=False)
        kind = next(name for name in self.rule.types if np.iinfo(name).max >= greatest)
        return Fitted(self.target.cast(clamped, kind), self._valid(clamped, value))

    def _valid(self, clamped: str, value: str) -> str | None:
        """Which indices were in range, for a source that fills."""
        return None if self.source is OutOfBounds.CLAMP else self.target.computed("equal", np.bool_, clamped, value)

    def _guarded(self, value: str) -> str:
        """Negative indices, which ONNX would count from the end, as indices that are out of range for it as well."""
        return self._where_negative(value, self._number(value, self.limits))

    def _where_negative(self, value: str, other: str) -> str:
        negative = self.target.computed("less", np.bool_, value, self._number(value, 0))
        return self._computed("where", negative, other, value)

    def _clamped(self, value: str, lowest: Any, last: Any, signed: bool) -> str:
        if signed:
            value = self._computed("maximum", value, self._number(value, lowest))
        return self._computed("minimum", value, self._number(value, last))

    def _in_type(self, value: str, *, changes: bool) -> str:
        """The indices in a type that the target takes, and in which the arithmetic that `changes` them does not overflow."""
        dtype = self.target.type_of(value).dtype
        greatest = max([1, *self.limits, *self.wraps])
        if dtype.name in self.rule.types and (not changes or np.iinfo(dtype).max >= greatest):
            return value
        wider = next((name for name in self.rule.types if _holds(np.dtype(name), dtype, greatest)), None)
        if wider is None:  # of uint64 to int64, without the values that are out of range anyway
            value = self._computed("minimum", value, self._number(value, self.limits))
            wider = "int64"
        return self.target.cast(value, wider)

    def _computed(self, operator: str, *values: str) -> str:
        return self.target.computed(operator, self.target.type_of(values[-1]).dtype, *values)

    def _number(self, like: str, value: Any) -> str:
        return self.target.number(value, self.target.type_of(like).dtype)


def _holds(dtype: np.dtype[Any], other: np.dtype[Any], greatest: int) -> bool:
    """Whether a type has every value of another one, and the numbers from -greatest - 1 to `greatest`, or from 0 on."""
    own, given = np.iinfo(dtype), np.iinfo(other)
    return own.min <= given.min and own.max >= max(given.max, greatest)


@dataclass(frozen=True, slots=True)
class IndexTuples:
    """Index tuples for an operator.

    order: the lookups, in the order of the components. value: the indices, shape [dimensions that indices move along…,
    components]. valid: values that say which are in range, where the target does not fill itself; they broadcast to the output.
    """

    order: list[int]
    value: str
    valid: list[str]


@dataclass(frozen=True, slots=True)
class Gathering:
    """What a target states. The dimensions are those of the plan, which writes a packed output, outermost first.

    data: the value that is read; each of its axes is walked by a dimension, looked up, or both (a window behind each index):
    walked, looked_up: by axis, the number of the dimension, and of the lookup, or None. indices: the value that the lookups read.
    """

    target: OnnxProgram
    plan: IndexPlan
    data: str
    indices: str
    walked: tuple[int | None, ...]
    looked_up: tuple[int | None, ...]

    @classmethod
    def of(cls, target: OnnxProgram, plan: IndexPlan, walk: AxisWalk, data: str, indices: str) -> Gathering:
        """data: what is taken of the data by `walk`."""
        dims = {axis: dim for dim, axis in enumerate(walk.walked) if axis is not None}
        lookups = {axis: number for number, axis in enumerate(walk.looked_up)}
        return cls(target, plan, data, indices, *(tuple(of.get(axis) for axis in walk.kept) for of in (dims, lookups)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the dimensions."""
        return self.plan.shape

    @property
    def windowed(self) -> bool:
        """Whether there are windows of more than one element behind the indices."""
        return any(dim is not None and number is not None for dim, number in zip(self.walked, self.looked_up, strict=True))

    def moved(self, number: int) -> tuple[int, ...]:
        """The dimensions along which a lookup moves."""
        return tuple(dim for dim, step in enumerate(self.plan.lookups[number].index_strides) if step)

    @property
    def index_dims(self) -> tuple[int, ...]:
        """The dimensions along which some lookup moves."""
        return tuple(sorted({dim for number in range(len(self.plan.lookups)) for dim in self.moved(number)}))

    @property
    def batch(self) -> tuple[int, ...]:
        """The dimensions along which the indices move, and the data as well."""
        return tuple(dim for dim in self.index_dims if dim in self.walked)

    def without_small_batch(self) -> Gathering:
        """The same without steps of the indices along batch dimensions of size 1, which never happen."""
        small = [dim for dim in self.batch if self.sizes[dim] == 1]
        lookups = (
            replace(one, index_strides=tuple(0 if dim in small else step for dim, step in enumerate(one.index_strides)))
            for one in self.plan.lookups
        )
        return replace(self, plan=replace(self.plan, lookups=tuple(lookups)))

    def tuple_order(self) -> list[int] | None:
        """The lookups in the order in which the index tensor holds their components; None where these lie in no one dimension."""
        lookups = self.plan.lookups
        order = sorted(range(len(lookups)), key=lambda number: lookups[number].index_offset)
        offsets = [lookups[number].index_offset for number in order]
        steps = {later - earlier for earlier, later in pairwise(offsets)}
        same = len({lookup.index_strides for lookup in lookups}) == 1
        return order if same and len(steps) <= 1 and 0 not in steps else None

    def fitted(self, numbers: Sequence[int], rule: IndexRule, *, components: bool = False) -> Fitted:
        """The indices of lookups that move along the same dimensions, shape [those dimensions], for an operator with that rule.

        components: with a last dimension, in which the lookups lie; else there is one lookup.
        """
        lookups = [self.plan.lookups[number] for number in numbers]
        first, dims = lookups[0], self.moved(numbers[0])
        sizes = tuple(self.sizes[dim] for dim in dims)
        strides = tuple(first.index_strides[dim] for dim in dims)
        if components:
            step = lookups[1].index_offset - first.index_offset if len(lookups) > 1 else 1
            sizes, strides = (*sizes, len(lookups)), (*strides, step)
        value = strided(self.target, self.indices, Steps(sizes, strides, first.index_offset))
        return Fitter(self.target, lookups, self.plan.out_of_bounds, rule).fitted(value)

    def tuples(self, rule: IndexRule) -> IndexTuples:
        """The indices of all lookups as tuples, for an operator with that rule."""
        order, dims = self.tuple_order(), self.index_dims
        if order is not None:
            fitted = self.fitted(order, rule, components=True)
            valid = [] if fitted.valid is None else [self._component(fitted.valid, place) for place in range(len(order))]
            return IndexTuples(order, fitted.value, [self.spread(each, dims) for each in valid])
        parts = [self.fitted([number], rule) for number in range(len(self.plan.lookups))]
        kind = np.result_type(*(self.target.type_of(part.value).dtype for part in parts))
        values = []
        for number, part in enumerate(parts):
            moved = self.moved(number)
            ones = [self.sizes[dim] if dim in moved else 1 for dim in dims]
            value = self.target.reshaped(self.target.cast(part.value, kind), ones)
            value = self.target.graph.expanded("expand", value, [self.sizes[dim] for dim in dims])
            values.append(self.target.reshaped(value, [*(self.sizes[dim] for dim in dims), 1]))
        value = self.target.graph.concatenated("tuples", values, len(dims))
        masks = [self.spread(part.valid, self.moved(number)) for number, part in enumerate(parts) if part.valid is not None]
        return IndexTuples([*range(len(parts))], value, masks)

    def _component(self, value: str, place: int) -> str:
        """One component of values that lie in a last dimension."""
        *sizes, components = self.target.type_of(value).shape
        strides = tuple(components * step for step in packed_strides(sizes))
        return strided(self.target, value, Steps(tuple(sizes), strides, place))

    def spread(self, value: str, dims: Sequence[int]) -> str:
        """A value with these dimensions as one with all, of size 1 where it has none."""
        sizes = [size if dim in dims else 1 for dim, size in enumerate(self.sizes)]
        return self.target.reshaped(value, sizes)

    def finished(self, result: str, dims: Sequence[int], valid: Sequence[str] = ()) -> str:
        """The output from a result with these dimensions: in order, repeated, and filled where one of `valid` is false.

        valid: values that broadcast to the dimensions.
        """
        result = arranged(self.target, result, dims, self.sizes)
        if not valid:
            return result
        every = reduce(lambda one, other: self.target.computed("and", np.bool_, one, other), valid)
        return self.target.selected(every, result, self.plan.fill)
