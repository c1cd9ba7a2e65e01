"""Random IRs: chains of two to eight gathers, slices, views and joins, with arithmetic on their indices."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tests.openvino.ir import parameter, save
from tests.openvino.runtime import openvino
from tests.peers.openvino_plugin import PLUGIN, Between

op, opset1 = openvino.opset13, openvino.opset1

DATA = (np.float32, np.int32, np.int64, np.float16, np.uint8)
INDEX = (np.int32, np.int64)


@dataclass
class _Chain:
    """A model while it is made. open: whether the first size of an input may be left open. feeds: the inputs, in order."""

    rng: random.Random
    parameters: list[Any] = field(default_factory=list)
    feeds: dict[str, Any] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)

    def input(self, array: Any, *, dynamic: bool = False) -> Any:
        name = f"x{len(self.parameters)}"
        shape = [-1, *array.shape[1:]] if dynamic and array.ndim else list(array.shape)
        node = parameter(name, shape, array.dtype.type)
        self.parameters.append(node)
        self.feeds[name] = array
        return node

    def indices(self, shape: list[int], limit: int, *, wraps: bool, beyond: int = 0) -> Any:
        """An input of indices, through arithmetic at times. limit: of the axis; beyond: how far some may lie outside of it."""
        rng, low = self.rng, -limit if wraps else 0
        dtype = rng.choice(INDEX)
        values = np.array([rng.randint(low - beyond, limit - 1 + beyond) for _ in range(prod(shape))], dtype).reshape(shape)
        if rng.random() < 0.3:
            return op.constant(values)
        if rng.random() < 0.3:
            step = rng.randint(0, 5)
            return op.subtract(self.input((values + step).astype(dtype)), op.constant(np.array(step, dtype)))
        if rng.random() < 0.2:
            return op.convert(self.input(values.astype(np.int64 if dtype == np.int32 else np.int32)), "i64")
        return self.input(values)


def _shape(node: Any) -> list[int]:
    """The sizes of a node whose shape is known."""
    return [int(size) for size in node.get_output_shape(0)]


def _data(node: Any) -> str:
    return str(node.get_output_element_type(0).to_dtype())


_MOVERS = ("Reshape", "Transpose")
"""Layers that may change nothing."""


def _partial(node: Any) -> Any:
    return node.get_output_partial_shape(0)


def _gather(chain: _Chain, node: Any) -> Any:
    rng, shape = chain.rng, _shape(node)
    axis = rng.randrange(len(shape))
    version = rng.choice((1, 7, 8))
    taken = [rng.randint(1, 4) for _ in range(rng.randint(0, 2))]
    if prod(taken) * prod(shape) > 600:
        taken = []
    beyond = rng.choice((0, 0, 2)) if version == 8 else 0
    sizes = (shape[axis], *shape[:axis], *shape[axis + 1 :])
    if PLUGIN.known_fault(Between("Gather", sizes, _data(node), shape[axis] - 1 + beyond)):
        beyond = 0
    made = chain.indices(taken, shape[axis], wraps=version == 8, beyond=beyond)
    build = {1: opset1.gather, 7: openvino.opset7.gather, 8: op.gather}[version]
    return build(node, made, op.constant(np.array(axis - (len(shape) if rng.random() < 0.3 else 0), np.int64)))


def _gather_elements(chain: _Chain, node: Any) -> Any:
    shape = _shape(node)
    before = node
    while before.get_type_name() in _MOVERS and _partial(before) == _partial(before.input_value(0).get_node()):
        before = before.input_value(0).get_node()  # the plugin takes out what changes nothing
    if PLUGIN.known_fault(Between("GatherElements", tuple(shape), _data(node), -1, before.get_type_name())):
        return _gather(chain, node)
    axis = chain.rng.randrange(len(shape))
    shape[axis], limit = chain.rng.randint(1, 5), shape[axis]
    return op.gather_elements(node, chain.indices(shape, limit, wraps=True), axis)


def _gather_nd(chain: _Chain, node: Any) -> Any:
    shape = _shape(node)
    sizes = [chain.rng.randint(1, 4), 1]
    return op.gather_nd(node, chain.indices(sizes, shape[0], wraps=True), 0)


def _slice(chain: _Chain, node: Any) -> Any:
    rng, shape = chain.rng, _shape(node)
    bounds = [[], [], []]  # type: list[list[int]]
    for size in shape:
        step = rng.choice((1, 1, 2, -1, -2))
        first, last = sorted((rng.randrange(size), rng.randrange(size)))
        start, stop = (first, last + 1) if step > 0 else (last, first - 1 if first else -size - 1)
        for values, value in zip(bounds, (start, stop, step), strict=True):
            values.append(value)
    return op.slice(node, *(op.constant(np.array(values, np.int64)) for values in bounds))


def _strided_slice(chain: _Chain, node: Any) -> Any:
    rng, shape = chain.rng, _shape(node)
    begin = [rng.randrange(size) for size in shape]
    end = [rng.randint(first + 1, size) for first, size in zip(begin, shape, strict=True)]
    marks = [int(rng.random() < 0.2) for _ in shape]
    keep = [0] * len(shape)
    shrink = marks if len(shape) - sum(marks) >= 1 else keep
    arrays = [op.constant(np.array(values, np.int64)) for values in (begin, end, [1] * len(shape))]
    return op.strided_slice(node, *arrays, begin_mask=keep, end_mask=keep, shrink_axis_mask=shrink)


def _reshape(chain: _Chain, node: Any) -> Any:
    rng, shape = chain.rng, _shape(node)
    kind = rng.choice(("flat", "squeeze", "unsqueeze", "split", "shape of"))
    if kind == "squeeze" and 1 in shape and len(shape) > 1:
        return op.squeeze(node, op.constant(np.array([shape.index(1)], np.int64)))
    if kind == "unsqueeze" and len(shape) < 5:
        return op.unsqueeze(node, op.constant(np.array([rng.randrange(len(shape) + 1)], np.int64)))
    if kind == "split" and shape[0] % 2 == 0:
        return op.reshape(node, op.constant(np.array([2, -1, *shape[1:]], np.int64)), False)
    if kind == "shape of":  # the first size, and all the rest
        first = op.gather(op.shape_of(node), op.constant(np.array([0], np.int64)), op.constant(np.array(0, np.int64)))
        return op.reshape(node, op.concat([first, op.constant(np.array([-1], np.int64))], 0), False)
    return op.reshape(node, op.constant(np.array([-1], np.int64)), False)


def _transpose(chain: _Chain, node: Any) -> Any:
    order = chain.rng.sample(range(len(_shape(node))), len(_shape(node)))
    return op.transpose(node, op.constant(np.array(order, np.int64)))


def _broadcast(chain: _Chain, node: Any) -> Any:
    rng, shape = chain.rng, _shape(node)
    sizes = [rng.randint(1, 3) if size == 1 else size for size in shape]
    sizes = [rng.randint(1, 2), *sizes] if len(sizes) < 5 else sizes
    return op.broadcast(node, op.constant(np.array(sizes, np.int64)))


def _concat(chain: _Chain, node: Any) -> Any:
    same = [each for each in chain.values if each.get_output_element_type(0) == node.get_output_element_type(0)]
    same = [each for each in same if _shape(each) == _shape(node)]
    return op.concat([node, chain.rng.choice(same or [node])], chain.rng.randrange(len(_shape(node))))


def _split(chain: _Chain, node: Any) -> Any:
    rng, shape = chain.rng, _shape(node)
    axis = rng.randrange(len(shape))
    at = op.constant(np.array(axis, np.int64))
    if rng.random() < 0.5 and shape[axis] % 2 == 0:
        parts = op.split(node, at, 2)
    else:
        first = rng.randint(1, shape[axis])
        lengths = [first, shape[axis] - first] if first < shape[axis] else [first]
        parts = op.variadic_split(node, at, op.constant(np.array(lengths, np.int64)))
    part = parts.output(rng.randrange(parts.get_output_size()))
    return op.reshape(part, op.constant(np.array([int(size) for size in part.get_shape()], np.int64)), False)


def _blocks(chain: _Chain, node: Any) -> Any:
    rng, mode = chain.rng, chain.rng.choice(("blocks_first", "depth_first"))
    count = prod(_shape(node))
    if count % 4:
        return _transpose(chain, node)
    if rng.random() < 0.5:
        return op.depth_to_space(op.reshape(node, op.constant(np.array([1, 4, count // 4, 1], np.int64)), False), mode, 2)
    return op.space_to_depth(op.reshape(node, op.constant(np.array([1, 1, 2, count // 2], np.int64)), False), mode, 2)


STEPS: tuple[Callable[[_Chain, Any], Any], ...] = (
    *(_gather, _gather, _gather, _gather_elements, _gather_nd, _slice, _slice, _strided_slice),
    *(_reshape, _reshape, _transpose, _transpose, _broadcast, _concat, _split, _blocks),
)


def random_ir(seed: int, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The IR of a seed, and its inputs by name. At times, the first size of the data is left open."""
    rng = random.Random(seed)
    chain = _Chain(rng)
    shape = [rng.choice((2, 3, 4, 6)) for _ in range(rng.randint(1, 4))]
    dtype = rng.choice(DATA)
    array = np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)
    node = chain.input(array)
    for _ in range(rng.randint(2, 8)):
        if _shape(node) and prod(_shape(node)) < 600:
            node = rng.choice(STEPS)(chain, node)
            chain.values.append(node)
    results = [node]
    if rng.random() < 0.3 and len(chain.values) > 2:
        results.append(rng.choice(chain.values[:-1]))
    return save(folder, results, chain.parameters, "chain"), chain.feeds
