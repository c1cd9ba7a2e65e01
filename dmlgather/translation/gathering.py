"""A gather that is to be stated in a target: its data with the axes apart, and its lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from dmlgather.plan import IndexPlan, packed_strides
from dmlgather.translation.axes import AxisWalk, Steps
from dmlgather.translation.fitting import Fitted, Fitter
from dmlgather.translation.targets import IndexRule, Target
from dmlgather.translation.views import arranged, strided


@dataclass(frozen=True, slots=True)
class IndexTuples:
    """Index tuples for a target's operator.

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

    target: Target
    plan: IndexPlan
    data: str
    indices: str
    walked: tuple[int | None, ...]
    looked_up: tuple[int | None, ...]

    @classmethod
    def of(cls, target: Target, plan: IndexPlan, walk: AxisWalk, data: str, indices: str) -> Gathering:
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
        return Fitter(self.target, lookups, self.plan.out_of_bounds, self.plan.fill, rule).fitted(value)

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
