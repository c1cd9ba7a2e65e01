"""The sizes that onnxruntime's DirectML provider computes for the output of a node, and what it makes of a slice's bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dmlgather.directml.shapes import depth_sizes, space_sizes
from dmlgather.onnx.problems.node_reading import ARRAYS
from dmlgather.onnx.problems.operator_versions import BOUNDS
from dmlgather.onnx.problems.partial_types import PartialType, Size
from dmlgather.onnx_checking.following.model_nodes import ModelNode
from dmlgather.onnx_checking.sizes.values import Unknown

LOWEST, HIGHEST = -(2**31), 2**31 - 1
"""The bounds of a slice are clamped to these."""

Shape = tuple[Size, ...]
Bound = int | str


class SlicedBounds(NamedTuple):
    """What a Slice does along one axis of data. Bounds that are computed from sizes are names."""

    axis: int
    start: Bound
    end: Bound
    step: Bound


def sliced(site: ModelNode, rank: int) -> list[SlicedBounds] | None:
    """The axes that a Slice has bounds for; None where not all of them are known, or they do not fit together."""
    known: dict[str, tuple[Bound, ...]] = {}
    known |= {each.name: tuple(each.ints) for each in site.node.attribute if each.name in BOUNDS and not each.ref_attr_name}
    stated = {role: value.elements for role, value in site.roles.items() if role in BOUNDS and value.name}
    for role, elements in stated.items():
        if isinstance(elements, Unknown):
            return None
        known[role] = tuple(each if isinstance(each, str) else int(each) for each in elements.flat)
    if not {"starts", "ends"} <= known.keys():
        return None
    starts, ends = known["starts"], known["ends"]
    axes = known.get("axes") or tuple(range(len(starts)))
    steps = known.get("steps") or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    numbers = [axis + rank if axis < 0 else axis for axis in axes if isinstance(axis, int)]
    if len(numbers) < len(axes) or not all(0 <= axis < rank for axis in numbers):
        return None
    return [SlicedBounds(*each) for each in zip(numbers, starts, ends, steps, strict=True)]


class SliceWindow(NamedTuple):
    """What the provider makes of the bounds along an axis: offset and size of the window in data, and the size of the output."""

    offset: int
    window: int
    size: int


def window(size: int, start: int, end: int, step: int) -> SliceWindow:
    """The window of a slice along an axis of that size. Source: `SOURCES["ORT-HELPER"]`, SliceHelper."""
    start, end, step = (min(max(each, LOWEST), HIGHEST) for each in (start, end, step))
    first = start + size if LOWEST < start < 0 else start
    behind = end + size if end < 0 and start > LOWEST else end  # the provider looks at the start here as well
    if step < 0:
        first, behind = (each + (each < HIGHEST) for each in (behind, first))
    first, behind = max(first, 0), min(behind, size)
    length = max(behind - first, 0)
    return SliceWindow(first, length, -(-length // abs(step)))


def output_sizes(site: ModelNode) -> Shape | None:
    """The sizes that the provider computes for a node's output, as far as they follow; None where the rank does not."""
    shapes = [value.type.shape for value in site.arrays.values()]
    missing = len(shapes) < len(ARRAYS[site.node.op_type]) or None in shapes
    return None if missing else _SIZES[site.node.op_type](site, *shapes)


def _gather(site: ModelNode, data: Shape, indices: Shape) -> Shape | None:
    axis = _axis(site, data)
    return None if axis is None else data[:axis] + indices + data[axis + 1 :]


def _axis(site: ModelNode, data: Shape) -> int | None:
    axis = site.integers.get("axis", 0)
    axis += len(data) if axis < 0 else 0
    return axis if 0 <= axis < len(data) else None


def _gather_elements(_: ModelNode, __: Shape, indices: Shape) -> Shape | None:
    return indices


def _gather_nd(site: ModelNode, data: Shape, indices: Shape) -> Shape | None:
    batch, length = site.integers.get("batch_dims", 0), indices[-1] if indices else None
    if not isinstance(length, int) or not 0 <= batch < min(len(data), len(indices)) or batch + length > len(data):
        return None
    return data[:batch] + indices[batch:-1] + data[batch + length :]


def _slice(site: ModelNode, data: Shape) -> Shape | None:
    axes = sliced(site, len(data))
    found: list[Size] = list(data) if axes is not None else [None] * len(data)
    for axis, start, end, step in axes or ():
        size = data[axis]
        numbers = isinstance(size, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int) and step
        found[axis] = window(size, start, end, step).size if numbers else None  # type: ignore[arg-type] # they are numbers
    return tuple(found)


def _blocks(sizes: Callable[[tuple[int, ...], int], tuple[int, ...]]) -> Callable[[ModelNode, Shape], Shape | None]:
    def computed(site: ModelNode, data: Shape) -> Shape | None:
        numbers, block = PartialType(shape=data).numbers, site.integers.get("blocksize", 0)
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
