"""The reference backend: the plan's pseudocode, line for line, in Python integers. The judge of every other backend.

Slow on purpose; it takes plans in any form and does not canonicalise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, OutOfBounds, dot


def run(plan: IndexPlan, data: NDArray[Any] | range, indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
    """Execute `plan` over three one-dimensional buffers and return the smallest offset of a bad index under RAISE.

    data: [in_extent] and out: [out_extent], elements of `plan.element_bytes` bytes of one dtype; indices: [index_extent] of
    `plan.index_type`, None without lookups. Under RAISE the output is complete only when None is returned.
    """
    plan.check_limits()
    bad: list[int] = []
    if plan.out_of_bounds is OutOfBounds.RAISE:
        bad = _bad_offsets(plan, indices)
        if bad:
            return min(bad)
    fill = np.frombuffer(plan.fill, out.dtype)[0] if plan.fill else None
    for o in itertools.product(*map(range, plan.shape)):
        source = plan.in_offset + dot(o, plan.in_strides)
        ok = True
        for lookup in plan.lookups:
            if plan.constant:
                ok = False
                break
            assert indices is not None
            value = int(indices[lookup.index_offset + dot(o, lookup.index_strides)])
            if value < 0:
                value += lookup.wrap
            ok = ok and 0 <= value < lookup.limit
            source += min(max(value, 0), lookup.limit - 1) * lookup.in_stride
        target = plan.out_offset + dot(o, plan.out_strides)
        if ok or plan.out_of_bounds is not OutOfBounds.FILL:
            out[target] = data[source]
        else:
            out[target] = fill
    return None


@dataclass(frozen=True, slots=True)
class ReferenceProgram:
    """A plan for `run`, with the methods that programs of the other backends have."""

    plan: IndexPlan

    def run(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
        """Execute the plan on buffers, as the function `run` does."""
        return run(self.plan, data, indices, out)

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """A function that executes the plan on these buffers."""
        return partial(self.run, data, indices, out)

    def describe(self) -> str:
        """How the plan is executed, in words."""
        return "the plan's pseudocode, one element at a time"


prepare = ReferenceProgram


def _bad_offsets(plan: IndexPlan, indices: NDArray[Any] | None) -> list[int]:
    bad = []
    for o in itertools.product(*map(range, plan.index_shape)):
        for lookup in plan.lookups:
            assert indices is not None
            offset = lookup.index_offset + dot(o, lookup.index_strides)
            value = int(indices[offset])
            if value < 0:
                value += lookup.wrap
            if not 0 <= value < lookup.limit:
                bad.append(offset)
    return bad
