"""Random chains of nodes, each reading what the one before it gives: gathers of every kind, slices, views, joins, casts, and
indices that are computed of others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper

from tests.onnx import random_models
from tests.onnx.random_models import Draft, Value

LARGEST = 4096
"""Elements of a value, at most: some nodes repeat their data."""

Feeds = dict[str, np.ndarray[Any, Any]]


def random_chain(rng: random.Random) -> tuple[ModelProto, Feeds]:
    """A model whose nodes are 2 to 8 steps, and arrays for its inputs. Some have an index out of range."""
    draft = Draft(rng, rng.choice(random_models.OPSETS))
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    array = random_models.data(rng, np.dtype(rng.choice((*random_models.INTEGERS, *random_models.FLOATS, "bool"))), shape)
    draft.feeds["input0"] = array
    draft.pool.append(Value("input0", array.shape, array.dtype))
    spoiled = rng.random() < 0.1
    wanted = rng.randint(2, 8)
    for _ in range(100):
        if sum(node.op_type != "Constant" for node in draft.nodes) >= wanted:
            break
        rng.choice(STEPS)(draft, draft.pool[-1])
        if np.prod(draft.pool[-1].shape) > LARGEST:
            break
    model = random_models.model_of(draft, [draft.pool[-1]])
    feeds = draft.feeds
    if spoiled:
        _spoil(rng, model, feeds)
    fix_bounds(model, feeds)
    return model, feeds


def fix_bounds(model: ModelProto, feeds: Feeds) -> None:
    """Make the inputs whose elements decide shapes initializers: a graph has no sizes that differ from run to run."""
    moved = ("Gather", "GatherElements", "GatherND")
    kept_for = (*moved, "Add", "Mod", "Where", "Less", "Neg", "Cast", "Transpose", "Concat", "Min", "Max", "Clip")
    bounds = {name for node in model.graph.node if node.op_type not in kept_for for name in node.input[1:]}
    model.graph.initializer.extend(numpy_helper.from_array(feeds.pop(name), name) for name in bounds & feeds.keys())
    kept = [value for value in model.graph.input if value.name not in bounds]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _spoil(rng: random.Random, model: ModelProto, feeds: Feeds) -> None:
    """Put an index out of range into an input that is the indices of a gather."""
    gathers = ("Gather", "GatherElements", "GatherND")
    indices = [node.input[1] for node in model.graph.node if node.op_type in gathers and node.input[1] in feeds]
    if indices:
        array = feeds[rng.choice(indices)]
        if array.size:
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice((99, -99))


def _expand(draft: Draft, value: Value) -> None:
    if draft.opset >= 8 and len(value.shape) < 5:
        shape = [draft.rng.randint(1, 3) if size == 1 else size for size in value.shape]
        shape = [draft.rng.randint(1, 2), *shape] if draft.rng.random() < 0.5 else shape
        draft.add("Expand", [value.name, draft.constant(shape)], shape, value.dtype)


def _tile(draft: Draft, value: Value) -> None:
    if value.shape:
        repeats = [draft.rng.randint(1, 2) for _ in value.shape]
        shape = [size * repeat for size, repeat in zip(value.shape, repeats, strict=True)]
        draft.add("Tile", [value.name, draft.constant(repeats)], shape, value.dtype)


def _flatten(draft: Draft, value: Value) -> None:
    if value.shape and (draft.opset >= 9 or value.dtype.kind == "f"):
        axis = draft.rng.randint(0, len(value.shape))
        shape = [int(np.prod(value.shape[:axis])), int(np.prod(value.shape[axis:]))]
        draft.add("Flatten", [value.name], shape, value.dtype, axis=axis)


def _concat(draft: Draft, value: Value) -> None:
    """The value behind or before itself, or another value of the same sizes off the axis."""
    if value.shape:
        axis = draft.rng.randrange(len(value.shape))
        shape = [size * (1 + (number == axis)) for number, size in enumerate(value.shape)]
        draft.add("Concat", [value.name, value.name], shape, value.dtype, axis=axis)


def _split(draft: Draft, value: Value) -> None:
    """One part of two."""
    axes = [axis for axis, size in enumerate(value.shape) if size > 1]
    if not axes:
        return
    axis = draft.rng.choice(axes)
    first = draft.rng.randint(1, value.shape[axis] - 1)
    sizes = [first, value.shape[axis] - first]
    inputs, attributes = [value.name], dict[str, Any](split=sizes)
    if draft.opset >= 13:
        inputs, attributes = [value.name, draft.constant(sizes)], {}
    taken = draft.rng.randrange(2)
    shape = [sizes[taken] if number == axis else size for number, size in enumerate(value.shape)]
    added = draft.add("Split", inputs, shape, value.dtype, axis=axis, **attributes)
    rest = f"{added.name} rest"
    draft.nodes[-1].output[:] = [rest, added.name] if taken else [added.name, rest]


def _gather_by_computed_indices(draft: Draft, value: Value) -> None:
    """A gather whose indices are views and arithmetic of others."""
    if not value.shape or 0 in value.shape or draft.opset < 11:
        return
    axis = draft.rng.randrange(len(value.shape))
    size = value.shape[axis]
    array = draft.rng.choice((np.int32, np.int64))(0) + draft.indices(size, [draft.rng.randint(1, 3) for _ in range(2)])
    indices = Value(draft.fed(array), array.shape, array.dtype)
    for _ in range(draft.rng.randint(1, 3)):
        indices = draft.rng.choice(INDEX_STEPS)(draft, indices, size)
    shape = value.shape[:axis] + indices.shape + value.shape[axis + 1 :]
    draft.add("Gather", [value.name, indices.name], shape, value.dtype, axis=axis)


def _constant_like(draft: Draft, indices: Value, number: int) -> str:
    name = draft.name()
    draft.initializers.append(numpy_helper.from_array(np.array(number, indices.dtype), name))
    return name


def _turned(draft: Draft, indices: Value, _: int) -> Value:
    return draft.add("Transpose", [indices.name], indices.shape[::-1], indices.dtype, perm=[1, 0])


def _halved(draft: Draft, indices: Value, _: int) -> Value:
    ends = (indices.shape[0] + 1) // 2
    bounds = [draft.constant([number]) for number in (0, ends, 0)]
    return draft.add("Slice", [indices.name, *bounds], (ends, *indices.shape[1:]), indices.dtype)


def _mirrored(draft: Draft, indices: Value, size: int) -> Value:
    """-1 - v counts from the other end."""
    negative = draft.add("Neg", [indices.name], indices.shape, indices.dtype)
    return draft.add("Add", [negative.name, _constant_like(draft, indices, -1)], indices.shape, indices.dtype)


def _from_the_front(draft: Draft, indices: Value, size: int) -> Value:
    zero, end = _constant_like(draft, indices, 0), _constant_like(draft, indices, size)
    below = draft.add("Less", [indices.name, zero], indices.shape, np.bool_)
    moved = draft.add("Add", [indices.name, end], indices.shape, indices.dtype)
    return draft.add("Where", [below.name, moved.name, indices.name], indices.shape, indices.dtype)


def _rolled(draft: Draft, indices: Value, size: int) -> Value:
    moved = draft.add(
        "Add", [indices.name, _constant_like(draft, indices, draft.rng.randint(0, size))], indices.shape, indices.dtype
    )
    return draft.add("Mod", [moved.name, _constant_like(draft, indices, size)], indices.shape, indices.dtype)


def _limited(draft: Draft, indices: Value, size: int) -> Value:
    if draft.opset < 12:
        return indices
    low, high = sorted(draft.rng.randint(-size, size - 1) for _ in range(2))
    limits = [_constant_like(draft, indices, limit) for limit in (low, high)]
    if draft.rng.random() < 0.5:
        return draft.add("Clip", [indices.name, *limits], indices.shape, indices.dtype)
    raised = draft.add("Max", [indices.name, limits[0]], indices.shape, indices.dtype)
    return draft.add("Min", [raised.name, limits[1]], indices.shape, indices.dtype)


def _other_width(draft: Draft, indices: Value, _: int) -> Value:
    to, number = (np.int32, 6) if indices.dtype == np.int64 else (np.int64, 7)
    return draft.add("Cast", [indices.name], indices.shape, to, to=number)


INDEX_STEPS: Sequence[Callable[[Draft, Value, int], Value]] = (
    *(_turned, _halved, _mirrored, _from_the_front, _rolled, _limited, _other_width),
)

STEPS: Sequence[Callable[[Draft, Value], None]] = (
    *random_models.STEPS,
    *(_expand, _tile, _flatten, _concat, _split),
    *(_gather_by_computed_indices,) * 3,
)
