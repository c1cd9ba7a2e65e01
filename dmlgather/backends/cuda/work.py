"""The elements that launches must move: a canonical plan with steps in bytes, fastest dimension first."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from dmlgather.backends.cuda.arguments import Dimension, LookupBytes
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds

MAX_RANK = 32
"""Most dimensions, and most lookups, of the general kernels."""
COUNTABLE = 2**63
"""Limits and wraps of lookups must be below this number."""


class Work(NamedTuple):
    """The elements that one or more launches must move: a canonical plan or a part of it. Steps and offsets are in bytes.

    `lookups`: the plan's lookups. `LookupBytes.walk` is still 0; `arguments_of` sets it.
    `in_bytes`: the size of the input. Kernels read nothing beyond it, whatever the indices are.
    """

    dims: tuple[Dimension, ...]
    element_bytes: int
    in_offset: int
    out_offset: int
    lookups: tuple[LookupBytes, ...] = ()
    index_bytes: int = 0
    checked: bool = False
    fill: bytes = b""
    in_bytes: int = 0

    @property
    def elements(self) -> int:
        """The number of elements to move."""
        return prod([dim.size for dim in self.dims])

    @classmethod
    def of(cls, plan: IndexPlan) -> Work:
        """Return the work of a canonical plan that is not empty. If the plan is constant, the input is its fill value."""
        constant = plan.constant
        return cls(
            dims=_dims(plan, plan.shape),
            element_bytes=plan.element_bytes,
            in_offset=plan.in_offset * plan.element_bytes,
            out_offset=plan.out_offset * plan.element_bytes,
            lookups=() if constant else _lookups(plan),
            index_bytes=0 if plan.index_type is None or constant else plan.index_type.bytes,
            checked=plan.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE),
            fill=plan.fill,
            in_bytes=plan.element_bytes if constant else plan.in_extent * plan.element_bytes,
        )

    @classmethod
    def checks(cls, plan: IndexPlan) -> Work:
        """Return work that checks the indices of a RAISE plan and moves nothing."""
        assert plan.index_type is not None
        dims = tuple(dim._replace(out_step=0, in_step=0) for dim in _dims(plan, plan.index_shape))
        return cls(dims, 1, 0, 0, _lookups(plan), plan.index_type.bytes, checked=True)

    def halves(self) -> tuple[Work, Work]:
        """Divide the work in two halves along its longest dimension."""
        axis = max(range(len(self.dims)), key=lambda axis: self.dims[axis].size)
        dim = self.dims[axis]
        cut = dim.size // 2
        rest = self._resized(axis, dim.size - cut)._replace(
            in_offset=self.in_offset + cut * dim.in_step,
            out_offset=self.out_offset + cut * dim.out_step,
            lookups=tuple(
                lookup._replace(offset=lookup.offset + cut * step)
                for lookup, step in zip(self.lookups, dim.index_steps, strict=True)
            ),
        )
        return self._resized(axis, cut), rest

    def _resized(self, axis: int, size: int) -> Work:
        dims = list(self.dims)
        dims[axis] = dims[axis]._replace(size=size)
        return self._replace(dims=tuple(dims))


def _dims(plan: IndexPlan, shape: tuple[int, ...]) -> tuple[Dimension, ...]:
    lookups = () if plan.constant else plan.lookups
    element, width = plan.element_bytes, 1 if plan.index_type is None else plan.index_type.bytes
    moved = zip(*[lookup.index_strides for lookup in lookups], strict=True)
    index_steps = [tuple([stride * width for stride in strides]) for strides in moved] or [()] * len(shape)
    strides = zip(shape, plan.out_strides, plan.in_strides, index_steps, strict=True)
    dims = [Dimension(size, out * element, into * element, steps) for size, out, into, steps in strides if size != 1]
    return tuple(dims[::-1]) or (Dimension(1, index_steps=(0,) * len(lookups)),)


def _lookups(plan: IndexPlan) -> tuple[LookupBytes, ...]:
    if not plan.lookups:
        return ()
    kind = plan.index_type or IndexType.INT64
    for number, lookup in enumerate(plan.lookups):
        if lookup.limit >= COUNTABLE or lookup.wrap >= COUNTABLE:
            raise ValueError(
                f"lookup {number} has limit {lookup.limit} and wrap {lookup.wrap}; the CUDA backend counts to 2^63 - 1"
            )
    return tuple(
        LookupBytes(
            offset=lookup.index_offset * kind.bytes,
            walk=0,
            wrap=lookup.wrap,
            limit=lookup.limit,
            # With limit 1, the only position is 0, so the step does not matter. It may need more than 64 bits.
            in_step=0 if lookup.limit <= 1 else lookup.in_stride * plan.element_bytes,
            signed=kind.signed,
        )
        for lookup in plan.lookups
    )


def check_rank(plan: IndexPlan) -> None:
    """Raise ValueError if the plan has more dimensions or lookups than the general kernels support."""
    for what, count in (("dimensions", plan.rank), ("lookups", len(plan.lookups))):
        if count > MAX_RANK:
            raise ValueError(
                f"the canonical plan has {count} {what}, the CUDA kernels take up to {MAX_RANK}; run it on the CPU, or make "
                f"the tensors packed so that dimensions merge"
            )
