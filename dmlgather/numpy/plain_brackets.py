"""Brackets of plain entries: a call of a known key runs again, without a look at what the entries mean."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from dmlgather.backends.arrays import check_size
from dmlgather.backends.devices import CPU
from dmlgather.backends.footprints import WRITEABLE, Signature, signature_on
from dmlgather.calls.prepared import Ready, prepared
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.problem import Problem
from dmlgather.plan import packed_strides

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


def ready(problem: Problem, given: Sequence[Any]) -> Ready | None:
    """The problem of a call with plain entries on arrays like the given ones, those of `read`. None where one launch on them is
    not all of the call, and where something is wrong with them.
    """
    *inputs, out = given
    x, result = inputs[0], problem.output
    if len(inputs) != len(problem.inputs) or x.dtype.hasobject or x.dtype.kind in STRING_KINDS:
        return None
    if out is None:
        strides = tuple(step * x.dtype.itemsize for step in packed_strides(result.shape))
        written: Signature = (x.dtype, result.shape, strides, WRITEABLE)
    elif out.shape == result.shape and out.dtype == result.dtype:
        written = signature_on(CPU, out)
    else:
        return None
    try:
        check_size(result.shape, result.dtype)
        return prepared(problem).ready(CPU, *(signature_on(CPU, array) for array in inputs), written)
    except ValueError:  # no array is as large, no plan can say how the problem walks over these strides, `out` cannot be written
        return None
