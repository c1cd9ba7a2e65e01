"""Fast path for brackets with integers, slices and at most one index array. A repeated call does not parse them."""

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
"""Types of index arrays that need no conversion."""
_BOUNDS = (int, type(None))


def is_plain(items: Sequence[Any]) -> bool:
    """Return True if all entries are plain: 64-bit integers, slices, `...`, None, and at most one array of integers.

    Subclasses of numpy.ndarray are not plain. Plain entries can still be invalid for the data of a call.
    """
    has_array = False
    for item in items:
        kind = type(item)
        if kind is _NDARRAY:
            if has_array or item.dtype not in _INDICES or not item.ndim:
                return False
            has_array = True
        elif kind is slice:
            if not (type(item.start) in _BOUNDS and type(item.stop) in _BOUNDS and type(item.step) in _BOUNDS):
                return False
        elif kind is int:
            if not -(2**63) <= item < 2**63:
                return False
        elif item is not None and kind is not EllipsisType:
            if has_array or signed_by(kind) is not CUPY or item.dtype not in _INDICES or not item.ndim:
                return False
            has_array = True
    return True


def call_key(items: Sequence[Any], x: Any, out: Any) -> tuple[Hashable, list[Any]] | None:
    """Return a cache key for x[items] with plain entries, and the arrays [x, index array if any, out].

    Calls with equal keys can share a prepared call. Returns None if an array has no signature.
    """
    key: list[Any]
    call_arrays = [x]
    if type(x) is _NDARRAY:
        key = [x.dtype, x.shape, x.strides]
    elif (array_signature := signature(x)) is not None:
        key = [array_signature]
    else:
        return None
    for item in items:  # each kind of entry starts its part of the key with another type, so keys of different calls differ
        kind = type(item)
        if kind is _NDARRAY:
            key += (item.dtype, item.shape, item.strides)
            call_arrays.append(item)
        elif kind is slice:
            key += (slice, item.start, item.stop, item.step)
        elif kind is int or item is None or kind is EllipsisType:
            key.append(item)
        elif (array_signature := signature(item)) is not None:
            key.append(array_signature)
            call_arrays.append(item)
        else:
            return None
    call_arrays.append(out)
    if out is not None:
        if (array_signature := signature(out)) is None:
            return None
        key += ("out", array_signature)
    return tuple(key), call_arrays


def prepare(problem: Callable[[TensorType], Problem], call_arrays: Sequence[Any]) -> PreparedCall | None:
    """Return the prepared call for the arrays that `call_key` returned.

    Returns None if the call is invalid, or if it needs the general code of `IndexExpression`.
    """
    try:
        adopted = [adopt(array) for array in call_arrays if array is not None]
    except TypeError:
        return None
    devices = {device for _, device in adopted}
    views = [view for view, _ in adopted]
    x, (device,) = views[0], devices if len(devices) == 1 else (None,)
    if device is None or (device.on_gpu and None in view_signatures([array for array in call_arrays if array is not None])):
        return None
    if x.dtype.hasobject or x.dtype.kind in STRING_KINDS:  # the slow path converts strings to objects
        return None
    data_problem = problem(TensorType(x.shape, x.dtype))
    result = data_problem.output
    expected = [*data_problem.tensors[:-1], *([result] if call_arrays[-1] is not None else [])]
    if [(view.shape, view.dtype) for view in views] != [(tensor.shape, tensor.dtype) for tensor in expected]:
        return None
    signatures = [signature_on(device, view) for view in views]
    if call_arrays[-1] is None:
        signatures.append(packed_signature(x.dtype, result.shape, new_place(device)))
    try:
        check_size(result.shape, result.dtype)
        return prepared(data_problem, (data_problem.out_of_bounds, data_problem.fill), device, *signatures)
    except ValueError:
        return None
