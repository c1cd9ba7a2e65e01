"""The output sizes that the DirectML provider computes, and how it treats the bounds of a Slice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dmlgather.directml.shapes import depth_sizes, space_sizes
from dmlgather.onnx.problems.node_reading import ARRAYS
from dmlgather.onnx.problems.operator_versions import BOUNDS
from dmlgather.onnx.problems.partial_types import PartialType, Size
from dmlgather.onnx_checking.following.model_nodes import ModelNode
from dmlgather.onnx_checking.sizes.conditions import Conditions
from dmlgather.onnx_checking.sizes.expressions import KnownSize
from dmlgather.onnx_checking.sizes.values import Unknown

LOWEST, HIGHEST = -(2**31), 2**31 - 1
"""The provider clamps starts, ends and steps of a Slice to int32."""

Shape = tuple[Size, ...]
Bound = int | str


class SlicedBounds(NamedTuple):
    """The bounds of a Slice along one axis: numbers, or expressions of unknown sizes."""

    axis: int
    start: Bound
    end: Bound
    step: Bound


def sliced(node: ModelNode, rank: int) -> list[SlicedBounds] | None:
    """Return the bounds of a Slice by axis. None if starts, ends, axes or steps are unknown or differ in length."""
    bounds: dict[str, tuple[Bound, ...]] = {}
    bounds |= {each.name: tuple(each.ints) for each in node.proto.attribute if each.name in BOUNDS and not each.ref_attr_name}
    bound_inputs = {role: value.elements for role, value in node.roles.items() if role in BOUNDS and value.name}
    for role, elements in bound_inputs.items():
        if isinstance(elements, Unknown):
            return None
        bounds[role] = tuple(each if isinstance(each, str) else int(each) for each in elements.flat)
    if not {"starts", "ends"} <= bounds.keys():
        return None
    starts, ends = bounds["starts"], bounds["ends"]
    axes = bounds.get("axes") or tuple(range(len(starts)))
    steps = bounds.get("steps") or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    numbers = [axis + rank if axis < 0 else axis for axis in axes if isinstance(axis, int)]
    if len(numbers) < len(axes) or not all(0 <= axis < rank for axis in numbers):
        return None
    return [SlicedBounds(*each) for each in zip(numbers, starts, ends, steps, strict=True)]


class SliceWindow(NamedTuple):
    """The elements that the provider reads along one axis: `window` elements from `offset` on, which give `size` outputs."""

    offset: int
    window: int
    size: int


def window(size: int, start: int, end: int, step: int) -> SliceWindow:
    """Compute what the provider reads along an axis of `size` elements. Source: `SOURCES["ORT-HELPER"]`, SliceHelper."""
    start, end, step = (min(max(each, LOWEST), HIGHEST) for each in (start, end, step))
    first = start + size if LOWEST < start < 0 else start
    behind = end + size if end < 0 and start > LOWEST else end  # the provider tests the start here too
    if step < 0:
        first, behind = (each + (each < HIGHEST) for each in (behind, first))
    first, behind = max(first, 0), min(behind, size)
    length = max(behind - first, 0)
    return SliceWindow(first, length, -(-length // abs(step)))


def lost_elements(has_elements: Conditions, size: KnownSize, bounds: SlicedBounds) -> Conditions:
    """Return the conditions under which ONNX takes elements along an axis, but the provider takes none.
    `has_elements`: the condition that the axis is not empty.
    """
    lost, start, end = has_elements.joined(), bounds.start, bounds.end
    if isinstance(bounds.step, int) and bounds.step < 0:  # both bounds lie before the axis
        lost.require((), (size, start), 1)
        lost.require((), (size, end), 1)
    elif isinstance(start, int) and start <= LOWEST:  # with such a start, the provider does not add `size` to a negative end
        lost.require((), (end,), 1)
        lost.require((size, end), (), 1)
    else:
        lost.never = True
    return lost


def output_sizes(node: ModelNode) -> Shape | None:
    """Return the output shape that the provider computes, or None."""
    shapes = [value.type.shape for value in node.arrays.values()]
    missing = len(shapes) < len(ARRAYS[node.proto.op_type]) or None in shapes
    return None if missing else _SIZES[node.proto.op_type](node, *shapes)


def _gather(node: ModelNode, data: Shape, indices: Shape) -> Shape | None:
    axis = _axis(node, data)
    return None if axis is None else data[:axis] + indices + data[axis + 1 :]


def _axis(node: ModelNode, data: Shape) -> int | None:
    axis = node.integers.get("axis", 0)
    axis += len(data) if axis < 0 else 0
    return axis if 0 <= axis < len(data) else None


def _gather_elements(_: ModelNode, __: Shape, indices: Shape) -> Shape | None:
    return indices


def _gather_nd(node: ModelNode, data: Shape, indices: Shape) -> Shape | None:
    batch, length = node.integers.get("batch_dims", 0), indices[-1] if indices else None
    if not isinstance(length, int) or not 0 <= batch < min(len(data), len(indices)) or batch + length > len(data):
        return None
    return data[:batch] + indices[batch:-1] + data[batch + length :]


def _slice(node: ModelNode, data: Shape) -> Shape | None:
    axes = sliced(node, len(data))
    shape: list[Size] = list(data) if axes is not None else [None] * len(data)
    inferred = node.outputs[0].type.shape if node.outputs else None
    for axis, start, end, step in axes or ():
        size = data[axis]
        numbers = isinstance(size, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int) and step
        if numbers:
            shape[axis] = window(size, start, end, step).size  # type: ignore[arg-type] # they are numbers
        else:  # an expression such as "N - 1"
            shape[axis] = inferred[axis] if inferred is not None and isinstance(inferred[axis], str) else None
    return tuple(shape)


def _blocks(sizes: Callable[[tuple[int, ...], int], tuple[int, ...]]) -> Callable[[ModelNode, Shape], Shape | None]:
    def computed(node: ModelNode, data: Shape) -> Shape | None:
        numbers, block = PartialType(shape=data).numbers, node.integers.get("blocksize", 0)
        return sizes(numbers, block) if numbers is not None and len(numbers) == 4 and block > 0 else None

    return computed


_SIZES: Mapping[str, Callable[..., Shape | None]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "DepthToSpace": _blocks(space_sizes),
    "SpaceToDepth": _blocks(depth_sizes),
}
