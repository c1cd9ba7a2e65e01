"""Random chains of views and gathers, and what becomes of them step by step."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph
from dmlgather.dialects.lowering import index_type
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.plan import IndexPlan, OutOfBounds, build, lookup

INDEX_TYPES = tuple(map(np.dtype, ("int8", "int16", "int32", "int64", "uint8", "uint32")))
SMALL = 4
"""The largest size of a dimension that is drawn."""


@dataclass
class RandomGraph:
    """A graph and arrays for its inputs."""

    graph: IndexGraph
    values: Mapping[str, NDArray[Any]] = field(repr=False)


def gathering(
    data: TensorType, indices: TensorType, axis: int, *, wraps: bool = True, policy: OutOfBounds, fill: bytes = b""
) -> Planned:
    """output[lead…, i…, trail…] = data[lead…, indices[i…], trail…] under a policy."""
    lead, trail = data.shape[:axis], data.shape[axis + 1 :]
    result = TensorType((*lead, *indices.shape, *trail), data.dtype)
    source, looked_up, target = data.layout, indices.layout, result.layout
    kind = index_type(indices.dtype)
    in_strides = (*source.strides[:axis], *(0 for _ in indices.shape), *source.strides[axis + 1 :])
    index_strides = (*(0 for _ in lead), *looked_up.strides, *(0 for _ in trail))
    found = lookup(source, looked_up, axis, index_strides, kind, wraps=wraps)
    plan = build(source, target, in_strides, data.dtype.itemsize, lookups=[found], indices=looked_up, index_type=kind)
    return Planned(data, indices, result, under(plan, policy, fill))


def under(plan: IndexPlan, policy: OutOfBounds, fill: bytes) -> IndexPlan:
    """The plan under a policy."""
    return replace(plan, out_of_bounds=policy, fill=fill if policy is OutOfBounds.FILL else b"")


def random_chain(rng: random.Random, steps: int) -> RandomGraph:
    """A chain of so many views and gathers. Now and then a gather has the indices of one before it, a value has another reader,
    or is an output as well. Indices are good and bad.
    """
    graph, values = GraphBuilder(), dict[str, NDArray[Any]]()
    noise = np.random.default_rng(rng.getrandbits(64))
    dtype = np.dtype(rng.choice(("int8", "int32", "float64")))
    shape = tuple(rng.randint(1, SMALL) for _ in range(rng.randint(1, 4)))
    value = graph.input("data", TensorType(shape, dtype))
    values[value] = noise.integers(1, 100, shape).astype(dtype)
    policies = rng.sample(list(OutOfBounds), rng.choice((1, 1, 2)))
    outputs, indices, before = list[str](), list[str](), value
    for number in range(steps):
        if rng.random() < 0.4:
            value = _gathered(rng, graph, f"gather {number}", value, indices=indices, values=values, policy=rng.choice(policies))
        else:
            value = random_view(rng, graph, f"view {number}", value)
        if rng.random() < 0.08:
            outputs.append(rng.choice((value, before)))
        before = value
    return RandomGraph(graph.build([*outputs, value]), values)


def random_view(rng: random.Random, graph: GraphBuilder, name: str, value: str) -> str:
    """The name of a random view of a value."""
    shape = graph.types[value].shape
    kind = rng.choice(("reshape", "transpose", "slice", "slice", "expand"))
    if kind == "reshape":
        return graph.reshaped(name, value, _other_shape(rng, shape))
    if kind == "transpose":
        return graph.transposed(name, value, rng.sample(range(len(shape)), len(shape)))
    if kind == "expand" and np.prod(shape, dtype=int) <= 64:
        wide = [rng.choice((1, 2, 3)) if size == 1 else size for size in shape]
        return graph.expanded(name, value, (*(rng.choice(((), (2,)))), *wide))
    return graph.problem(name, SliceView(graph.types[value], tuple(_window(rng, size) for size in shape)), value)


def _window(rng: random.Random, size: int) -> Window:
    if rng.random() < 0.4 or size == 0:
        return Window.whole(size)
    step = rng.choice((1, 1, 2, -1))
    start = rng.randrange(size)
    room = start // -step if step < 0 else (size - 1 - start) // step
    return Window(start, rng.randint(0 if rng.random() < 0.05 else 1, room + 1), step)


def _other_shape(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The same number of elements under another shape."""
    parts = [factor for size in shape for factor in {4: (2, 2), 6: (2, 3), 8: (2, 4)}.get(size, (size,))]
    while len(parts) > 1 and rng.random() < 0.5:
        at = rng.randrange(len(parts) - 1)
        parts[at : at + 2] = [parts[at] * parts[at + 1]]
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), 1)
    return tuple(parts)


def _gathered(
    rng: random.Random,
    graph: GraphBuilder,
    name: str,
    value: str,
    *,
    indices: list[str],
    values: dict[str, NDArray[Any]],
    policy: OutOfBounds,
) -> str:
    data = graph.types[value]
    if not data.shape:
        return value
    axis = rng.randrange(data.rank)
    if indices and rng.random() < 0.5:
        index = rng.choice(indices)
    else:
        shape = tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 2)))
        index = graph.input(f"{name} indices", TensorType(shape, rng.choice(INDEX_TYPES)))
        values[index] = random_indices(rng, graph.types[index], data.shape[axis])
        indices.append(index)
    problem = gathering(
        data, graph.types[index], axis, wraps=rng.random() < 0.7, policy=policy, fill=b"\x07" * data.dtype.itemsize
    )
    if data.shape[axis] == 0 and policy not in (OutOfBounds.FILL, OutOfBounds.RAISE):
        return value  # it cannot run
    return graph.problem(name, problem, value, index)


def random_indices(rng: random.Random, tensor: TensorType, size: int) -> NDArray[Any]:
    """Indices for an axis of that size: mostly good ones, in some arrays bad ones as well."""
    low = 0 if tensor.dtype.kind == "u" else -size if rng.random() < 0.5 else 0
    found = [rng.randrange(low, max(size, 1)) for _ in range(int(np.prod(tensor.shape, dtype=int)))]
    if rng.random() < 0.3:
        limits = np.iinfo(tensor.dtype)
        found = [rng.choice((each, each, size, -size - 1 if low else size + 1, limits.max, limits.min)) for each in found]
    return np.array(found, object).reshape(tensor.shape).astype(tensor.dtype)


def step_by_step(example: RandomGraph) -> dict[str, NDArray[Any]] | str:
    """Every value by the reference backend, one step after the other; the name of the first step that meets a bad index."""
    graph = example.graph.needed()
    values: dict[str, Any] = {**example.values, **graph.constants}
    for step in graph.steps:
        inputs = [np.ascontiguousarray(values[name]) for name in step.inputs]
        if isinstance(step.work, Problem):
            result = np.full(step.work.output.shape, 123, inputs[0].dtype)
            indices = inputs[1].ravel() if len(inputs) > 1 else None
            flat = result.reshape(-1)
            if reference.run(step.work.plan(), inputs[0].ravel(), indices, flat) is not None:
                return step.name
        elif isinstance(step.work, Elementwise):
            result = step.work.compute(inputs)
        else:
            assert isinstance(step.work, Concatenation)
            result = np.concatenate(inputs, step.work.axis)
        values[step.outputs[0]] = result
    return values
