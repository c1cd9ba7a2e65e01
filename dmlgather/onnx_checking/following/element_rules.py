"""Rules that compute output elements from inputs with symbolic sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmlgather.onnx.problems.data_types import data_type
from dmlgather.onnx.problems.node_reading import parse_node
from dmlgather.onnx_checking.following.element_arithmetic import Arithmetic, Element, array_of, range_length
from dmlgather.onnx_checking.following.operator_entries import KnownNode
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Unknown, Value, is_known

WIDE = frozenset(("int32", "int64", "uint32", "uint64", "float32", "float64"))
"""Data types that can hold every size. float32 rounds integers above 2^24, but models have no such sizes."""

# Rules for one element of the output. The arguments are the elements of the inputs at one position.


def divide(compute: Arithmetic, left: Any, right: Any) -> Any:
    """Divide two elements. Quotients of integers are rounded towards 0."""
    return compute("truncate_divide" if compute.integers else "divide", left, right)


def modulo(compute: Arithmetic, left: Any, right: Any) -> Any:
    """Return ONNX's Mod: the remainder has the divisor's sign. With `fmod` or floats, it has the dividend's sign."""
    truncates = compute.attributes.get("fmod", 0) or not compute.integers
    return compute("truncate_modulo" if truncates else "floor_modulo", left, right)


def clip(compute: Arithmetic, value: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002 - ONNX's names
    """Limit a number. If `min` exceeds `max`, the result is `max`."""
    min, max = compute.attributes.get("min", min), compute.attributes.get("max", max)  # noqa: A001 - as above
    above = value if min is None else compute("maximum", value, min)
    return above if max is None else compute("minimum", above, max)


def relu(compute: Arithmetic, value: Any) -> Any:
    """Return the maximum of the element and 0."""
    return compute("maximum", value, 0)


def power(compute: Arithmetic, base: Any, exponent: Any) -> Any:
    """Raise an element to the power 1, 2 or 3. Other powers are unknown."""
    if isinstance(exponent, int | float) and exponent in (1, 2, 3):
        return compute.fold("multiply", [base] * int(exponent))
    return Unknown("a power of a size that is not known")


# Rules for the whole output of a node whose inputs contain symbolic sizes.


def reduction(operation: str) -> Callable[[KnownNode], Value | None]:
    """Return a rule for an operator such as ReduceMax. `operation`: the operation on two elements."""

    def rule(call: KnownNode) -> Value:
        axes: Sequence[int] | None = call.ints("axes")
        if len(call.values) > 1 and call.values[1] is not None:
            if not is_known(call.values[1]):
                raise ValueError("axes that are not known")
            axes = [int(axis) for axis in np.asarray(call.values[1]).reshape(-1)]
        if not axes:
            axes = [] if call.integers.get("noop_with_empty_axes", 0) else None
        data, keep = np.asarray(call.values[0]), bool(call.integers.get("keepdims", 1))
        chosen = set(range(data.ndim)) if axes is None else {axis + data.ndim * (axis < 0) for axis in axes}
        if not chosen <= set(range(data.ndim)) or data.size == 0:
            raise ValueError(f"axes {axes} of rank {data.ndim}")
        kept = [axis for axis in range(data.ndim) if axis not in chosen]
        rows = data.transpose(*kept, *sorted(chosen)).reshape(math.prod(data.shape[axis] for axis in kept), -1)
        results = [call.arithmetic(call.data).fold(operation, row) for row in rows.tolist()]
        shape = [1 if axis in chosen else size for axis, size in enumerate(data.shape) if keep or axis not in chosen]
        return array_of(results, shape, call.data)

    return rule


def cast(call: KnownNode) -> Value:
    """Convert elements to another data type. Symbolic sizes become Unknown if the type cannot hold every size."""
    target, source, compute = data_type(call.integers["to"]), call.data, call.arithmetic()
    if target is None:
        raise ValueError("to is no data type")

    def converted(element: Element) -> Element:
        if isinstance(element, Unknown):
            return element
        if target == np.bool_:
            zero = compute.compare(element, "=", 0)
            return zero if isinstance(zero, Unknown) else not zero
        if target.name not in WIDE or (target.kind == "u" and compute.compare(element, ">=", 0) is not True):
            return Unknown(f"a size as {target.name}, which may not hold it")
        return compute("truncate", element) if source.kind == "f" and target.kind in "iu" else element

    data = np.asarray(call.values[0])
    return array_of([converted(element) for element in data.reshape(-1).tolist()], data.shape, target)


def range_elements(call: KnownNode) -> Value | None:
    """Return the elements of ONNX's Range, or None if the number of elements is unknown or too large."""
    start, limit, step = (np.asarray(value).item(0) for value in call.values)
    compute = call.arithmetic(call.data)
    number = range_length(compute, start, limit, step)
    if not isinstance(number, int) or number > KEPT_ELEMENTS:
        return None
    return array_of([compute("add", start, compute("multiply", step, index)) for index in range(number)], (number,), call.data)


def shape(call: KnownNode) -> Value:
    """Return the output of ONNX's Shape."""
    sizes = _sizes(call)
    if isinstance(sizes, Unknown):
        return sizes
    version = parse_node(call.node, call.opset)
    start, end = (version.attributes.get(name) for name in ("start", "end"))
    return array_of(sizes[start:end], (len(sizes[start:end]),), np.dtype(np.int64))


def size(call: KnownNode) -> Value:
    """Return the output of ONNX's Size."""
    sizes = _sizes(call)
    if isinstance(sizes, Unknown):
        return sizes
    return array_of([call.arithmetic().fold("multiply", [1, *sizes])], (), np.dtype(np.int64))


def _sizes(call: KnownNode) -> list[Element] | Unknown:
    type_ = call.types[0]
    if type_.shape is None:
        value = call.values[0]
        decided_by = value.decided_by if isinstance(value, Unknown) else None
        return Unknown(f"the shape of {call.node.input[0]!r}, which is not known", decided_by, computed=True, of_sizes=True)
    return [Unknown("a size") if size is None else size for size in type_.shape]
