"""Size rules compute output shapes from symbolic sizes; ONNX's shape inference knows only numbers.

Rank rules infer ranks of inputs and outputs from each other. In results, None means unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dmlgather.onnx.problems.partial_types import Size
from dmlgather.onnx_checking.following.element_arithmetic import Element, range_length
from dmlgather.onnx_checking.following.operator_entries import KnownNode, RankRule, Ranks, Shape, size_of
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.values import Unknown

if TYPE_CHECKING:
    from onnx import NodeProto

TO_THE_END = 2**31 - 1
"""A slice bound of at least this value means the end of every axis."""


def _product(call: KnownNode, sizes: Sequence[Size]) -> Size:
    return _folded(call, "multiply", [1, *sizes])


def reshape(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Reshape. A requested size of 0 keeps the input's size; -1 follows from the other sizes."""
    target = call.bounds("shape", 1)
    if target is None:
        return None
    data = call.shape(0)
    copies = not call.integers.get("allowzero", 0)
    shape: list[Size] = []
    for position, element in enumerate(target):
        if copies and element == 0:
            shape.append(None if data is None else data[position])
        else:
            shape.append(-1 if element == -1 else None if _negative(call, element) is not False else size_of(element))
    if -1 in shape:
        position = shape.index(-1)
        others = [size for other, size in enumerate(shape) if other != position]
        shape[position] = None if data is None else _quotient(call, data, others)
    return [shape]


def _negative(call: KnownNode, element: Element) -> bool | None:
    """Return True if an element is always negative, False if it never is, otherwise None. -N may be negative or 0."""
    answer = call.arithmetic().compare(element, "<", 0)
    return None if isinstance(answer, Unknown) else answer


def _quotient(call: KnownNode, data: Shape, others: Shape) -> Size:
    """Divide the product of `data` by the product of `others`. Equal sizes cancel, even symbolic ones."""
    left, right = list(data), []
    for size in others:
        if size not in (None, 0) and size in left:
            left.remove(size)
        else:
            right.append(size)
    if len(left) == 1 and not right:
        return left[0]
    return call.size("floor_divide", _product(call, left), _product(call, right))


def expand(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Expand."""
    target, data = call.elements(1), call.sizes(0)
    if target is None:
        return None
    pairs = zip_longest(reversed(data), reversed(target), fillvalue=1)
    return [[_broadcast(size, size_of(element)) for size, element in pairs][::-1]]


def _broadcast(left: Size, right: Size) -> Size:
    if right in (left, 1):
        return left
    if left == 1:
        return right
    return next((size for size in (left, right) if isinstance(size, int) and size > 1), None)


def broadcast(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape after NumPy's broadcasting. Before version 7, operators had other rules."""
    shapes = [call.shape(index) for index in range(len(call.node.input)) if call.has(index)]
    known_shapes = [shape for shape in shapes if shape is not None]
    if call.opset < 7 or len(known_shapes) < len(shapes) or not known_shapes:
        return None
    shape: list[Size] = []
    for sizes in zip_longest(*map(reversed, known_shapes), fillvalue=1):
        if len({size for size in sizes if isinstance(size, int)} - {1}) > 1:
            raise ValueError(f"sizes {sizes}")
        shape.append(reduce(_broadcast, sizes))
    return [shape[::-1]]


def constant_of_shape(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of ConstantOfShape."""
    target = call.elements(0)
    return None if target is None else [[size_of(element) for element in target]]


def sliced(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Slice."""
    data, starts, ends = call.sizes(0), call.bounds("starts", 1), call.bounds("ends", 2)
    if starts is None or ends is None:
        return [[None] * len(data)]
    axes = call.bounds("axes", 3) or list(range(len(starts)))
    steps = call.elements(4) if call.has(4) else [1] * len(starts)
    if not all(isinstance(axis, int) for axis in axes) or steps is None:
        return [[None] * len(data)]
    shape = list(data)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        shape[int(axis)] = _window(call, data[int(axis)], start, end, step)  # type: ignore[arg-type] # it is an integer
    return [shape]


def _window(call: KnownNode, size: Size, start: Element, end: Element, step: Element) -> Size:
    """Return the number of elements that a slice takes along an axis. A negative step reverses the axis first."""
    if size is None or not isinstance(step, int) or not step:
        return None
    if step < 0:
        start, end = (~bound if isinstance(bound, int) else call.arithmetic()("subtract", -1, bound) for bound in (start, end))
    taken = _between(call, size, start, end, backwards=step < 0)
    return taken if abs(step) == 1 else call.size("floor_divide", call.size("add", taken, abs(step) - 1), abs(step))


def _between(call: KnownNode, size: int | str, start: Element, end: Element, backwards: bool) -> Size:
    """Count the elements from `start` to `end`. `backwards`: True to clamp a start behind the axis to the last element."""
    if _sign_outside(end) < 0 or (_sign_outside(start) > 0 and not backwards):
        return 0
    first, last = _position(call, size, 0 if _sign_outside(start) < 0 else start), _position(call, size, end)
    # A clamped end is min(a, b), and a clamped start is max(c, d). Their difference is min(a - c, a - d, b - c, b - d).
    starts = [first.size] if first.counts_back is False else [0, first.size]
    ends = [last.size] if last.counts_back else [size, last.size]
    distances = [_folded(call, "minimum", [call.size("subtract", upper, lower) for lower in starts]) for upper in ends]
    clamped = backwards and first.size != 0 and not first.counts_back
    if clamped:
        from_last = [call.size("subtract", upper, call.size("subtract", size, 1)) for upper in ends]
        distances = [call.size("maximum", *pair) for pair in zip(distances, from_last, strict=True)]
    taken = call.size("maximum", _folded(call, "minimum", distances), 0)
    needs_elements = clamped or (first.of_elements and not first.counts_back) or (last.of_elements and last.counts_back)
    return call.size("minimum", taken, size) if needs_elements else taken


class _Position(NamedTuple):
    """A start or end of a slice, counted from the front.
    `counts_back`: True if the bound counts from the end; None if that depends on sizes.
    `of_elements`: True if `counts_back` is right only for an axis that has elements.
    """

    size: Size
    counts_back: bool | None = False
    of_elements: bool = False


def _position(call: KnownNode, size: int | str, bound: Element) -> _Position:
    if _sign_outside(bound):
        return _Position(size)
    sizes, counts_back, of_elements = call.names.sizes, _negative(call, bound), False
    if counts_back is None and isinstance(bound, str):
        nonempty = Conditions(sizes)
        nonempty.require((size,), (), 1)
        not_negative = nonempty.holds((bound,), ())
        of_elements, counts_back = not_negative is not None, None if not_negative is None else not not_negative
    if counts_back is not None:
        return _Position(call.size("add", size, bound) if counts_back else size_of(bound), counts_back, of_elements)
    if not isinstance(bound, str) or len(sizes.symbols(size) | sizes.symbols(bound)) > 1:
        return _Position(None, None)  # a new symbol is simpler than an expression of several symbols
    is_negative = call.size("minimum", 1, call.size("maximum", 0, call.size("negate", bound)))
    return _Position(call.size("add", bound, call.size("multiply", size, is_negative)), None)


def _sign_outside(bound: Element) -> int:
    """Return 1 for a bound too large for any axis, -1 for a bound too small for any axis, otherwise 0."""
    return 0 if not isinstance(bound, int) or -TO_THE_END < bound < TO_THE_END else 1 if bound > 0 else -1


def _folded(call: KnownNode, operation: str, sizes: Sequence[Size]) -> Size:
    return reduce(partial(call.size, operation), sizes)


def concat(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Concat. Sizes along the axis add up."""
    shapes = [call.shape(index) for index in range(len(call.node.input))]
    known_shapes = [shape for shape in shapes if shape is not None]
    if not known_shapes:
        return None
    rank = len(known_shapes[0])
    axis = call.integers.get("axis", 1) % rank
    columns = ([input_shape[dimension] for input_shape in known_shapes] for dimension in range(rank))
    shape = [next((size for size in sizes if isinstance(size, int)), sizes[0]) for sizes in columns]
    shape[axis] = _folded(call, "add", [0, *(None if input_shape is None else input_shape[axis] for input_shape in shapes)])
    return [shape]


def tile(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Tile: each size times its repeats."""
    data, repeats = call.sizes(0), call.elements(1)
    if repeats is None:
        return None
    return [[call.size("multiply", size, size_of(times)) for size, times in zip(data, repeats, strict=True)]]


def range_shape(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Range."""
    bounds = (value.item(0) if isinstance(value, np.ndarray) else Unknown("") for value in call.values)
    return [[range_length(call.arithmetic(), *bounds)]]


def pad(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Pad."""
    data, pads = call.sizes(0), call.bounds("pads", 1)
    if pads is None:
        return None
    axes = call.elements(3) if call.has(3) else list(range(len(data)))
    if axes is None or not all(isinstance(axis, int) for axis in axes):
        return [[None] * len(data)]
    shape = list(data)
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        dimension = int(axis)  # type: ignore[arg-type] # it is an integer
        shape[dimension] = call.size("add", call.size("add", shape[dimension], size_of(before)), size_of(after))
    return [shape]


def resize(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Resize. Scales that are no integers give unknown sizes."""
    data = call.sizes(0)
    if call.opset < 11 or call.ints("axes") is not None:
        return None
    if call.has(3):
        sizes = call.elements(3)
        policy = next((each.s for each in call.node.attribute if each.name == "keep_aspect_ratio_policy"), b"stretch")
        return None if sizes is None or policy != b"stretch" else [[size_of(size) for size in sizes]]
    scales = call.elements(2)
    if not scales:
        return None
    return [[_scaled(call, size, scale) for size, scale in zip(data, scales, strict=True)]]


def _scaled(call: KnownNode, size: Size, scale: Element) -> Size:
    if scale == 1:
        return size
    return call.size("multiply", size, int(scale)) if isinstance(scale, int | float) and float(scale).is_integer() else None


def top_k(call: KnownNode) -> list[Shape | None] | None:
    """Compute the shape of TopK's values. ONNX infers the type of the indices."""
    data, count = call.shape(0), call.elements(1) if call.has(1) else [call.integers.get("k", Unknown(""))]
    if data is None:
        return None
    axis = call.integers.get("axis", -1) % len(data)
    shape = list(data)
    shape[axis] = size_of(count[0]) if count else None
    return [shape, None]


def split(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shapes of Split."""
    data = call.sizes(0)
    axis = call.integers.get("axis", 0) % len(data)
    parts = call.bounds("split", 1)
    count = len(call.node.output)
    if parts is None and not call.has(1) and "num_outputs" not in call.integers:
        parts = [call.size("floor_divide", data[axis], count) or Unknown("")] * count
    if parts is None or len(parts) != count:
        parts = [Unknown("")] * count
    return [[size_of(part) if dimension == axis else size for dimension, size in enumerate(data)] for part in parts]


def flatten(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shape of Flatten: the products of the sizes before the axis, and from it on."""
    data = call.shape(0)
    if data is None:
        return [[None, None]]
    axis = call.integers.get("axis", 1)
    return [[_product(call, data[:axis]), _product(call, data[axis:])]]


# Rank rules also infer the ranks of inputs. For example, the data of a convolution have the rank of its weights.


def same_rank(inputs: int | None = 1, outputs: int | None = 1) -> RankRule:
    """Return a rank rule: the first inputs and the first outputs all have the same rank.
    `inputs`, `outputs`: the number of these inputs and outputs. None means all.
    """

    def rule(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
        names = [*node.input[:inputs], *node.output[:outputs]]
        common = next((number for name in names if (number := rank(name)) is not None), None)
        if common is not None:
            yield from ((name, common) for name in names)

    return rule


def kernel_rank(index: int) -> RankRule:
    """Return a rank rule: data and output have the rank of the kernel, which is input `index`."""

    def rule(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
        known = rank(node.input[index]) if len(node.input) > index else None
        if known is not None:
            yield from ((node.input[0], known), (_output(node), known))

    return rule


def broadcast_rank(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
    """Infer ranks for two broadcast inputs. If one has a smaller rank than the output, the other has the output's rank."""
    if len(node.input) != 2:
        return
    (left, right), output = node.input, _output(node)
    ranks, result = (rank(left), rank(right)), rank(output)
    if None not in ranks:
        yield output, max(number for number in ranks if number is not None)
    for name, other in ((left, ranks[1]), (right, ranks[0])):
        if result is not None and other is not None and other < result:
            yield name, result


def transposed_rank(node: NodeProto, rank: Ranks) -> Iterator[tuple[str, int]]:
    """Infer ranks for Transpose. All ranks are equal; `perm`, if it is given, has one entry per dimension."""
    permutation = next((attribute.ints for attribute in node.attribute if attribute.name == "perm"), None)
    if permutation is None:
        yield from same_rank()(node, rank)
    else:
        yield from ((name, len(permutation)) for name in (node.input[0], _output(node)))


def fixed_ranks(*outputs: int, inputs: Sequence[int] = ()) -> RankRule:
    """Return a rank rule with fixed ranks: output i has rank outputs[i], and input i has rank inputs[i]."""
    return lambda node, _: chain(zip(node.input, inputs, strict=False), zip(node.output, outputs, strict=False))


def _output(node: NodeProto) -> str:
    return next(iter(node.output), "")
