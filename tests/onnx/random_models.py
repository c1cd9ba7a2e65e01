"""Random models of several nodes of the family, which every runtime must run to the same bits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
OPSETS = (7, 9, 10, 11, 12, 13, 15, 18, 21)


class Value(NamedTuple):
    """A name in the graph, and what is known of it beforehand."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass
class Draft:
    """A graph that grows by nodes. feeds: values for its inputs."""

    rng: random.Random
    opset: int
    pool: list[Value] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    feeds: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def name(self) -> str:
        return f"v{len(self.nodes) + len(self.initializers) + len(self.feeds)}"

    def fed(self, array: np.ndarray[Any, Any]) -> str:
        """A graph input or an initializer that holds the array."""
        name = self.name()
        if self.rng.random() < 0.5:
            self.feeds[name] = array
        else:
            self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, inputs: Sequence[str], shape: Sequence[int], dtype: Any, **attributes: Any) -> Value:
        value = Value(self.name(), tuple(shape), np.dtype(dtype))
        self.nodes.append(helper.make_node(operator, inputs, [value.name], name=f"node {len(self.nodes)}", **attributes))
        self.used.update(inputs)
        self.pool.append(value)
        return value

    def indices(self, size: int, shape: Sequence[int], *, wide: bool = False) -> np.ndarray[Any, Any]:
        """Indices into an axis, from both ends where the opset lets them."""
        lowest = -size if self.opset >= 11 else 0
        values = [self.rng.randrange(lowest, size) for _ in range(math.prod(shape))]
        return np.array(values, np.int64 if wide else self.rng.choice((np.int32, np.int64))).reshape(shape)


def random_model(seed: int) -> tuple[ModelProto, dict[str, np.ndarray[Any, Any]]]:
    """A model, and arrays for its inputs by name."""
    rng = random.Random(seed)
    draft = Draft(rng, rng.choice(OPSETS))
    for number in range(rng.randint(1, 2)):
        shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
        array = data(rng, np.dtype(rng.choice((*INTEGERS, *FLOATS, "bool"))), shape)
        draft.feeds[f"input{number}"] = array
        draft.pool.append(Value(f"input{number}", array.shape, array.dtype))
    for _ in range(rng.randint(2, 9)):
        rng.choice(STEPS)(draft, rng.choice(draft.pool))
    produced = {name for node in draft.nodes for name in node.output}
    outputs = [value for value in draft.pool if value.name in produced and (value.name not in draft.used or rng.random() < 0.2)]
    return model_of(draft, outputs), draft.feeds


def model_of(draft: Draft, outputs: Sequence[Value]) -> ModelProto:
    """The model of a draft that gives these values."""
    kind = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(name, kind(array.dtype), array.shape) for name, array in draft.feeds.items()]
    results = [helper.make_tensor_value_info(value.name, kind(value.dtype), [None] * len(value.shape)) for value in outputs]
    graph = helper.make_graph(draft.nodes, "graph", inputs, results, draft.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", draft.opset)], ir_version=8)


def data(rng: random.Random, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Random elements of a type, among them the largest and the smallest integers."""
    generator = np.random.default_rng(rng.randrange(2**32))
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _gather(draft: Draft, value: Value) -> None:
    if not value.shape or 0 in value.shape:
        return
    axis = draft.rng.randrange(len(value.shape))
    indices = draft.indices(value.shape[axis], [draft.rng.randint(1, 3) for _ in range(draft.rng.randrange(3))])
    shape = value.shape[:axis] + indices.shape + value.shape[axis + 1 :]
    draft.add("Gather", [value.name, draft.fed(indices)], shape, value.dtype, axis=axis)


def _gather_elements(draft: Draft, value: Value) -> None:
    if not value.shape or 0 in value.shape or draft.opset < 11:
        return
    axis = draft.rng.randrange(len(value.shape))
    shape = [draft.rng.randint(1, size + 2 * (number == axis)) for number, size in enumerate(value.shape)]
    indices = draft.indices(value.shape[axis], shape)
    draft.add("GatherElements", [value.name, draft.fed(indices)], shape, value.dtype, axis=axis - len(value.shape))


def _gather_nd(draft: Draft, value: Value) -> None:
    if not value.shape or 0 in value.shape or draft.opset < 11:
        return
    rank = len(value.shape)
    batch = draft.rng.randrange(rank) if draft.opset >= 12 else 0
    components = draft.rng.randint(1, rank - batch)
    tuples = value.shape[:batch] + tuple(draft.rng.randint(1, 3) for _ in range(draft.rng.randint(not batch, 2)))
    parts = [draft.indices(value.shape[batch + number], tuples, wide=True) for number in range(components)]
    attributes = {"batch_dims": batch} if draft.opset >= 12 else {}
    shape = tuples + value.shape[batch + components :]
    draft.add("GatherND", [value.name, draft.fed(np.stack(parts, -1))], shape, value.dtype, **attributes)


def _slice(draft: Draft, value: Value) -> None:
    if not value.shape:
        return
    axis = draft.rng.randrange(len(value.shape))
    size = value.shape[axis]
    start, end = draft.rng.randint(-size - 1, size + 1), draft.rng.randint(-size - 1, size + 1)
    if draft.opset < 10:
        count = len(range(*slice(start, end).indices(size)))
        shape = [count if number == axis else entry for number, entry in enumerate(value.shape)]
        draft.add("Slice", [value.name], shape, value.dtype, starts=[start], ends=[end], axes=[axis])
        return
    step = draft.rng.choice((1, 1, 2, -1, -2))
    if step < 0 and start < -size:
        start = -1  # where Python's slices are no judge
    count = len(range(*slice(start, end, step).indices(size)))
    shape = [count if number == axis else entry for number, entry in enumerate(value.shape)]
    bounds = [draft.fed(np.array([number], np.int64)) for number in (start, end, axis, step)]
    draft.add("Slice", [value.name, *bounds], shape, value.dtype)


def _blocks(draft: Draft, value: Value) -> None:
    """Blocks of rows and columns into channels, or back; onnxruntime does so for few types."""
    if len(value.shape) != 4 or value.dtype.name not in ("float32", "float64"):
        return
    n, c, h, w = value.shape
    size = draft.rng.choice((1, 2))
    if draft.rng.random() < 0.5 and c % size**2 == 0:
        mode = {"mode": draft.rng.choice(("DCR", "CRD"))} if draft.opset >= 11 else {}
        shape = [n, c // size**2, h * size, w * size]
        draft.add("DepthToSpace", [value.name], shape, value.dtype, blocksize=size, **mode)
    elif h % size == w % size == 0:
        draft.add("SpaceToDepth", [value.name], [n, c * size**2, h // size, w // size], value.dtype, blocksize=size)


STEPS: Sequence[Callable[[Draft, Value], None]] = (_gather, _gather_elements, _gather_nd, _slice, _blocks)
