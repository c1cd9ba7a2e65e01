"""JAX: problems as `lax.gather`, `lax.slice` and `lax.rev`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmlgather.dialects.problem import Problem
from dmlgather.dialects.windows import Window
from dmlgather.lax.problems.dimension_numbers import GatherDimensionNumbers
from dmlgather.lax.problems.gather import INTEGERS, LaxGather
from dmlgather.lax.problems.slice import DynamicSlice, LaxSlice, Rev
from dmlgather.plan import OutOfBounds
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.targets import IndexRule, Target

INDEX_TYPES = ("int32", "int64", *(name for name in INTEGERS if name not in ("int32", "int64")))


class JaxTarget(Target):
    """A program in JAX's primitives."""

    title = "JAX"
    bitcasts = True
    raises = False

    @property
    def axis_rule(self) -> IndexRule:
        return self.rule_for(OutOfBounds.CLAMP)

    @staticmethod
    def rule_for(policy: OutOfBounds) -> IndexRule:
        """That of `lax.gather` in the mode for a policy: "fill" for FILL, else "clip"."""
        fills = policy is OutOfBounds.FILL
        return IndexRule(OutOfBounds.FILL if fills else OutOfBounds.CLAMP, wraps=False, types=INDEX_TYPES)

    def position_type(self, elements: int) -> np.dtype[np.signedinteger]:
        return np.dtype(np.int32 if elements < 2**31 else np.int64)  # JAX has no int64 unless it is enabled

    def stated_as(self, own: Problem, *inputs: str) -> str:
        if isinstance(own, LaxGather) and own.out_of_bounds is OutOfBounds.FILL:
            data, indices = inputs
            inputs = data, self._narrowed(own, indices)
        return super().stated_as(own, *inputs)

    def same(self, problem: Problem) -> Problem | None:
        return problem if isinstance(problem, LaxGather | DynamicSlice | LaxSlice | Rev) else None

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        tensor = self.type_of(value)
        backwards = tuple(axis for axis, window in enumerate(windows) if window.step < 0 and window.count > 1)
        spans = [max(window.count - 1, 0) * window.step for window in windows]
        starts = [window.start + min(span, 0) for window, span in zip(windows, spans, strict=True)]
        ends = [
            start + abs(span) + 1 if window.count else start for window, start, span in zip(windows, starts, spans, strict=True)
        ]
        whole = all(not start and end == size for start, end, size in zip(starts, ends, tensor.shape, strict=True))
        if not whole or any(abs(window.step) > 1 for window in windows):
            steps = tuple(abs(window.step) for window in windows)
            value = self.stated_as(LaxSlice(tensor, tuple(starts), tuple(ends), None if set(steps) <= {1} else steps), value)
        return self.stated_as(Rev(self.type_of(value), backwards), value) if backwards else value

    def along_axis(self, data: str, indices: str, axis: int) -> str:
        """Of positions that are in range."""
        tensor, places = self.type_of(data), self.type_of(indices)
        kept = [dim for dim in range(tensor.rank) if dim != axis]
        offsets = tuple(dim if dim < axis else dim + places.rank - 1 for dim in kept)
        numbers = GatherDimensionNumbers(offsets, (axis,), (axis,))
        sizes = tuple(1 if dim == axis else size for dim, size in enumerate(tensor.shape))
        vectors = self.reshaped(indices, (*places.shape, 1))
        return self.stated_as(LaxGather(tensor, self.type_of(vectors), numbers, sizes, OutOfBounds.CLAMP), data, vectors)

    def gathered(self, gathering: Gathering) -> str | None:
        plan, moved = gathering.plan, gathering.index_dims
        if any(number is not None and dim in moved for dim, number in zip(gathering.walked, gathering.looked_up, strict=True)):
            return None
        fills = plan.out_of_bounds is OutOfBounds.FILL
        tuples = gathering.tuples(self.rule_for(plan.out_of_bounds))
        numbers, written = lax_numbers(gathering, tuples.order)
        own = LaxGather(
            self.type_of(gathering.data),
            self.type_of(tuples.value),
            numbers,
            slice_sizes(gathering),
            OutOfBounds.FILL if fills else OutOfBounds.CLAMP,
            plan.fill if fills else b"",
        )
        return gathering.finished(self.stated_as(own, gathering.data, tuples.value), written)

    def _narrowed(self, own: LaxGather, indices: str) -> str:
        """Indices that stay out of range as 32-bit integers, which JAX makes of them in mode "fill" unless a size needs more."""
        dtype = own.indices.dtype
        limits = [own.data.shape[axis] - size + 1 for axis, size in zip(own.lookup_axes, own.lookup_windows, strict=True)]
        if np.can_cast(dtype, np.int32) or not limits or max(limits) >= 2**31:
            return indices
        if dtype.kind == "i":
            indices = self.computed("maximum", dtype, indices, self.number(-1, dtype))
        return self.computed("minimum", dtype, indices, self.number(limits, dtype))


def lax_numbers(gathering: Gathering, order: Sequence[int]) -> tuple[GatherDimensionNumbers, list[int]]:
    """The dimension numbers of a gather by index vectors of shape [index_dims…, components], and the dimensions of its result.

    order: the lookup of each component. Dimensions of windows have the order of the data's axes.
    """
    moved, walked = gathering.index_dims, gathering.walked
    windows = [dim for dim in walked if dim is not None and dim not in moved]
    every = sorted((*moved, *windows))
    offsets = tuple(place for place, dim in enumerate(every) if dim in windows)
    inside, outside = iter(windows), iter(moved)
    written = [next(inside if dim in windows else outside) for dim in every]
    batching = [(axis, moved.index(dim)) for axis, dim in enumerate(walked) if dim in gathering.batch and dim is not None]
    numbers = GatherDimensionNumbers(
        offset_dims=offsets,
        collapsed_slice_dims=tuple(axis for axis, dim in enumerate(walked) if dim is None),
        start_index_map=tuple(gathering.looked_up.index(number) for number in order),
        operand_batching_dims=tuple(axis for axis, _ in batching),
        start_indices_batching_dims=tuple(place for _, place in batching),
    )
    return numbers, written


def slice_sizes(gathering: Gathering) -> tuple[int, ...]:
    """The sizes of a window, by axis of the data."""
    batch = gathering.batch
    return tuple(1 if dim is None or dim in batch else gathering.sizes[dim] for dim in gathering.walked)
