"""The sizes of a node's inputs, the bounds of a Slice, and the operator's constraints on sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.export import TO_THE_FRONT
from dmlgather.onnx.problems.node_reading import UnknownValueError, problem_of
from dmlgather.onnx.problems.slice import Slice
from dmlgather.onnx_checking.following.model_nodes import ModelNode, NodeValue
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.sliced_axes import SlicedAxis
from dmlgather.onnx_checking.sizes.unknown_sizes import Named, NodeSizes, named
from dmlgather.onnx_checking.sizes.values import is_known, is_partly, with_numbers

NUMBERS = ("axes", "steps")
"""Inputs of Slice that must be known numbers."""


def shape_of(node: ModelNode, role: str, value: NodeValue) -> Named | None:
    """Return the shape of an input, or None if too little is known. Unnamed sizes get names such as "data[0]"."""
    shape = value.type.shape
    if shape is None or value.type.dtype is None:
        return None
    if node.proto.op_type == "GatherND" and role == "indices" and shape and not isinstance(shape[-1], int):
        return None
    return named(role, shape)


def node_sizes(node: ModelNode, sizes: Sizes) -> NodeSizes:
    """Return a node's sizes, and the operator's rules for them. Raise TypeError or ValueError for an ill-formed node."""
    shapes = {role: shape for role, value in node.arrays.items() if (shape := shape_of(node, role, value)) is not None}
    axes = tuple(_sliced_axes(node, shapes["data"])) if node.proto.op_type == "Slice" and "data" in shapes else ()
    units = _block_units(node, shapes.get("data", ()))
    return NodeSizes(sizes, shapes, axes, tuple(_orders(node, shapes)), units, _least(node, shapes, sizes))


def problem_with(node: ModelNode, shapes: Mapping[str, tuple[int, ...]], number: Callable[[KnownSize], int]) -> Problem:
    """Return the node as a problem with inputs of these shapes. Raise TypeError or ValueError for an ill-formed node."""
    tensors: list[TensorType | None] = []
    bounds: list[NDArray[Any] | None] = []
    typed = shapes.keys() >= node.arrays.keys()  # if an array has no shape, symbols in bounds may have no value
    for role, value in node.roles.items():
        is_array = role in node.arrays
        if is_array and role not in shapes and value.type.kind is not None:
            raise TypeError(f"{role} is a {value.type.kind}, not a tensor")
        is_known_array = role in shapes and value.type.dtype is not None
        tensors.append(TensorType(shapes[role], value.type.dtype) if is_known_array else None)  # type: ignore[arg-type] # it is known
        bounds.append(_numbers(value, number) if typed and not is_array else None)
    return problem_of(node.proto, node.opset, tensors, bounds)


def _numbers(value: NodeValue, number: Callable[[KnownSize], int]) -> NDArray[Any] | None:
    if is_partly(value.elements):
        return with_numbers(value.elements, number, value.type.dtype or np.int64)
    return value.elements if is_known(value.elements) else None


def _sliced_axes(node: ModelNode, data: Named) -> Iterator[SlicedAxis]:
    named_bounds = {role: value.elements.flat for role, value in node.roles.items() if is_partly(value.elements)}
    for role in NUMBERS:
        if role in named_bounds:
            raise UnknownValueError(role, node.roles[role].name, f"{role} is computed from sizes that are not known")
    problem = problem_with(node, {"data": (1,) * len(data)}, lambda size: size if isinstance(size, int) else 0)
    assert isinstance(problem, Slice)
    starts, ends = (named_bounds.get(role, getattr(problem, role)) for role in ("starts", "ends"))
    for axis, start, end, step in zip(problem.axes or (), starts, ends, problem.steps or (), strict=True):
        yield SlicedAxis(data[axis], start, max(TO_THE_FRONT) if step < 0 and end in TO_THE_FRONT else end, step)


def _orders(node: ModelNode, shapes: Mapping[str, Named]) -> Iterator[tuple[KnownSize, KnownSize]]:
    """Yield pairs of sizes: the operator requires that the first is at most the second."""
    if "data" not in shapes or "indices" not in shapes:
        return
    pairs = list(zip(shapes["indices"], shapes["data"], strict=False))
    if node.proto.op_type == "GatherElements":
        axis = node.integers.get("axis", 0)
        yield from (pair for dimension, pair in enumerate(pairs) if dimension not in (axis, axis + len(shapes["data"])))
    elif node.proto.op_type == "GatherND":
        for small, large in pairs[: max(0, node.integers.get("batch_dims", 0))]:
            yield from ((small, large), (large, small))


def _least(node: ModelNode, shapes: Mapping[str, Named], sizes: Sizes) -> dict[KnownSize, int]:
    """Return the minimum of each unknown size for which all constant indices are in range."""
    indices = node.numbers.get("indices")
    if indices is None or not indices.size or "data" not in shapes or "indices" not in shapes:
        return {}
    data = shapes["data"]
    fitting = tuple(indices.shape[axis] if axis < indices.ndim else 1 for axis in range(len(data)))
    problem = problem_with(node, {"data": fitting, "indices": indices.shape}, int)
    least: dict[KnownSize, int] = {}
    for column, axis in enumerate(problem.lookup_axes):
        lookups = indices.reshape(-1, len(problem.lookup_axes))[:, column]
        needed = max(int(lookups.max()) + 1, -int(lookups.min()) if problem.wraps else 1)
        if isinstance(data[axis], str):
            least[data[axis]] = max(needed, least.get(data[axis], 1))
    return {size: needed for size, needed in least.items() if (most := sizes.most(size)) is None or needed <= most}


def _block_units(node: ModelNode, data: Named) -> dict[KnownSize, int]:
    """Return the required divisor of unknown sizes. For example, SpaceToDepth divides height and width by the block size."""
    operator = {problem.name: problem for problem in (DepthToSpace, SpaceToDepth)}.get(node.proto.op_type)
    blocksize = node.integers.get("blocksize", 0)
    units = operator.units(blocksize) if operator and blocksize > 0 else {}
    return {size: unit for axis, unit in units.items() for size in data[axis : axis + 1] if isinstance(size, str)}
