"""The layers that move elements, numbers and names alike, and those that compute: from a layer to its output, or to several in a
list. Values of a graph may take the place of arrays that are moved.

Source: the operations' pages in OpenVINO's documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.dialects.element_arithmetic import OPERATIONS, Computing, over, reduced
from dmlgather.dialects.graph_arrays import expanded, joined, parts, reshaped
from dmlgather.dialects.problem import TensorType, check_axes, check_axis
from dmlgather.dialects.sizes import KEPT_ELEMENTS, Array, has_names
from dmlgather.dialects.windows import WindowProblem
from dmlgather.openvino.model.constants import convert
from dmlgather.openvino.model.layer_calls import MOST_DIMENSIONS, LayerCall
from dmlgather.openvino.model.layer_reading import attributes_of, problem_of, version_of
from dmlgather.openvino.problems.data_types import TYPES
from dmlgather.wording import counted

Rule = Callable[[LayerCall], Any]


def gather(call: LayerCall) -> Array:
    """Gather of arrays. An index below 0 counts from the end in version 8 alone."""
    if call.text("batch_dims", "0") not in ("0", ""):
        raise call.unknown("batch_dims")
    data, (axis,) = call.input(0), call.integers(2)
    axis = check_axis("axis", axis, data.ndim, "data")
    indices, count = np.array(call.integers(1), np.int64), data.shape[axis]
    wraps = call.layer.opset not in ("opset1", "opset2", "opset3", "opset4", "opset5", "opset6", "opset7")
    if ((indices < (-count if wraps else 0)) | (indices >= count)).any():
        raise call.unknown("an index out of range")
    return np.asarray(np.take(data, indices.reshape(call.input(1).shape), axis), data.dtype)


def sliced(call: LayerCall) -> Array:
    """Slice and StridedSlice of arrays."""
    data, version = call.input(0), version_of(call.layer)
    bounds = {name: np.array(call.integers(at), np.int64) for at, name in enumerate(version.inputs[: len(call.inputs)]) if at}
    problem = problem_of(
        version, {"data": TensorType(data.shape, np.dtype(np.int64))}, bounds, attributes_of(call.layer, version)
    )
    assert isinstance(problem, WindowProblem)
    windows = [window.start + window.step * np.arange(window.count) for window in problem.windows]
    return np.asarray(data[np.ix_(*windows)].reshape(problem.output.shape))


def same(call: LayerCall) -> Any:
    """The first input."""
    return call.input(0)


def concat(call: LayerCall) -> Any:
    """One after the other; arrays of which one has names are arrays of objects."""
    arrays, axis = call.inputs, call.integer("axis")
    if any(isinstance(each, np.ndarray) and has_names(each) for each in arrays):
        arrays = [each.astype(object) for each in arrays]
    return joined(arrays, axis)


def squeeze(call: LayerCall) -> Any:
    """Without axes, every size of 1 goes. Where an axis is named that has another size, what happens depends on the version."""
    data = call.input(0)
    if len(call.inputs) == 1:
        return data.reshape([size for size in data.shape if size != 1])
    dropped = check_axes("axes", call.integers(1), data.ndim, "data")
    if not dropped or any(data.shape[axis] != 1 for axis in dropped):
        raise call.unknown(f"axes {dropped} of shape {list(data.shape)}")
    return data.reshape([size for axis, size in enumerate(data.shape) if axis not in dropped])


def unsqueeze(call: LayerCall) -> Any:
    """New sizes of 1."""
    data, axes = call.input(0), call.integers(1)
    rank = data.ndim + len(axes)
    if rank > MOST_DIMENSIONS:
        raise call.unknown(f"{rank} dimensions")
    new, sizes = check_axes("axes", axes, rank, "the result"), iter(data.shape)
    return data.reshape([1 if axis in new else next(sizes) for axis in range(rank)])


def reshape(call: LayerCall) -> Any:
    """Of a shape in which one size may be -1, and 0 may take a size from data."""
    data, sizes = call.input(0), call.integers(1)
    if len(sizes) > MOST_DIMENSIONS:
        raise call.unknown(f"{len(sizes)} dimensions")
    if call.flag("special_zero", False):
        sizes = [data.shape[at] if size == 0 and at < data.ndim else size for at, size in enumerate(sizes)]
    if sizes.count(-1) == 1:
        others = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = math.prod(data.shape) // others if others else 0
    return data.reshape(sizes)


def transpose(call: LayerCall) -> Any:
    """The dimensions in another order, or reversed."""
    data = call.input(0)
    return data.transpose(call.integers(1) or list(range(data.ndim))[::-1])


def split(call: LayerCall) -> list[Any]:
    """Equal parts along an axis."""
    (axis,), number, outputs = call.integers(1), call.integer("num_splits"), len(call.layer.outputs)
    axis, size = _axis(call, axis)
    if number != outputs or number < 1 or size % number:
        raise ValueError(f"num_splits is {number} for {counted(outputs, 'output')}, but data has size {size} along axis {axis}")
    return parts(call.input(0), axis, [size // number] * number)


def variadic_split(call: LayerCall) -> list[Any]:
    """Parts along an axis, of which one takes what is left."""
    (axis,), lengths, outputs = call.integers(1), call.integers(2), len(call.layer.outputs)
    axis, size = _axis(call, axis)
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = size - sum(length for length in lengths if length != -1)
    if len(lengths) != outputs or min(lengths, default=0) < 0 or sum(lengths) != size:
        raise ValueError(f"split_lengths is {lengths} for {outputs} outputs, but data has size {size} along axis {axis}")
    return parts(call.input(0), axis, lengths)


def _axis(call: LayerCall, axis: int) -> tuple[int, int]:
    """An axis of the first input, counted from the front, and its size."""
    shape = call.input(0).shape
    axis = check_axis("axis", axis, len(shape), "the first input")
    return axis, shape[axis]


def broadcast(call: LayerCall) -> Any:
    """To a shape, by NumPy's rule, to both shapes, or with stated axes."""
    data, sizes, mode = call.input(0), call.integers(1), call.text("mode", "numpy")
    large = isinstance(data, np.ndarray) and math.prod(sizes) > KEPT_ELEMENTS
    if mode not in ("numpy", "bidirectional", "explicit", "none") or len(sizes) > MOST_DIMENSIONS or large:
        raise call.unknown(f"mode {mode!r} to {sizes[:8]}")
    if mode in ("explicit", "none"):
        places = call.integers(2)
        if sorted(set(places)) != places or len(places) != data.ndim or not all(0 <= at < len(sizes) for at in places):
            raise call.unknown(f"mode {mode!r} with axes {places}")
        aligned = dict(zip(places, data.shape, strict=True))
        data = reshaped(data, [aligned.get(axis, 1) for axis in range(len(sizes))], "aligned")
    return expanded(data, np.broadcast_shapes(data.shape, tuple(sizes)) if mode == "bidirectional" else sizes)


MOST_NAMES = 64
"""The most elements of an array with names that is computed with: shapes have fewer, and expressions take time."""


def divide(compute: Computing, left: Any, right: Any) -> Any:
    """Of integers: rounded down, or towards 0 where m_pythondiv is false."""
    if not compute.integers:
        return compute("divide", left, right)
    return compute("floor_divide" if compute.attributes.get("m_pythondiv", 1) else "truncate_divide", left, right)


def computed(
    elements: Callable[..., Any], count: int, *, conditions: int = 0, most: int = MOST_NAMES, divides: bool = False
) -> Rule:
    """Element by element. count: of the inputs. conditions: of those before the others, which are bools. most: elements of arrays
    with names. divides: whether the last input is a divisor.
    """

    def rule(call: LayerCall) -> Array:
        inputs = _broadcast(call, count)
        if divides and inputs[-1].dtype.kind in "iu" and call.of_integers and not inputs[-1].all():
            raise ValueError("it divides integers by 0")
        if not any(map(has_names, inputs)):
            return np.asarray(elements(call.numbers(), *inputs))
        if any(map(has_names, inputs[:conditions])):
            raise call.unknown("it takes sizes as conditions")
        if inputs[0].size > most:
            raise call.unknown(f"{inputs[0].size} elements with unknown sizes")
        return _known(call, over(elements, call.arithmetic(), inputs, np.dtype(object)))

    return rule


def _known(call: LayerCall, result: Array) -> Array:
    found = result.reshape(-1)
    if any(isinstance(each, Unknown) for each in found):
        raise call.unknown("it depends on sizes that are not known")
    return result.astype(bool) if found.size and all(isinstance(each, bool) for each in found) else call.typed(result)


def _broadcast(call: LayerCall, count: int) -> list[Array]:
    """The inputs in one shape, by NumPy's rule, which is the default. ValueError for another number of inputs than `count`."""
    if len(call.inputs) != count:
        raise ValueError(f"it has {counted(len(call.inputs), 'input')}, expected {count}")
    rule, shapes = call.text("auto_broadcast", "numpy"), {each.shape for each in call.inputs}
    if rule != "numpy" and len(shapes) > 1:
        raise call.unknown(f"auto_broadcast {rule!r} of different shapes")
    if math.prod(np.broadcast_shapes(*shapes)) > KEPT_ELEMENTS:
        raise call.unknown("too many elements")
    return list(np.broadcast_arrays(*call.inputs))


def divided(call: LayerCall) -> Array:
    """Divide, whose results depend on their type."""
    if call.kind is None:
        raise call.unknown("its data type is not known")
    return np.asarray(computed(divide, 2, divides=True)(call))


def converted(call: LayerCall) -> Array:
    """Convert."""
    name = call.text("destination_type")
    if name not in TYPES.names:
        raise call.unknown(f"converted to {name[:40] or 'an unknown type'}")
    return _converted(call, name)


def converted_like(call: LayerCall) -> Array:
    """ConvertLike."""
    if has_names(call.input(1)):
        raise call.unknown("converted to an unknown type")
    return _converted(call, TYPES.name_of(call.input(1).dtype))


def _converted(call: LayerCall, name: str) -> Array:
    values: Array = call.input(0)
    if not has_names(values):
        result = convert(values, name)
        if result is None:
            raise call.unknown(f"converted to {name}, which does not have its value")
        return result
    if name.startswith(("f", "bf")):
        return values
    if name not in ("i32", "i64"):  # others lose what a size or a difference of sizes may be
        raise call.unknown(f"sizes converted to {name}")
    return _known(call, over(lambda compute, one: compute("truncate", one), call.arithmetic(), [values], np.dtype(object)))


def ranged(call: LayerCall) -> Array:
    """Range, of integers."""
    (start,), (stop,), (step,) = (call.integers(at) for at in range(3))
    if step == 0:
        raise ValueError("its step is 0")
    if len(range(start, stop, step)) > KEPT_ELEMENTS:
        raise call.unknown("too many elements")
    return call.typed(np.array(range(start, stop, step), np.int64))


def reduction(operation: str) -> Rule:
    """An operation of two operands along axes."""

    def rule(call: LayerCall) -> Array:
        data, keep = call.input(0), call.flag("keep_dims", False)
        axes = check_axes("axes", call.integers(1), data.ndim, "data")
        if not has_names(data):
            result = OPERATIONS[operation].numbers.reduce(data, axis=tuple(axes), keepdims=keep)  # type: ignore[attr-defined]
            return np.asarray(result).astype(data.dtype)
        if not 0 < data.size <= MOST_NAMES:
            raise call.unknown("it depends on sizes that are not known")
        return _known(call, reduced(operation, call.arithmetic(), data, np.dtype(object), axes=axes, keep=keep))

    return rule


def shape_of(call: LayerCall) -> Array:
    """ShapeOf, whose input is the sizes."""
    return call.typed(call.input(0))
