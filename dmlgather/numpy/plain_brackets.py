"""Brackets of plain entries: a call of a known key runs again, without a look at what the entries mean."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from dmlgather.backends.arrays import check_size
from dmlgather.backends.devices import CPU
from dmlgather.backends.footprints import WRITEABLE, packed_signature, signature_on
from dmlgather.calls.prepared import Ready, prepared
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.problem import Problem

_NDARRAY = np.ndarray
_INDICES = frozenset(map(np.dtype, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")))
"""Types of index arrays that are read as they are."""
_BOUNDS = (int, type(None))


def is_plain(items: Sequence[Any]) -> bool:
    """Whether entries between brackets are what any array may be asked for, and mean what a key of `read` says: 64-bit integers,
    slices, ..., None, and at most one array of integers, which is NumPy's own. Nothing is wrong with them then, as long as the
    array that they index is not known, and no values of theirs have to be read now.
    """
    taken = False
    for item in items:
        kind = type(item)
        if kind is _NDARRAY:
            if taken or item.dtype not in _INDICES or not item.ndim:
                return False
            taken = True
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
    """The key of a call with plain entries on arrays of NumPy's, and its arrays: the data, the index array, and `out` or None.
    Equal keys mean the same, whatever the addresses and elements of arrays.
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


def is_bytes(dtype: np.dtype[Any]) -> bool:
    """Whether elements are moved as bytes: not strings, which the long way makes objects of, and no objects."""
    return not dtype.hasobject and dtype.kind not in STRING_KINDS


def ready(problem: Problem, given: Sequence[Any]) -> Ready | None:
    """The problem of a call with plain entries on arrays like the given ones, those of `read`. None where something is wrong with
    them, with an index array that was changed after the problem was made, and where no plan can say how to walk over them.
    """
    *inputs, out = given
    x, result = inputs[0], problem.output
    if [(array.shape, array.dtype) for array in inputs] != [(each.shape, each.dtype) for each in problem.tensors[:-1]]:
        return None
    if out is None:
        written = packed_signature(x.dtype, result.shape, WRITEABLE)
    elif out.shape == result.shape and out.dtype == result.dtype:
        written = signature_on(CPU, out)
    else:
        return None
    try:
        check_size(result.shape, result.dtype)
        return prepared(problem).ready(CPU, *(signature_on(CPU, array) for array in inputs), written)
    except ValueError:
        return None
