"""Layers as steps of an `IndexGraph`: those of the family, views, what joins and cuts tensors, and arithmetic on integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.problem import check_axes
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.openvino.model.layer_reading import attributes_of, ports_of, version_of
from dmlgather.openvino.model.translated_layer import TranslatedLayer
from dmlgather.openvino.problems.data_types import TYPES
from dmlgather.openvino.problems.layer_problems import FAMILY, problem_of
from dmlgather.wording import counted

Row = Callable[[TranslatedLayer], tuple[str, ...] | None]
"""Adds the steps of a layer: the values that its outputs are, or None for what is another operator."""


def steps_of(call: TranslatedLayer) -> tuple[str, ...] | None:
    """Add the steps of a layer to its graph: the names of the values that its outputs are; None, with nothing added, for a layer
    of another operator, and where what decides the shape of its result is not known.

    Raises TypeError and ValueError for a layer that breaks a rule of its operator.
    """
    if not call.layer.opset.lower().startswith("opset"):  # an extension's operator
        return None
    row = _family if call.layer.type in FAMILY else _ROWS.get(call.layer.type)
    return None if row is None else row(call)


def _family(call: TranslatedLayer) -> tuple[str, ...] | None:
    version = version_of(call.layer)
    roles = dict(zip(ports_of(call.layer, version)[0], range(len(call.inputs)), strict=True))
    bounds = {role: call.known(number) for role, number in roles.items() if role in version.bounds}
    if any(value is None for value in bounds.values()):
        return None
    types = {role: call.types[roles[role]] for role in version.arrays}
    problem = problem_of(version, types, bounds, attributes_of(call.layer, version))
    inputs = [call.inputs[roles[role]] for role in version.arrays]
    return (call.graph.problem(call.name, problem, *inputs, output=call.output),)


def _reshaped(call: TranslatedLayer, shape: Sequence[int]) -> tuple[str, ...]:
    return (call.graph.reshaped(call.name, call.data, shape, output=call.output),)


def _reshape(call: TranslatedLayer) -> tuple[str, ...] | None:
    sizes = call.numbers(1)
    if sizes is None:
        return None
    own = call.tensor.shape
    if call.flag("special_zero", False):
        sizes = [own[at] if size == 0 and at < len(own) else size for at, size in enumerate(sizes)]
    if sizes.count(-1) == 1:
        others = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = prod(own) // others if others else 0
    return _reshaped(call, sizes)


def _squeeze(call: TranslatedLayer) -> tuple[str, ...] | None:
    """Without axes, every size of 1 goes. Where an axis is named that has another size, what happens depends on the version."""
    own = call.tensor.shape
    if len(call.inputs) == 1:
        return _reshaped(call, [size for size in own if size != 1])
    axes = call.numbers(1)
    if not axes:
        return None
    dropped = check_axes("axes", axes, len(own), "data")
    if any(own[axis] != 1 for axis in dropped):
        return None
    return _reshaped(call, [size for axis, size in enumerate(own) if axis not in dropped])


def _unsqueeze(call: TranslatedLayer) -> tuple[str, ...] | None:
    axes = call.numbers(1)
    if axes is None:
        return None
    rank = call.tensor.rank + len(axes)
    new, sizes = check_axes("axes", axes, rank, "the result"), iter(call.tensor.shape)
    return _reshaped(call, [1 if axis in new else next(sizes) for axis in range(rank)])


def _transpose(call: TranslatedLayer) -> tuple[str, ...] | None:
    order = call.numbers(1)
    if order is None:
        return None
    return (call.graph.transposed(call.name, call.data, order or range(call.tensor.rank)[::-1], output=call.output),)


def _broadcast(call: TranslatedLayer) -> tuple[str, ...] | None:
    sizes, own, value = call.numbers(1), call.tensor.shape, call.data
    mode = call.text("mode", "numpy")
    if sizes is None or mode not in ("numpy", "bidirectional", "explicit", "none"):
        return None
    if mode in ("explicit", "none"):
        places = call.numbers(2)
        ordered = places is not None and sorted(set(places)) == places and len(places) == len(own)
        if places is None or not ordered or not all(0 <= at < len(sizes) for at in places):
            return None
        aligned = dict(zip(places, own, strict=True))
        value = call.graph.reshaped(f"{call.name}: aligned", value, [aligned.get(axis, 1) for axis in range(len(sizes))])
    elif mode == "bidirectional":
        sizes = list(np.broadcast_shapes(own, tuple(sizes)))
    return (call.graph.expanded(call.name, value, sizes, output=call.output),)


def _concat(call: TranslatedLayer) -> tuple[str, ...]:
    axis, first = call.axis(call.integer("axis")), call.tensor
    for number, other in enumerate(call.types):
        sizes = [(*tensor.shape[:axis], *tensor.shape[axis + 1 :]) for tensor in (other, first)]
        if other.rank != first.rank or other.dtype != first.dtype or sizes[0] != sizes[1]:
            raise ValueError(
                f"input {number} is {other} and input 0 is {first}: expected one type, and equal sizes off axis {axis}"
            )
    return (call.graph.concatenated(call.name, call.inputs, axis, output=call.output),)


def _split(call: TranslatedLayer) -> tuple[str, ...] | None:
    axes = call.numbers(1)
    if axes is None:
        return None
    axis, parts = call.axis(*axes), call.integer("num_splits")
    size = call.tensor.shape[axis]
    if parts != len(call.outputs) or parts < 1 or size % parts:
        raise ValueError(
            f"num_splits is {parts} for {counted(len(call.outputs), 'output')}, but data has size {size} along axis {axis}"
        )
    return _parts(call, axis, [size // parts] * parts)


def _variadic_split(call: TranslatedLayer) -> tuple[str, ...] | None:
    axes, lengths = call.numbers(1), call.numbers(2)
    if axes is None or lengths is None:
        return None
    axis = call.axis(*axes)
    size = call.tensor.shape[axis]
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = size - sum(length for length in lengths if length != -1)
    if len(lengths) != len(call.outputs) or min(lengths) < 0 or sum(lengths) != size:
        raise ValueError(
            f"split_lengths is {lengths} for {len(call.outputs)} outputs, but data has size {size} along axis {axis}"
        )
    return _parts(call, axis, lengths)


def _parts(call: TranslatedLayer, axis: int, lengths: Sequence[int]) -> tuple[str, ...]:
    """Parts of the first input one after the other along an axis."""
    found, start = [], 0
    for name, length in zip(call.outputs, lengths, strict=True):
        windows = [Window.whole(size) for size in call.tensor.shape]
        windows[axis] = Window(start, length, 1)
        start += length
        found.append(call.graph.problem(f"{call.name}: {name!r}", SliceView(call.tensor, tuple(windows)), call.data, output=name))
    return tuple(found)


def _blocks(call: TranslatedLayer) -> tuple[str, ...] | None:
    """DepthToSpace and SpaceToDepth, of any number of spatial dimensions: a reshape, a transpose and a reshape."""
    size, shape = call.integer("block_size"), call.tensor.shape
    spatial, mode = len(shape) - 2, call.text("mode")
    if spatial < 1 or size < 1 or mode not in ("blocks_first", "depth_first"):
        return None
    first, rows = mode == "blocks_first", range(spatial)
    if call.layer.type == "DepthToSpace":
        channels, spread = shape[1] // size**spatial, [size] * spatial
        split = [shape[0], *(spread if first else [channels]), *([channels] if first else spread), *shape[2:]]
        block, depth, at = (1, 1 + spatial, 2 + spatial) if first else (2, 1, 2 + spatial)
        order = [0, depth, *(each for row in rows for each in (at + row, block + row))]
        result = [shape[0], channels, *(each * size for each in shape[2:])]
    else:
        split = [*shape[:2], *(each for whole in shape[2:] for each in (whole // size, size))]
        outer, inner = [2 + 2 * row for row in rows], [3 + 2 * row for row in rows]
        order = [0, *([*inner, 1] if first else [1, *inner]), *outer]
        result = [shape[0], shape[1] * size**spatial, *(each // size for each in shape[2:])]
    graph = call.graph
    apart = graph.reshaped(f"{call.name}: blocks apart", call.data, split)
    turned = graph.transposed(f"{call.name}: blocks in place", apart, order)
    return (graph.reshaped(call.name, turned, result, output=call.output),)


def _convert(call: TranslatedLayer) -> tuple[str, ...] | None:
    return _as_type(call, call.text("destination_type"))


def _convert_like(call: TranslatedLayer) -> tuple[str, ...] | None:
    return _as_type(call, TYPES.name_of(call.graph.types[call.input(1)].dtype))


def _as_type(call: TranslatedLayer, name: str) -> tuple[str, ...] | None:
    if name not in TYPES.names:
        return None
    dtype = TYPES.dtype_of(name)
    if dtype == call.tensor.dtype:
        return (call.data,)
    if dtype.kind not in "biu" or call.tensor.dtype.kind not in "biu":
        return None
    return (call.graph.elementwise(call.name, "cast", dtype, call.data, output=call.output),)


def _elementwise(operator: str, dtype: Any = None) -> Row:
    """The operator of NumPy on inputs that are integers or bools. dtype: of the output; None for that of the inputs."""

    def row(call: TranslatedLayer) -> tuple[str, ...] | None:
        if not call.integers or not call.broadcasts:
            return None
        return (call.graph.elementwise(call.name, operator, dtype or call.tensor.dtype, *call.inputs, output=call.output),)

    return row


def _floor_mod(call: TranslatedLayer) -> tuple[str, ...] | None:
    """NumPy's remainder; what OpenVINO gives for a divisor of 0 is not stated, so the divisor has to be known."""
    divisor = call.known(1) if len(call.inputs) == 2 else True  # the row refuses other numbers of inputs
    return None if divisor is None or not np.all(divisor) else _elementwise("remainder")(call)


def _select(call: TranslatedLayer) -> tuple[str, ...] | None:
    if not call.broadcasts or len(call.inputs) != 3:
        return None
    dtype = call.types[1].dtype
    return (call.graph.elementwise(call.name, "where", dtype, *call.inputs, output=call.output),)


def _same(call: TranslatedLayer) -> tuple[str, ...]:
    return (call.data,)


_ROWS: Mapping[str, Row] = {
    "Add": _elementwise("add"),
    "Broadcast": _broadcast,
    "Concat": _concat,
    "Convert": _convert,
    "ConvertLike": _convert_like,
    "DepthToSpace": _blocks,
    "Equal": _elementwise("equal", bool),
    "FloorMod": _floor_mod,
    "Greater": _elementwise("greater", bool),
    "GreaterEqual": _elementwise("greater_equal", bool),
    "Identity": _same,
    "Less": _elementwise("less", bool),
    "LessEqual": _elementwise("less_equal", bool),
    "LogicalAnd": _elementwise("and", bool),
    "LogicalNot": _elementwise("not", bool),
    "LogicalOr": _elementwise("or", bool),
    "LogicalXor": _elementwise("not_equal", bool),
    "Maximum": _elementwise("maximum"),
    "Minimum": _elementwise("minimum"),
    "Multiply": _elementwise("multiply"),
    "Negative": _elementwise("negative"),
    "NotEqual": _elementwise("not_equal", bool),
    "Reshape": _reshape,
    "Select": _select,
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Squeeze": _squeeze,
    "Subtract": _elementwise("subtract"),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "VariadicSplit": _variadic_split,
}
"""By the layer's type."""
