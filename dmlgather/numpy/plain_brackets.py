"""Brackets of plain entries: a call of a known key runs again, without a look at what the entries mean."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from dmlgather.backends.devices import CPU
from dmlgather.backends.footprints import signature_on
from dmlgather.calls.prepared import prepared
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.problem import Problem
from dmlgather.fusion import Fused

_NDARRAY = np.ndarray
_INDICES = frozenset(map(np.dtype, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")))
"""Types of index arrays that are read as they are."""
_BOUNDS = (int, type(None))


def is_plain(items: Sequence[Any]) -> bool:
    """Whether entries between brackets are what any array may be asked for, and mean what a key of `read` says: arrays of
    integers that are NumPy's own, 64-bit integers, slices, ... and None. Nothing is wrong with them then, as long as the array
    that they index is not known, and no values of theirs have to be read now.
    """
    for item in items:
        kind = type(item)
        if kind is _NDARRAY:
            if item.dtype not in _INDICES or not item.ndim:
                return False
        elif kind is slice:
            if not (type(item.start) in _BOUNDS and type(item.stop) in _BOUNDS and type(item.step) in _BOUNDS):
                return False
        elif kind is int:
            if not -(2**63) <= item < 2**63:
                return False
        elif item is not None and kind is not EllipsisType:
            return False
    return True


def read(items: Sequence[Any], x: Any, out: Any) -> tuple[Hashable, list[Any]]:
    """The key of a call with plain entries on arrays of NumPy's, and its arrays: the data, index arrays, and `out` or None. Equal
    keys mean the same, whatever the addresses and elements of arrays.
    """
    key, given = [x.dtype, x.shape, x.strides], [x]
    for item in items:  # each begins with something else, so that no two calls have one key
        if type(item) is _NDARRAY:
            key += (item.dtype, item.shape, item.strides)
            given.append(item)
        elif type(item) is slice:
            key += (slice, item.start, item.stop, item.step)
        else:
            key.append(item)
    if out is not None:
        key += ("out", out.dtype, out.shape, out.strides)
    given.append(out)
    return tuple(key), given


def repeating(fused: Fused, given: Sequence[Any], indices: Sequence[Any], result: Any) -> Callable[[Sequence[Any]], Any] | None:
    """What does a call again that gave `result`, as `Ready.again`; None where one launch on the given arrays is not all of it.

    given: of `read`. indices: the arrays that were looked up.
    """
    steps, x = fused.graph.steps, given[0]
    if len(steps) != 1 or steps[0].inputs != fused.graph.inputs or len(indices) != len(given) - 2:
        return None
    problem, same = steps[0].work, all(map(_is, indices, given[1:]))
    if not isinstance(problem, Problem) or not same or x.dtype.hasobject or x.dtype.kind in STRING_KINDS:
        return None
    try:
        return prepared(problem).ready(CPU, *(signature_on(CPU, array) for array in (x, *indices, result))).again
    except ValueError:  # no plan can say how the problem walks over these strides
        return None


def _is(one: Any, other: Any) -> bool:
    return one is other
