"""Random chains of views and gathers with views and casts of their indices, and their step-by-step results."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.calls.eager import execute
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType, index_type
from dmlgather.dialects.views import SliceView, StridedView
from dmlgather.dialects.windows import Window
from dmlgather.plan import OutOfBounds, build, lookup

INDEX_TYPES = tuple(map(np.dtype, ("int8", "int16", "int32", "int64", "uint8", "uint32")))
ELEMENT_TYPES = tuple(map(np.dtype, ("int8", "int32", "float64")))
LARGEST = 4
"""Largest drawn size of a dimension. Views make larger ones."""


@dataclass(frozen=True)
class RandomGraph:
    """A graph and arrays for its inputs."""

    graph: IndexGraph
    values: Mapping[str, NDArray[Any]] = field(repr=False)


def gathering(
    data: TensorType, indices: TensorType, axis: int, policy: OutOfBounds, *, wraps: bool, fill: bytes = b""
) -> Planned:
    """output[lead…, i…, trail…] = data[lead…, indices[i…], trail…] under a policy."""
    lead, trail = data.shape[:axis], data.shape[axis + 1 :]
    result = TensorType((*lead, *indices.shape, *trail), data.dtype)
    source, looked_up, kind = data.layout, indices.layout, index_type(indices.dtype)
    in_strides = (*source.strides[:axis], *(0 for _ in indices.shape), *source.strides[axis + 1 :])
    index_strides = (*(0 for _ in lead), *looked_up.strides, *(0 for _ in trail))
    found = lookup(source, looked_up, axis, index_strides, kind, wraps=wraps)
    plan = build(source, result.layout, in_strides, data.dtype.itemsize, lookups=[found], indices=looked_up, index_type=kind)
    fill = fill if policy is OutOfBounds.FILL else b""
    return Planned(data, indices, result, replace(plan, out_of_bounds=policy, fill=fill))


class ChainMaker:
    """A generator of a random chain with this number of views and gathers."""

    def __init__(self, rng: random.Random, steps: int) -> None:
        self._rng, self._graph, self._values = rng, GraphBuilder(), dict[str, NDArray[Any]]()
        self._indices: list[str] = []
        self._policies = rng.sample(list(OutOfBounds), rng.choice((1, 1, 2)))
        dtype = rng.choice(ELEMENT_TYPES)
        shape = tuple(rng.randint(1, LARGEST) for _ in range(rng.randint(1, 4)))
        value = self._graph.input("data", TensorType(shape, dtype))
        self._values[value] = np.random.default_rng(rng.getrandbits(64)).integers(1, 100, shape).astype(dtype)
        outputs, before = list[str](), value
        for number in range(steps):
            value = self._next(f"step {number}", value)
            if rng.random() < 0.06:
                outputs.append(rng.choice((value, before)))
            before = value
        self.made = RandomGraph(self._graph.build([*outputs, value]), self._values)

    def _next(self, name: str, value: str) -> str:
        rng, graph, tensor = self._rng, self._graph, self._graph.types[value]
        choice = rng.random()
        if choice < 0.42 and tensor.shape:
            return self._gathered(name, value)
        if choice < 0.45 and prod(tensor.shape) < 100:
            size = tensor.dtype.itemsize
            whole = rng.random() < 0.5
            dtype, shape = (f"u{size}", tensor.shape) if whole else ("u1", (*tensor.shape, size))
            return graph.bitcast(name, value, np.dtype(dtype), shape)
        if choice < 0.48 and tensor.shape and prod(tensor.shape) < 100:
            return graph.concatenated(name, [value, value], rng.randrange(tensor.rank))
        return self._view(name, value)

    def _view(self, name: str, value: str) -> str:
        rng, graph, tensor = self._rng, self._graph, self._graph.types[value]
        kind = rng.choice(("reshape", "transpose", "slice", "slice", "expand", "unfold"))
        if kind == "reshape":
            return graph.reshaped(name, value, _other_shape(rng, tensor.shape))
        if kind == "transpose":
            return graph.transposed(name, value, rng.sample(range(tensor.rank), tensor.rank))
        if kind == "expand" and prod(tensor.shape) <= 64:
            wide = [rng.choice((1, 2, 3)) if size == 1 else size for size in tensor.shape]
            return graph.expanded(name, value, (*rng.choice(((), (2,))), *wide))
        if kind == "unfold" and tensor.shape and tensor.shape[-1] >= 2 and prod(tensor.shape) <= 64:
            *lead, last = tensor.shape
            strides = (*tensor.layout.strides, 1)
            return graph.problem(name, StridedView(tensor, (*lead, last - 1, 2), strides), value)
        return graph.problem(name, SliceView(tensor, tuple(_window(rng, size) for size in tensor.shape)), value)

    def _gathered(self, name: str, value: str) -> str:
        rng, graph, data = self._rng, self._graph, self._graph.types[value]
        axis, policy = rng.randrange(data.rank), rng.choice(self._policies)
        if data.shape[axis] == 0 and policy not in (OutOfBounds.FILL, OutOfBounds.RAISE):
            return value  # it cannot run
        indices = self._index(f"{name} indices", data.shape[axis])
        fill = bytes([rng.choice((7, 7, 7, 8))]) * data.dtype.itemsize
        problem = gathering(data, graph.types[indices], axis, policy, wraps=rng.random() < 0.5, fill=fill)
        return graph.problem(name, problem, value, indices) if prod(problem.output.shape) <= 4000 else value

    def _index(self, name: str, size: int) -> str:
        """Return indices for an axis of that size: an input or a constant, possibly used before, then views and casts."""
        rng, graph = self._rng, self._graph
        if self._indices and rng.random() < 0.5:
            value = rng.choice(self._indices)
        else:
            tensor = TensorType(tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 2))), rng.choice(INDEX_TYPES))
            if rng.random() < 0.2:
                value = graph.constant(_even_indices(rng, size) if rng.random() < 0.7 else random_indices(rng, tensor, size))
            else:
                value = graph.input(name, tensor)
                self._values[value] = random_indices(rng, tensor, size)
            self._indices.append(value)
        for number in range(rng.choice((0, 0, 1, 1, 2, 3))):
            step = f"{name}, {number}"
            kind = rng.choice(INDEX_TYPES)
            value = self._view(step, value) if rng.random() < 0.7 else graph.elementwise(step, "cast", kind, value)
            if prod(graph.types[value].shape) > 12:
                value = graph.problem(f"{step}, cut", _first_of(graph.types[value]), value)
        return value


def random_chain(rng: random.Random, steps: int) -> RandomGraph:
    """Return a chain with this number of views and gathers over few elements. Gathers may share indices, which are good and bad,
    with views and casts. Sometimes a value has another reader, is also an output, or is read as another type.
    """
    return ChainMaker(rng, steps).made


def _first_of(tensor: TensorType) -> SliceView:
    return SliceView(tensor, tuple(Window(0, min(size, 2), 1) for size in tensor.shape))


def _window(rng: random.Random, size: int) -> Window:
    if rng.random() < 0.4 or size == 0:
        return Window.whole(size)
    step, start = rng.choice((1, 1, 2, -1)), rng.randrange(size)
    room = start // -step if step < 0 else (size - 1 - start) // step
    return Window(start, rng.randint(0 if rng.random() < 0.05 else 1, room + 1), step)


def _other_shape(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return sizes with the same product."""
    parts = [factor for size in shape for factor in {4: (2, 2), 6: (2, 3), 8: (2, 4)}.get(size, (size,))]
    while len(parts) > 1 and rng.random() < 0.5:
        at = rng.randrange(len(parts) - 1)
        parts[at : at + 2] = [parts[at] * parts[at + 1]]
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), 1)
    return tuple(parts)


def _even_indices(rng: random.Random, size: int) -> NDArray[Any]:
    """Return evenly spaced indices, sometimes in two dimensions."""
    found = np.arange(0, max(size, 1), rng.choice((1, 1, 2)))[:: rng.choice((1, -1))]
    if found.size % 2 == 0 and rng.random() < 0.3:
        return found.reshape(2, -1).T
    return found - size if rng.random() < 0.2 else found


def random_indices(rng: random.Random, tensor: TensorType, size: int) -> NDArray[Any]:
    """Return indices for an axis of that size, mostly good ones. Some arrays also have bad ones."""
    limits = np.iinfo(tensor.dtype)
    low = 0 if limits.min == 0 else -size if rng.random() < 0.5 else 0
    found = [rng.randrange(low, max(size, 1)) for _ in range(prod(tensor.shape))]
    if found and rng.random() < 0.25:
        bad = (size, -size - 1 if limits.min else size + 1, limits.max, limits.min)
        found[rng.randrange(len(found))] = rng.choice(bad)
        found = [rng.choice((*[each] * 6, *bad)) for each in found]
    return np.array(found, object).reshape(tensor.shape).astype(tensor.dtype)


def refusal(problem: Problem, inputs: Sequence[NDArray[Any]]) -> str:
    """Return the message of a separate problem about a bad index."""
    try:
        execute(problem, inputs, device="reference")
    except IndexError as error:
        return str(error)
    raise AssertionError("the reference backend met a bad index before")


def step_by_step(example: RandomGraph) -> dict[str, NDArray[Any]] | str:
    """Return every value by the reference backend, step by step, or the message of the first step with a bad index."""
    graph = example.graph
    values: dict[str, Any] = {**example.values, **graph.constants}
    for step in graph.steps:
        inputs = [np.asarray(values[name], order="C") for name in step.inputs]
        if isinstance(step.work, Problem):
            result = np.full(step.work.output.shape, 123, inputs[0].dtype)
            indices = inputs[1].ravel() if len(inputs) > 1 else None
            if reference.run(step.work.plan(), inputs[0].ravel(), indices, result.reshape(-1)) is not None:
                return refusal(step.work, inputs)
        elif isinstance(step.work, Elementwise):
            result = step.work.compute(inputs)
        elif isinstance(step.work, Concatenation):
            result = np.concatenate(inputs, step.work.axis)
        else:
            result = np.frombuffer(inputs[0].tobytes(), step.work.dtype).reshape(step.work.shape)
        values[step.outputs[0]] = result
    return values
