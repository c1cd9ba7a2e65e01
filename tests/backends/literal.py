"""The plan's pseudocode, one element at a time in Python's integers. It judges the reference backend."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, OutOfBounds, dot


def run(plan: IndexPlan, data: NDArray[Any] | range, indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
    """Run a plan with the interface of `reference.run`."""
    plan.check_limits()
    if plan.out_of_bounds is OutOfBounds.RAISE:
        bad = _first_bad(plan, indices)
        if bad is not None:
            return bad
    fill = np.frombuffer(plan.fill, out.dtype)[0] if plan.fill else None
    for o in _coordinates(plan.shape):
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


def _first_bad(plan: IndexPlan, indices: NDArray[Any] | None) -> int | None:
    bad = []
    for o in _coordinates(plan.index_shape):
        for lookup in plan.lookups:
            assert indices is not None
            offset = lookup.index_offset + dot(o, lookup.index_strides)
            value = int(indices[offset])
            if value < 0:
                value += lookup.wrap
            if not 0 <= value < lookup.limit:
                bad.append(offset)
    return min(bad, default=None)


def _coordinates(shape: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """Return all coordinates in row-major order. itertools.product would list each dimension even if another one is empty."""
    return itertools.product(*map(range, shape)) if prod(shape) else ()
