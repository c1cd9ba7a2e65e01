"""The layers by which models compute with shapes, on arrays of numbers, and of names where sizes are not known.

Source: the operations' pages in OpenVINO's documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgather.dialects.problem import TensorType, check_axes, check_axis
from dmlgather.dialects.size_arrays import KEPT_ELEMENTS, Array, compared, elementwise, has_names
from dmlgather.dialects.windows import WindowProblem
from dmlgather.openvino.model.constants import convert
from dmlgather.openvino.model.layer_operations import MOST_DIMENSIONS, Computed, Operation, typed
from dmlgather.openvino.model.layer_reading import attributes_of, version_of
from dmlgather.openvino.problems.data_types import TYPES
from dmlgather.openvino.problems.layer_problems import problem_of
from dmlgather.wording import counted

# The layers that move elements, numbers and names alike. Source: the operations' pages in OpenVINO's documentation.


def _gather(operation: Operation) -> list[Array]:
    if operation.layer.data.get("batch_dims", "0").strip() not in ("0", ""):
        raise operation.unknown("batch_dims")
    data, (axis,) = operation.input(0), operation.integers(2)
    axis = check_axis("axis", axis, data.ndim, "data")
    indices, count = np.array(operation.integers(1), np.int64), data.shape[axis]
    wraps = operation.layer.opset not in ("opset1", "opset2", "opset3", "opset4", "opset5", "opset6", "opset7")
    if ((indices < (-count if wraps else 0)) | (indices >= count)).any():
        raise operation.unknown("an index out of range")
    return [np.take(data, indices.reshape(operation.input(1).shape), axis)]


def _sliced(operation: Operation) -> list[Array]:
    data, version = operation.input(0), version_of(operation.layer)
    bounds = {
        name: np.array(operation.integers(at), np.int64) for at, name in enumerate(version.inputs[: len(operation.inputs)]) if at
    }
    problem = problem_of(
        version, {"data": TensorType(data.shape, np.dtype(np.int64))}, bounds, attributes_of(operation.layer, version)
    )
    assert isinstance(problem, WindowProblem)
    windows = [window.start + window.step * np.arange(window.count) for window in problem.windows]
    return [data[np.ix_(*windows)].reshape(problem.output.shape)]


def _concat(operation: Operation) -> list[Array]:
    arrays = operation.inputs
    if any(map(has_names, arrays)):
        arrays = [each.astype(object) for each in arrays]
    return [np.concatenate(arrays, operation.number("axis"))]


def _squeeze(operation: Operation) -> list[Array]:
    data = operation.input(0)
    if len(operation.inputs) == 1:
        return [data.reshape([size for size in data.shape if size != 1])]
    axes = check_axes("axes", operation.integers(1), data.ndim, "data")
    return [np.squeeze(data, axes)]


def _unsqueeze(operation: Operation) -> list[Array]:
    data, axes = operation.input(0), operation.integers(1)
    if data.ndim + len(axes) > MOST_DIMENSIONS:
        raise operation.unknown(f"{data.ndim + len(axes)} dimensions")
    return [np.expand_dims(data, check_axes("axes", axes, data.ndim + len(axes), "the result"))]


def _reshape(operation: Operation) -> list[Array]:
    data, sizes = operation.input(0), operation.integers(1)
    if len(sizes) > MOST_DIMENSIONS:
        raise operation.unknown(f"{len(sizes)} dimensions")
    if operation.flag("special_zero", False):
        sizes = [data.shape[at] if size == 0 else size for at, size in enumerate(sizes)]
    return [data.reshape(sizes)]


def _transpose(operation: Operation) -> list[Array]:
    return [operation.input(0).transpose(operation.integers(1) or None)]


def _split(operation: Operation) -> list[Array]:
    parts, outputs = operation.number("num_splits"), len(operation.layer.outputs)
    if parts != outputs or not parts:  # so that a file cannot ask for 2^40 empty parts
        raise ValueError(f"num_splits is {parts}, but it has {counted(outputs, 'output')}")
    return list(np.split(operation.input(0), parts, *operation.integers(1)))


def _variadic_split(operation: Operation) -> list[Array]:
    data, (axis,), lengths = operation.input(0), operation.integers(1), operation.integers(2)
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = data.shape[axis] - sum(length for length in lengths if length != -1)
    if min(lengths, default=0) < 0 or sum(lengths) != data.shape[axis]:
        raise ValueError(f"split_lengths is {lengths}, but data has size {data.shape[axis]} in dimension {axis}")
    return list(np.split(data, np.cumsum(lengths)[:-1], axis))


def _broadcast_to(operation: Operation) -> list[Array]:
    sizes = operation.integers(1)
    mode = operation.layer.data.get("mode", "numpy").strip().lower()
    if mode not in ("numpy", "bidirectional") or len(sizes) > MOST_DIMENSIONS or math.prod(sizes) > KEPT_ELEMENTS:
        raise operation.unknown(f"mode {mode!r} to {sizes[:8]}")
    target = sizes if mode == "numpy" else np.broadcast_shapes(operation.input(0).shape, tuple(sizes))
    return [np.broadcast_to(operation.input(0), target)]


MOVING: Mapping[str, Computed] = {
    "Broadcast": _broadcast_to,
    "Concat": _concat,
    "Gather": _gather,
    "Reshape": _reshape,
    "Slice": _sliced,
    "Split": _split,
    "Squeeze": _squeeze,
    "StridedSlice": _sliced,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "VariadicSplit": _variadic_split,
}
"""By the layer's type."""


MOST_NAMES = 64
"""The most elements of an array with names that is computed with: shapes have fewer, and expressions take time."""


def _arithmetic(name: str, numbers: Callable[..., Array]) -> Computed:
    """An operation on each element: of `Sizes.compute` where there are names, else of NumPy."""

    def run(operation: Operation) -> list[Array]:
        inputs = _broadcast(operation, getattr(numbers, "nin", 2))
        if not any(map(has_names, inputs)):
            with np.errstate(all="ignore"):
                return [np.asarray(numbers(*inputs))]
        if inputs[0].size > MOST_NAMES:
            raise operation.unknown(f"{inputs[0].size} elements with unknown sizes")
        result = elementwise(operation.sizes, name, *inputs)
        if result is None:
            raise operation.unknown("it depends on sizes that are not known")
        return [typed(operation, result)]

    return run


def _broadcast(operation: Operation, count: int) -> list[Array]:
    """The inputs in one shape, by NumPy's rule, which is the default. ValueError for another number of inputs than `count`."""
    if len(operation.inputs) != count:
        raise ValueError(f"it has {counted(len(operation.inputs), 'input')}, expected {count}")
    rule = operation.layer.data.get("auto_broadcast", "numpy").strip().lower()
    shapes = {each.shape for each in operation.inputs}
    if rule != "numpy" and len(shapes) > 1:
        raise operation.unknown(f"auto_broadcast {rule!r} of different shapes")
    if math.prod(np.broadcast_shapes(*shapes)) > KEPT_ELEMENTS:
        raise operation.unknown("too many elements")
    return list(np.broadcast_arrays(*operation.inputs))


def _divide(operation: Operation) -> list[Array]:
    """Of integers: rounded down, or towards 0 where m_pythondiv is false."""
    kind = operation.layer.outputs[0].type if operation.layer.outputs else None
    if kind is None:
        raise operation.unknown("its data type is not known")
    if kind.startswith(("f", "bf")):
        return _arithmetic("divide", np.true_divide)(operation)
    _no_zero(operation)
    if operation.flag("m_pythondiv", True):
        return _arithmetic("floor_divide", np.floor_divide)(operation)
    return _arithmetic("truncate_divide", lambda left, right: (left - np.fmod(left, right)) // right)(operation)


def _modulo(name: str, numbers: Callable[..., Array]) -> Computed:
    def run(operation: Operation) -> list[Array]:
        _no_zero(operation)
        return _arithmetic(name, numbers)(operation)

    return run


def _no_zero(operation: Operation) -> None:
    divisor = operation.input(1)
    if divisor.dtype.kind in "iu" and not divisor.all():
        raise ValueError("it divides integers by 0")


def _comparison(relation: str, numbers: Callable[..., Array], negated: bool = False) -> Computed:
    def run(operation: Operation) -> list[Array]:
        inputs = _broadcast(operation, 2)
        if not any(map(has_names, inputs)):
            result: Array | None = np.asarray(numbers(*inputs))
        elif inputs[0].size > MOST_NAMES:
            raise operation.unknown(f"{inputs[0].size} elements with unknown sizes")
        else:
            result = compared(operation.sizes, relation, operation.input(0), operation.input(1))
        if result is None:
            raise operation.unknown("it depends on sizes that are not known")
        return [~result if negated else result]

    return run


def _logical(numbers: Callable[..., Array]) -> Computed:
    def run(operation: Operation) -> list[Array]:
        inputs = _broadcast(operation, getattr(numbers, "nin", 2))
        if any(map(has_names, inputs)):
            raise operation.unknown("it takes sizes as conditions")
        return [np.asarray(numbers(*inputs))]

    return run


def _select(operation: Operation) -> list[Array]:
    condition, then, otherwise = _broadcast(operation, 3)
    if has_names(condition):
        raise operation.unknown("it takes sizes as conditions")
    if has_names(then) or has_names(otherwise):
        return [typed(operation, np.where(condition, then.astype(object), otherwise.astype(object)))]
    return [np.where(condition, then, otherwise)]


def _convert(operation: Operation) -> list[Array]:
    name = operation.layer.data.get("destination_type", "").strip().lower()
    if name not in TYPES.names:
        raise operation.unknown(f"converted to {name[:40] or 'an unknown type'}")
    return [_converted(operation, operation.input(0), name)]


def _convert_like(operation: Operation) -> list[Array]:
    if has_names(operation.input(1)):
        raise operation.unknown("converted to an unknown type")
    return [_converted(operation, operation.input(0), TYPES.name_of(operation.input(1).dtype))]


def _converted(operation: Operation, values: Array, name: str) -> Array:
    if not has_names(values):
        result = convert(values, name)
        if result is None:
            raise operation.unknown(f"converted to {name}, which does not have its value")
        return result
    if name.startswith(("f", "bf")):
        return values
    if name not in ("i32", "i64"):  # others lose what a size or a difference of sizes may be
        raise operation.unknown(f"sizes converted to {name}")
    result = elementwise(operation.sizes, "truncate", values)
    if result is None:
        raise operation.unknown("it depends on sizes that are not known")
    return result


def _range(operation: Operation) -> list[Array]:
    bounds = [operation.integers(at) for at in range(3)]
    (start,), (stop,), (step,) = bounds
    if step == 0:
        raise ValueError("its step is 0")
    if len(range(start, stop, step)) > KEPT_ELEMENTS:
        raise operation.unknown("too many elements")
    return [typed(operation, np.array(range(start, stop, step), np.int64))]


def _reduction(name: str, numbers: Callable[..., Any]) -> Computed:
    def run(operation: Operation) -> list[Array]:
        data, keep = operation.input(0), operation.flag("keep_dims", False)
        axes = tuple(check_axes("axes", operation.integers(1), data.ndim, "data"))
        if not has_names(data):
            return [np.asarray(numbers(data, axis=axes, keepdims=keep)).astype(data.dtype)]
        if axes != tuple(range(data.ndim)) or not 0 < data.size <= MOST_NAMES:
            raise operation.unknown("it depends on sizes that are not known")
        parts = list(data.reshape(-1, 1).astype(object))
        result = elementwise(operation.sizes, name, *parts) if len(parts) > 1 else parts[0]
        if result is None:
            raise operation.unknown("it depends on sizes that are not known")
        return [typed(operation, result.reshape((1,) * data.ndim if keep else ()))]

    return run


OPERATIONS: Mapping[str, Computed] = {
    **MOVING,
    "Abs": _arithmetic("absolute", np.abs),
    "Add": _arithmetic("add", np.add),
    "Ceiling": _arithmetic("ceil", np.ceil),
    "Convert": _convert,
    "ConvertLike": _convert_like,
    "Divide": _divide,
    "Equal": _comparison("=", np.equal),
    "Floor": _arithmetic("floor", np.floor),
    "FloorMod": _modulo("floor_modulo", np.mod),
    "Greater": _comparison(">", np.greater),
    "GreaterEqual": _comparison(">=", np.greater_equal),
    "Less": _comparison("<", np.less),
    "LessEqual": _comparison("<=", np.less_equal),
    "LogicalAnd": _logical(np.logical_and),
    "LogicalNot": _logical(np.logical_not),
    "LogicalOr": _logical(np.logical_or),
    "LogicalXor": _logical(np.logical_xor),
    "Maximum": _arithmetic("maximum", np.maximum),
    "Minimum": _arithmetic("minimum", np.minimum),
    "Mod": _modulo("truncate_modulo", np.fmod),
    "Multiply": _arithmetic("multiply", np.multiply),
    "Negative": _arithmetic("negate", np.negative),
    "NotEqual": _comparison("=", np.equal, negated=True),
    "Range": _range,
    "ReduceMax": _reduction("maximum", np.max),
    "ReduceMin": _reduction("minimum", np.min),
    "ReduceProd": _reduction("multiply", np.prod),
    "ReduceSum": _reduction("add", np.sum),
    "Select": _select,
    "ShapeOf": lambda operation: [typed(operation, operation.input(0))],
    "Subtract": _arithmetic("subtract", np.subtract),
}
"""From a layer with its inputs to its outputs, by type."""
