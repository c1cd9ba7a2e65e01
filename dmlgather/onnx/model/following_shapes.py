"""Shapes that follow from sizes with names, where ONNX's shape inference follows only numbers: a row for each operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.onnx.model.constant_folding import Operands
from dmlgather.onnx.model.partial_types import Size
from dmlgather.onnx.model.symbolic_elements import Arithmetic, range_length
from dmlgather.onnx.model.values import Element, Value, objects

Shape = Sequence[Size]

TO_THE_END = 2**31 - 1
"""Bounds of a slice from here on mean the end of the axis, whatever its size."""


def following_shapes(operands: Operands) -> list[Shape | None] | None:
    """The shapes of a node's outputs, as far as they follow, None for an output of which nothing does. None where nothing follows
    for any, or the operator has no row.
    """
    row = _ROWS.get(operands.node.op_type)
    if row is None:
        return None
    try:
        found = row(ShapeCall(operands))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # an ill-formed node, as its verdict will say
        return None
    if found is None or all(shape is None for shape in found):
        return None
    return [without_negative(shape) for shape in found]


def without_negative(shape: Shape | None) -> Shape | None:
    """The shape, in which a number below 0 is no size."""
    return None if shape is None else [None if isinstance(size, int) and size < 0 else size for size in shape]


class ShapeCall:
    """A node as the rows see it: sizes and elements by the number of the input."""

    def __init__(self, operands: Operands) -> None:
        self.operands, self.opset, self.integers = operands, operands.opset, operands.integers
        self.node = operands.node
        self.arithmetic = Arithmetic(operands.names)

    def shape(self, at: int) -> Shape | None:
        """The shape of an input; None where it is not known, or the input is left out."""
        return self.operands.types[at].shape if self.has(at) else None

    def has(self, at: int) -> bool:
        """Whether an input is given."""
        return at < len(self.node.input) and bool(self.node.input[at])

    def ints(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers."""
        return next((list(each.ints) for each in self.node.attribute if each.name == name and not each.ref_attr_name), None)

    def elements(self, at: int) -> list[Element] | None:
        """The elements of an input of one dimension, unknown ones included; None where not even their number is known."""
        value: Value | None = self.operands.values[at]
        if isinstance(value, np.ndarray):
            return objects(value).reshape(-1).tolist()
        shape = self.shape(at)
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > 64:
            return None
        return [value or Unknown("")] * shape[0]

    def bounds(self, name: str, at: int) -> list[Element] | None:
        """An attribute or, in later versions, an input with a list of integers."""
        given = self.ints(name)
        return list(given) if given is not None else self.elements(at) if self.has(at) else None

    def size(self, operation: str, *operands: Any) -> Size:
        """The result of an operation on sizes; None where it is not known."""
        return _size(self.arithmetic(operation, *(Unknown("") if one is None else one for one in operands)))


def _size(element: Element) -> Size:
    return element if isinstance(element, int | str) else None


def _product(call: ShapeCall, sizes: Sequence[Size]) -> Size:
    result: Size = 1
    for size in sizes:
        result = call.size("multiply", result, size)
    return result


def _reshape(call: ShapeCall) -> list[Shape | None] | None:
    target = call.bounds("shape", 1)
    if target is None:
        return None
    data = call.shape(0)
    copies = not call.integers.get("allowzero", 0)
    shape: list[Size] = []
    for at, element in enumerate(target):
        if copies and element == 0:
            shape.append(None if data is None else data[at])
        else:
            shape.append(-1 if element == -1 else None if _negative(call, element) is not False else _size(element))
    if -1 in shape:
        at = shape.index(-1)
        others = [size for position, size in enumerate(shape) if position != at]
        shape[at] = None if data is None else _quotient(call, data, others)
    return [shape]


def _negative(call: ShapeCall, element: Element) -> bool | None:
    """Whether an integer is negative; None where it depends. The negative of a symbol is 0 where the symbol is."""
    answer = call.arithmetic.compare(element, "<", 0)
    return None if isinstance(answer, Unknown) else answer


def _quotient(call: ShapeCall, data: Shape, others: Shape) -> Size:
    """The size that is left for -1. Sizes on both sides cancel each other, known or not. The division leaves no rest, or the
    model fails.
    """
    left, right = list(data), []
    for size in others:
        if size not in (None, 0) and size in left:
            left.remove(size)
        else:
            right.append(size)
    if len(left) == 1 and not right:
        return left[0]
    return call.size("floor_divide", _product(call, left), _product(call, right))


def _expand(call: ShapeCall) -> list[Shape | None] | None:
    target, data = call.elements(1), call.shape(0)
    if target is None or data is None:
        return None
    pairs = zip_longest(reversed(data), reversed(target), fillvalue=1)
    return [[_broadcast(size, _size(element)) for size, element in pairs][::-1]]


def _broadcast(one: Size, two: Size) -> Size:
    if two in (one, 1):
        return one
    if one == 1:
        return two
    return next((size for size in (one, two) if isinstance(size, int) and size > 1), None)


def _constant_of_shape(call: ShapeCall) -> list[Shape | None] | None:
    target = call.elements(0)
    return None if target is None else [[_size(element) for element in target]]


def _slice(call: ShapeCall) -> list[Shape | None] | None:
    data = call.shape(0)
    starts, ends = call.bounds("starts", 1), call.bounds("ends", 2)
    if data is None or starts is None or ends is None:
        return None if data is None else [[None] * len(data)]
    axes = call.bounds("axes", 3) or list(range(len(starts)))
    steps = call.elements(4) if call.has(4) else [1] * len(starts)
    if not all(isinstance(axis, int) for axis in axes) or steps is None:
        return [[None] * len(data)]
    shape = list(data)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        shape[int(axis)] = _window(call, data[int(axis)], start, end, step)  # type: ignore[arg-type] # it is an integer
    return [shape]


def _window(call: ShapeCall, size: Size, start: Element, end: Element, step: Element) -> Size:
    """The elements that a slice takes along an axis."""
    if size is None or not isinstance(step, int) or step < 1:
        return None
    first, last = _clamped(call, size, start), _clamped(call, size, end)
    if last == size and isinstance(start, int) and first not in (None, 0, size):  # in few words, which conditions repeat
        taken = call.size("maximum", call.size("subtract", size, start), 0) if start > 0 else call.size("minimum", size, -start)
    else:
        taken = last if first == 0 else call.size("maximum", call.size("subtract", last, first), 0)
    return taken if step == 1 else call.size("floor_divide", call.size("add", taken, step - 1), step)


def _clamped(call: ShapeCall, size: int | str, bound: Element) -> Size:
    if isinstance(bound, int) and not -TO_THE_END < bound < TO_THE_END:
        return size if bound > 0 else 0
    negative = _negative(call, bound)
    if negative is None:
        return None
    if negative:
        return call.size("maximum", call.size("add", bound, size), 0)
    return call.size("minimum", bound, size)


def _concat(call: ShapeCall) -> list[Shape | None] | None:
    shapes = [call.shape(at) for at in range(len(call.node.input))]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    rank = len(known[0])
    axis = call.integers.get("axis", 1) % rank
    shape: list[Size] = []
    for at in range(rank):
        sizes = [each[at] for each in known]
        numbers = [size for size in sizes if isinstance(size, int)]
        shape.append(numbers[0] if numbers else sizes[0])
    total: Size = 0
    for each in shapes:
        total = None if each is None else call.size("add", total, each[axis])
    shape[axis] = total
    return [shape]


def _tile(call: ShapeCall) -> list[Shape | None] | None:
    data, repeats = call.shape(0), call.elements(1)
    if data is None or repeats is None:
        return None
    return [[call.size("multiply", size, _size(times)) for size, times in zip(data, repeats, strict=True)]]


def _range(call: ShapeCall) -> list[Shape | None] | None:
    start, limit, step = (
        objects(value).reshape(-1)[0] if isinstance(value, np.ndarray) else Unknown("") for value in call.operands.values
    )
    return [[range_length(call.arithmetic, start, limit, step)]]


def _pad(call: ShapeCall) -> list[Shape | None] | None:
    data, pads = call.shape(0), call.bounds("pads", 1)
    if data is None or pads is None:
        return None
    axes = call.elements(3) if call.has(3) else list(range(len(data)))
    if axes is None or not all(isinstance(axis, int) for axis in axes):
        return [[None] * len(data)]
    shape = list(data)
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        at = int(axis)  # type: ignore[arg-type] # it is an integer
        shape[at] = call.size("add", call.size("add", shape[at], _size(before)), _size(after))
    return [shape]


def _resize(call: ShapeCall) -> list[Shape | None] | None:
    """By sizes, or by scales that are whole numbers."""
    data = call.shape(0)
    if data is None or call.opset < 11 or call.ints("axes") is not None:
        return None
    if call.has(3):
        sizes = call.elements(3)
        policy = next((each.s for each in call.node.attribute if each.name == "keep_aspect_ratio_policy"), b"stretch")
        return None if sizes is None or policy != b"stretch" else [[_size(size) for size in sizes]]
    scales = call.elements(2)
    if not scales:
        return None
    return [[_scaled(call, size, scale) for size, scale in zip(data, scales, strict=True)]]


def _scaled(call: ShapeCall, size: Size, scale: Element) -> Size:
    if scale == 1:
        return size
    return call.size("multiply", size, int(scale)) if isinstance(scale, int | float) and float(scale).is_integer() else None


def _split(call: ShapeCall) -> list[Shape | None] | None:
    data = call.shape(0)
    if data is None:
        return None
    axis = call.integers.get("axis", 0) % len(data)
    parts = call.bounds("split", 1)
    number = len(call.node.output)
    if parts is None and not call.has(1) and "num_outputs" not in call.integers:
        parts = [call.size("floor_divide", data[axis], number) or Unknown("")] * number
    if parts is None or len(parts) != number:
        parts = [Unknown("")] * number
    return [[_size(part) if at == axis else size for at, size in enumerate(data)] for part in parts]


def _flatten(call: ShapeCall) -> list[Shape | None] | None:
    data = call.shape(0)
    if data is None:
        return [[None, None]]
    axis = call.integers.get("axis", 1)
    return [[_product(call, data[:axis]), _product(call, data[axis:])]]


_ROWS: Mapping[str, Callable[[ShapeCall], list[Shape | None] | None]] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Flatten": _flatten,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Tile": _tile,
}
"""From a call to the shapes of the outputs."""
