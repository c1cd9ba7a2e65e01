"""From the nodes that index to their problems, by the rules of `dg.torch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing, Entry, Mask
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.plan import reach
from dmlgather.torch.problems import views, windows
from dmlgather.torch.problems.arguments import dim_of
from dmlgather.torch.problems.gathers import (
    INDEX_TYPES,
    TorchEmbedding,
    TorchGather,
    TorchIndexSelect,
    TorchTake,
    TorchTakeAlongDim,
    index,
)
from dmlgather.torch.problems.views import PixelShuffle, PixelUnshuffle
from dmlgather.torch.tracing.node_calls import NodeCall, Value

Steps = Callable[[NodeCall], tuple[str, ...] | None]
"""Adds the steps of a call and returns the values that it gives; None where it has no such steps."""


def _one(problem: Callable[[NodeCall], Problem], *inputs: str) -> Steps:
    """A call that is one problem of these tensors."""

    def steps(call: NodeCall) -> tuple[str, ...]:
        return (call.problem(call.name, problem(call), *map(call.value, inputs)),)

    return steps


def _view(problem: Callable[..., Problem], *arguments: str) -> Steps:
    """A view of `self` with these arguments, which the problem takes in this order."""
    return _one(lambda call: problem(call.type(), *(call[name] for name in arguments)), "self")


def _parts(problems: Callable[..., Sequence[Problem]], *arguments: str) -> Steps:
    """Several views of `self`."""

    def steps(call: NodeCall) -> tuple[str, ...]:
        found = problems(call.type(), *(call[name] for name in arguments))
        return tuple(call.problem(call.part(f"part {number}"), part, call.value()) for number, part in enumerate(found))

    return steps


def _select(call: NodeCall) -> tuple[str, ...]:
    """Element `index` of a dimension. Where the index is read from a tensor, PyTorch checks it also without an output."""
    graph, data, given = call.graph, call.type(), call["index"]
    if not isinstance(given, Value):
        return (call.problem(call.name, windows.select(data, call["dim"], given), call.value()),)
    index, dtype = graph.reshaped(call.part("index"), given.name, ()), np.dtype(np.int64)
    if graph.types[index].dtype.name not in INDEX_TYPES:
        index = graph.elementwise(call.part("as int64"), "cast", dtype, index)
    axis = dim_of("dim", call["dim"], data.rank)
    kept = tuple(each for each in range(data.rank) if each != axis)
    taken = tuple(map(Window.whole, data.shape))
    return (call.problem(call.name, AdvancedIndexing(data, graph.types[index], taken, (axis,), kept, axis), call.value(), index),)


def _unbind(data: TensorType, dim: int) -> list[BasicIndexing]:
    size = data.shape[dim] if data.rank else 0
    return [windows.select(data, dim, position) for position in range(size)]


def _diagonal(call: NodeCall) -> Problem:
    return views.diagonal(call.type(), call["offset"], call["dim1"], call["dim2"])


def _transposed(data: TensorType) -> Problem:
    return views.transpose(data, 0, 1) if data.rank == 2 else views.permute(data, tuple(range(data.rank)))


def _moved(data: TensorType, source: Sequence[int], destination: Sequence[int]) -> Problem:
    places = {place % data.rank: axis % data.rank for axis, place in zip(source, destination, strict=True)}
    left = (axis for axis in range(data.rank) if axis not in places.values())
    return views.permute(data, tuple(places[place] if place in places else next(left) for place in range(data.rank)))


def _as_strided(call: NodeCall) -> tuple[str, ...]:
    """Elements of the memory of `self`, all of which belong to it."""
    data = call.graph.reshaped(call.part("flattened"), call.value(), (prod(call.type().shape),))
    problem = views.as_strided(call.graph.types[data], call["size"], call["stride"], _start_in_memory(call))
    return (call.problem(call.name, problem, data),)


def _as_strided_scatter(call: NodeCall) -> None:
    """Opaque. Its tensor has memory of its own when it runs, so that it must begin at the same place there."""
    if _start_in_memory(call) != (call["storage_offset"] or 0):
        raise ValueError(f"{call.name} counts from the beginning of memory, but its tensor is a view: leave storage_offset out")


def _start_in_memory(call: NodeCall) -> int:
    """Where a call begins to read memory by strides, from the first element of `self` on.

    ValueError unless it stays among the elements of `self`, in the order in which they are: no others are known.
    """
    given, count = call["self"], prod(call.type().shape)
    if given.strides is not None or given.offset is None:
        raise ValueError(f"{call.name} reads memory by strides, but its tensor is not packed there: make it contiguous before")
    if 0 in call["size"]:
        return 0
    start = 0 if call["storage_offset"] is None else call["storage_offset"] - given.offset
    low, high = reach(call["size"], call["stride"], start)
    if low < 0 or high >= count:
        raise ValueError(
            f"{call.name} reads elements {low} to {high} of memory, counted from the beginning of its tensor, which has {count}: "
            "take as_strided of the tensor that holds them all"
        )
    return int(start)


def _take(call: NodeCall) -> tuple[str, ...]:
    graph, data = call.graph, call.type()
    flat = graph.reshaped(call.part("flattened"), call.value(), (prod(data.shape),))
    return (call.problem(call.name, TorchTake(graph.types[flat], call.type("index")), flat, call.value("index")),)


def _take_along_dim(call: NodeCall) -> tuple[str, ...]:
    graph = call.graph
    if call["dim"] is None:
        data, indices = (
            graph.reshaped(call.part(name), call.value(name), (prod(call.type(name).shape),)) for name in ("self", "indices")
        )
        return (call.problem(call.name, TorchGather(graph.types[data], graph.types[indices], 0), data, indices),)
    problem = TorchTakeAlongDim(call.type(), call.type("indices"), call["dim"])
    size = graph.constant(np.array(max(problem.data.shape[problem.dim], 1), problem.indices.dtype))
    rest = graph.elementwise(call.part("remainder"), "remainder", problem.indices.dtype, call.value("indices"), size)
    return (call.problem(call.name, problem, call.value(), rest),)


def _index(call: NodeCall) -> tuple[str, ...] | None:
    """x[…] with index tensors: those of several dimensions are broadcast and stacked. None for masks of unknown elements."""
    graph, entries, arrays = call.graph, list[Entry](), list[str]()
    for given in call["indices"]:
        if not isinstance(given, Value):
            entries.append(slice(None))
            continue
        tensor, known = graph.types[given.name], graph.known(given.name)
        if tensor.dtype.kind == "i":
            entries.append(tensor)
            arrays.append(given.name)
        elif known is not None and known.dtype == bool:
            entries.append(Mask.of(known))
            arrays += [graph.constant(positions) for positions in known.nonzero()] if known.shape else []
        else:
            return None
    problem = index(call.type(), entries)
    if not isinstance(problem, AdvancedIndexing):
        return (call.problem(call.name, problem, call.value()),)
    return (call.problem(call.name, problem, call.value(), _stacked(call, problem, arrays)),)


def _stacked(call: NodeCall, problem: AdvancedIndexing, arrays: Sequence[str]) -> str:
    graph, dtype = call.graph, problem.indices.dtype
    found = []
    for number, array in enumerate(arrays):
        value = (
            array if graph.types[array].dtype == dtype else graph.elementwise(call.part(f"index {number}"), "cast", dtype, array)
        )
        found.append(graph.expanded(call.part(f"index {number}"), value, problem.positions))
    if not found:
        return graph.constant(np.empty(problem.indices.shape, dtype))
    return found[0] if len(found) == 1 else graph.stacked(call.part("indices"), found, len(problem.positions))


def _roll(call: NodeCall) -> tuple[str, ...]:
    graph, rolled = call.graph, windows.roll(call.type(), call["shifts"], call["dims"])
    value = graph.reshaped(call.part("flattened"), call.value(), rolled.data.shape)
    for axis, (size, shift) in enumerate(zip(rolled.data.shape, rolled.shifts, strict=True)):
        if shift:
            parts = []
            for name, window in (("end", Window(size - shift, shift, 1)), ("beginning", Window(0, size - shift, 1))):
                taken = [window if each == axis else Window.whole(other) for each, other in enumerate(rolled.data.shape)]
                parts.append(call.problem(call.part(f"{name} of dimension {axis}"), SliceView(rolled.data, tuple(taken)), value))
            value = graph.concatenated(call.part(f"dimension {axis}"), parts, axis)
    return (graph.reshaped(call.name, value, rolled.shape),)


PROBLEMS: Mapping[str, Steps] = {
    "index_select.default": _one(lambda call: TorchIndexSelect(call.type(), call.type("index"), call["dim"]), "self", "index"),
    "gather.default": _one(lambda call: TorchGather(call.type(), call.type("index"), call["dim"]), "self", "index"),
    "embedding.default": _one(lambda call: TorchEmbedding(call.type("weight"), call.type("indices")), "weight", "indices"),
    "take.default": _take,
    "take_along_dim.default": _take_along_dim,
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _index,
    "select.int": _select,
    "narrow.default": _view(windows.narrow, "dim", "start", "length"),
    "slice.Tensor": _view(windows.slice_along, "dim", "start", "end", "step"),
    "flip.default": _view(windows.flip, "dims"),
    "fliplr.default": _one(lambda call: windows.flip(call.type(), [1]), "self"),
    "flipud.default": _one(lambda call: windows.flip(call.type(), [0]), "self"),
    "permute.default": _view(views.permute, "dims"),
    "transpose.int": _view(views.transpose, "dim0", "dim1"),
    "swapaxes.default": _view(views.transpose, "axis0", "axis1"),
    "swapdims.default": _view(views.transpose, "dim0", "dim1"),
    "t.default": _one(lambda call: _transposed(call.type()), "self"),
    "numpy_T.default": _one(lambda call: views.permute(call.type(), tuple(range(call.type().rank))[::-1]), "self"),
    "mT.default": _one(lambda call: views.transpose(call.type(), -2, -1), "self"),
    "movedim.intlist": _view(_moved, "source", "destination"),
    "movedim.int": _one(lambda call: _moved(call.type(), [call["source"]], [call["destination"]]), "self"),
    "expand.default": _view(views.expand, "size"),
    "broadcast_to.default": _view(views.expand, "size"),
    "expand_as.default": _one(lambda call: views.expand(call.type(), call.type("other").shape), "self"),
    "as_strided.default": _as_strided,
    "as_strided_copy.default": _as_strided,
    "as_strided_scatter.default": _as_strided_scatter,
    "unfold.default": _view(views.unfold, "dimension", "size", "step"),
    "diagonal.default": _one(_diagonal, "self"),
    "pixel_shuffle.default": _view(PixelShuffle, "upscale_factor"),
    "pixel_unshuffle.default": _view(PixelUnshuffle, "downscale_factor"),
    "chunk.default": _parts(windows.chunk, "chunks", "dim"),
    "unsafe_chunk.default": _parts(windows.chunk, "chunks", "dim"),
    "split.Tensor": _parts(windows.split, "split_size", "dim"),
    "unsafe_split.Tensor": _parts(windows.split, "split_size", "dim"),
    "split_with_sizes.default": _parts(windows.split, "split_sizes", "dim"),
    "unsafe_split_with_sizes.default": _parts(windows.split, "split_sizes", "dim"),
    "split.sizes": _parts(windows.split, "split_size", "dim"),
    "tensor_split.sections": _parts(windows.tensor_split, "sections", "dim"),
    "tensor_split.indices": _parts(windows.tensor_split, "indices", "dim"),
    "unbind.int": _parts(_unbind, "dim"),
    "roll.default": _roll,
}
"""The operators that index, and how: gathers, slices and views whose elements another stride finds."""
