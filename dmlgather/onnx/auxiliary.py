"""ONNX's Identity, Constant, Shape, Squeeze, Unsqueeze, Reshape, Transpose and Cast on NumPy arrays, in all versions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.problem import check_axes
from dmlgather.onnx.problems.data_types import check_type, data_type, type_name
from dmlgather.onnx.problems.node_reading import ParsedNode
from dmlgather.wording import counted

CASTABLE = (
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float", "double"),
)
"""ONNX's names of the element types that `cast` converts. ONNX's own list is longer."""

EXTERNAL = 1  # TensorProto.EXTERNAL

_ELEMENTS: Mapping[str, Any] = {"float": np.float32, "int": np.int64, "string": object}
"""NumPy's types for Constant's attributes, such as value_float and value_floats."""


def identity(_: ParsedNode, data: Any) -> Any:
    """Return `data` itself."""
    return data


def constant(node: ParsedNode) -> Any:
    """Return a Constant node's value as a NumPy array. Raise ValueError for external data that is not loaded."""
    if len(node.attributes) != 1:
        names = ", ".join(node.attributes) or "none"
        raise ValueError(f"{node.version} takes exactly one of {', '.join(node.version.attributes)}; the node has {names}")
    ((name, value),) = node.attributes.items()
    if name == "sparse_value":
        raise TypeError("sparse_value holds a sparse tensor, which is not supported: use value, with a dense one")
    array = tensor(value) if name == "value" else np.array(value, _ELEMENTS[name.removeprefix("value_").removesuffix("s")])
    check_type(node.version, name, array.dtype, node.version.types)
    return array


def tensor(proto: Any) -> Any:
    """Return a TensorProto's elements as a NumPy array. Raise ValueError for external data that is not loaded."""
    if proto.data_location == EXTERNAL:
        raise ValueError(f"its data lies outside the model and is not loaded ({location(proto)}); onnx.load(path) loads it")
    from onnx import numpy_helper

    return numpy_helper.to_array(proto)


def initializer(proto: Any) -> Any:
    """Return an initializer's elements as a NumPy array. Raise ValueError if they are missing or do not fit its shape."""
    try:
        return tensor(proto)
    except (TypeError, ValueError) as error:
        raise ValueError(f"initializer {proto.name!r}: {error}") from None


def location(proto: Any) -> str:
    """Return the file name of a TensorProto's external data."""
    return next((entry.value for entry in proto.external_data if entry.key == "location"), "an unnamed file")


def cast(node: ParsedNode, data: Any) -> Any:
    """Return `data` converted to the type that the attribute `to` names."""
    to, allowed = node.attributes["to"], node.version.types
    dtype = data_type(to)
    if dtype is None:
        raise ValueError(f"attribute 'to' is {to!r}, which is no data type of TensorProto")
    if type_name(dtype) not in allowed:
        raise TypeError(f"attribute 'to' is {type_name(dtype)}, but {node.version} takes {', '.join(allowed)}")
    for direction, element_type in (("to", type_name(dtype)), ("from", type_name(data.dtype))):
        if element_type not in CASTABLE:
            raise TypeError(f"Cast {direction} {element_type} is not supported; it converts between {', '.join(CASTABLE)}")
    if data.dtype == dtype:
        return data
    with np.errstate(all="ignore"):  # NumPy warns about numbers that do not fit; ONNX does not define them
        return data.astype(dtype)


def shape(node: ParsedNode, data: Any) -> Any:
    """Return shape[start:end] of `data` as an int64 array. The attributes start and end are optional."""
    start, end = (node.attributes.get(name) for name in ("start", "end"))
    return np.array(data.shape[start:end], np.int64)


def squeeze(node: ParsedNode, data: Any, axes: Any = None) -> Any:
    """Return `data` without the dimensions `axes`, by default all of size 1. Before version 13, axes are an attribute."""
    sizes = tuple(data.shape)
    axes = node.attributes.get("axes", axes)
    removed = {axis for axis, size in enumerate(sizes) if size == 1}
    if axes is not None:
        removed = _axes(node, _integers(node, "axes", axes), len(sizes), "data")
    for axis in sorted(removed):
        if sizes[axis] != 1:
            raise ValueError(f"axes has {axis}, but dimension {axis} of data has size {sizes[axis]}, not 1: shape {list(sizes)}")
    return data.reshape(tuple(size for axis, size in enumerate(sizes) if axis not in removed))


def unsqueeze(node: ParsedNode, data: Any, axes: Any = None) -> Any:
    """Return `data` with additional dimensions of size 1. `axes`: the positions of these dimensions in the result's shape."""
    values = _integers(node, "axes", axes, scalar=True)
    rank = len(data.shape) + len(values)
    new, sizes = _axes(node, values, rank, "the result"), iter(data.shape)
    return data.reshape(tuple(1 if axis in new else next(sizes) for axis in range(rank)))


def reshape(node: ParsedNode, data: Any, shape: Any = None) -> Any:
    """Return `data` in another shape. A size of 0 copies the size of `data`, unless the attribute allowzero is 1."""
    shape, sizes, copies_zeros = _integers(node, "shape", shape), tuple(data.shape), not node.attributes.get("allowzero", 0)
    result = []
    for position, size in enumerate(shape):
        if size < -1:
            raise ValueError(f"shape[{position}] is {size}, expected a size, 0 for data's size, or -1 for the remaining size")
        if size == 0 and copies_zeros and position >= len(sizes):
            raise ValueError(
                f"shape[{position}] is 0, which copies data's size in dimension {position}, but data has shape {list(sizes)}"
            )
        result.append(sizes[position] if size == 0 and copies_zeros else size)
    total, stated = math.prod(sizes), math.prod(size for size in result if size != -1)
    message = f"data has shape {list(sizes)}, {counted(total, 'element')}, and shape is {list(shape)}"
    if result.count(-1) > 1:
        raise ValueError(f"{message}: at most one entry may be -1")
    if -1 in result:
        if not stated:
            raise ValueError(f"{message}: -1 is ambiguous, because another size is 0")
        if total % stated:
            raise ValueError(f"{message}: the product of the other sizes is {stated}, which does not divide {total}")
        result[result.index(-1)] = total // stated
    elif stated != total:
        raise ValueError(f"{message}, which has {counted(stated, 'element')}")
    return data.reshape(tuple(result))


def transpose(node: ParsedNode, data: Any) -> Any:
    """Return `data` with permuted dimensions, in reversed order by default."""
    rank = len(data.shape)
    perm = node.attributes.get("perm", tuple(reversed(range(rank))))
    if sorted(perm) != list(range(rank)):
        raise ValueError(f"perm is {list(perm)}, but data has rank {rank}: expected a permutation of {list(range(rank))}")
    return data.transpose(perm)


def _integers(node: ParsedNode, name: str, values: Any, *, scalar: bool = False) -> tuple[int, ...]:
    """Return the integers of the attribute `name`. If the node has no such attribute, return the integers in `values`."""
    values = node.attributes.get(name, values)
    if isinstance(values, tuple):
        return values
    array = np.asarray(values)
    check_type(node.version, name, array.dtype, node.version.index_types)
    if array.ndim != 1 and not (scalar and array.ndim == 0):
        raise ValueError(f"{name} has shape {list(array.shape)}, but {node.version} takes one dimension: reshape to [-1]")
    return tuple(int(value) for value in array.reshape(-1))


def _axes(node: ParsedNode, values: Sequence[int], rank: int, array: str) -> set[int]:
    """Return axes as numbers of 0 or more: -1 becomes rank - 1. `array`: the array's name, for messages."""
    for number, value in enumerate(values):
        if value < 0 and node.version.since < 11:
            raise ValueError(f"axes[{number}] is {value}, but {node.version} takes no negative axes; they came with opset 11")
    return set(check_axes(values, rank, array))
