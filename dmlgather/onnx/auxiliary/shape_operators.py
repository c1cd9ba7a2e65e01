"""Operators that change or tell the shape: Shape, Squeeze, Unsqueeze, Reshape, Transpose. Source: the operators' pages in ONNX's
documentation. `data` is a NumPy or CuPy array of shape [n…]; the results are views wherever they can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.problem import check_axis
from dmlgather.onnx.auxiliary.node_call import NodeCall
from dmlgather.wording import counted


def shape(call: NodeCall, data: Any) -> Any:
    """The sizes of data as int64 in host memory, shape [rank], or those from `start` to `end`, both clamped to 0 … rank."""
    start, end = (call.attributes.get(name) for name in ("start", "end"))
    return np.array(data.shape[start:end], np.int64)


def squeeze(call: NodeCall, data: Any, axes: Any = None) -> Any:
    """What data is without the dimensions `axes`, each of size 1; without all such dimensions where axes are not given."""
    sizes = tuple(data.shape)
    given = call.attributes.get("axes") if axes is None else axes
    if given is None:
        places = {axis for axis, size in enumerate(sizes) if size == 1}
    else:
        places = _axes(call, given, len(sizes), "data")
        for axis in sorted(places):
            if sizes[axis] != 1:
                raise ValueError(f"axes names dimension {axis} of data, shape {list(sizes)}: its size is {sizes[axis]}, not 1")
    return data.reshape(tuple(size for axis, size in enumerate(sizes) if axis not in places))


def unsqueeze(call: NodeCall, data: Any, axes: Any = None) -> Any:
    """What data is with new dimensions of size 1, which are the result's `axes`."""
    given = _attribute(call, "axes") if axes is None else axes
    values = call.integers("axes", given, scalar=True)
    rank = len(data.shape) + len(values)
    places, sizes = _axes(call, values, rank, "the result"), iter(data.shape)
    return data.reshape(tuple(1 if axis in places else next(sizes) for axis in range(rank)))


def reshape(call: NodeCall, data: Any, shape: Any = None) -> Any:
    """The elements of data in row-major order under another shape, where 0 takes the size from data (the size 0 under
    `allowzero`) and one -1 stands for what is left.
    """
    wanted = call.integers("shape", _attribute(call, "shape") if shape is None else shape)
    allow_zero = bool(call.attributes.get("allowzero", 0))
    return data.reshape(_resolved(wanted, tuple(data.shape), allow_zero))


def transpose(call: NodeCall, data: Any) -> Any:
    """What data is with dimension perm[i] as its i-th; reversed by default."""
    rank = len(data.shape)
    perm = call.attributes.get("perm", tuple(reversed(range(rank))))
    if sorted(perm) != list(range(rank)):
        raise ValueError(f"perm is {list(perm)}, but data has rank {rank}: expected a permutation of {list(range(rank))}")
    return data.transpose(perm)


def _attribute(call: NodeCall, name: str) -> Any:
    if name not in call.attributes:
        raise ValueError(f"attribute {name} is missing: {call.version} requires it")
    return call.attributes[name]


def _axes(call: NodeCall, given: Any, rank: int, what: str) -> set[int]:
    """The axes counted from the front. ValueError for one out of range or named twice."""
    values = call.integers("axes", given)
    for number, value in enumerate(values):
        if value < 0 and call.version.since < 11:
            raise ValueError(
                f"axes[{number}] is {value}, but {call.version} counts from the front only; opset 11 brought negative axes"
            )
    places = [check_axis(f"axes[{number}]", value, rank, what) for number, value in enumerate(values)]
    if len(set(places)) < len(places):
        raise ValueError(
            f"axes is {list(values)}, which names an axis of {what} (rank {rank}) more than once: expected each once"
        )
    return set(places)


def _resolved(wanted: Sequence[int], sizes: tuple[int, ...], allow_zero: bool) -> tuple[int, ...]:
    found = []
    for position, size in enumerate(wanted):
        if size < -1:
            raise ValueError(f"shape[{position}] is {size}, expected a size, 0, or -1 for the one that follows from the others")
        if size == 0 and not allow_zero and position >= len(sizes):
            raise ValueError(f"shape[{position}] is 0, which takes data's size there, but data has shape {list(sizes)}")
        found.append(sizes[position] if size == 0 and not allow_zero else size)
    total, known = math.prod(sizes), math.prod(size for size in found if size != -1)
    said = f"data has shape {list(sizes)}, {counted(total, 'element')}, and shape is {list(wanted)}"
    if found.count(-1) > 1:
        raise ValueError(f"{said}: at most one entry may be -1")
    if -1 in found:
        if not known:
            raise ValueError(f"{said}: the size for -1 cannot be known beside a size of 0")
        if total % known:
            raise ValueError(f"{said}: the others have {counted(known, 'element')}, which does not divide {total}")
        found[found.index(-1)] = total // known
    elif known != total:
        raise ValueError(f"{said}, which has {counted(known, 'element')}")
    return tuple(found)
