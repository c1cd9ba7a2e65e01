"""Brackets of plain entries: a call of a known key runs again, without a look at what the entries mean."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from dmlgather.backends.adapter import CUPY
from dmlgather.backends.arrays import adopt, check_size, signature, signed_by, view_signatures
from dmlgather.backends.footprints import new_place, packed_signature, signature_on
from dmlgather.backends.prepared_call import PreparedCall
from dmlgather.calls.prepared import prepared
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.problem import Problem, TensorType

_NDARRAY = np.ndarray
_INDICES = frozenset(map(np.dtype, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")))
"""Types of index arrays that are read as they are."""
_BOUNDS = (int, type(None))


def is_plain(items: Sequence[Any]) -> bool:
    """Whether entries between brackets are what any array may be asked for, and mean what a key of `read` says: 64-bit integers,
    slices, ..., None, and at most one array of integers, of NumPy's or CuPy's own class. Nothing is wrong with them then, as long
    as the array that they index is not known, and no values of theirs have to be read now.
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
            if taken or signed_by(kind) is not CUPY or item.dtype not in _INDICES or not item.ndim:
                return False
            taken = True
    return True


def read(items: Sequence[Any], x: Any, out: Any) -> tuple[Hashable, list[Any]] | None:
    """The key of a call with plain entries, and its arrays: the data, the index array, and `out` or None. Equal keys mean the
    same, whatever the addresses and elements of arrays. None where an array has no signature.
    """
    key: list[Any]
    given = [x]
    if type(x) is _NDARRAY:
        key = [x.dtype, x.shape, x.strides]
    elif (found := signature(x)) is not None:
        key = [found]
    else:
        return None
    for item in items:  # each begins with something else, so that no two calls have one key
        kind = type(item)
        if kind is _NDARRAY:
            key += (item.dtype, item.shape, item.strides)
            given.append(item)
        elif kind is slice:
            key += (slice, item.start, item.stop, item.step)
        elif kind is int or item is None or kind is EllipsisType:
            key.append(item)
        elif (found := signature(item)) is not None:
            key.append(found)
            given.append(item)
        else:
            return None
    given.append(out)
    if out is not None:
        if (found := signature(out)) is None:
            return None
        key += ("out", found)
    return tuple(key), given


def prepared_for(problem: Callable[[TensorType], Problem], given: Sequence[Any]) -> PreparedCall | None:
    """What runs a call with plain entries on arrays like the given ones, those of `read`. None where something is wrong with
    them, with an index array that was changed after the problem was made, and where no plan can say how to walk over them; for
    arrays on a GPU that are no views, whose streams have to be ordered; and for strings and objects.

    problem: from the type of the data.
    """
    try:
        adopted = [adopt(array) for array in given if array is not None]
    except TypeError:
        return None
    devices = {device for _, device in adopted}
    views = [view for view, _ in adopted]
    x, (device,) = views[0], devices if len(devices) == 1 else (None,)
    if device is None or (device.on_gpu and None in view_signatures([array for array in given if array is not None])):
        return None
    if x.dtype.hasobject or x.dtype.kind in STRING_KINDS:  # the long way makes objects of strings
        return None
    made = problem(TensorType(x.shape, x.dtype))
    result = made.output
    expected = [*made.tensors[:-1], *([result] if given[-1] is not None else [])]
    if [(view.shape, view.dtype) for view in views] != [(each.shape, each.dtype) for each in expected]:
        return None
    found = [signature_on(device, view) for view in views]
    if given[-1] is None:
        found.append(packed_signature(x.dtype, result.shape, new_place(device)))
    try:
        check_size(result.shape, result.dtype)
        return prepared(made, (made.out_of_bounds, made.fill), device, *found)
    except ValueError:
        return None
