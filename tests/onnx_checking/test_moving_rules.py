"""Rules that move elements: on arrays against onnxruntime, in every version; on stand-ins, the shapes of the same results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from dmlgather.onnx_checking.following.moving_rules import ShapeArray
from dmlgather.onnx_checking.following.operators import compute
from tests.onnx.auxiliary_drafts import draft, versions
from tests.onnx_checking.sessions import run_node

Array = np.ndarray[Any, Any]
Drawn = tuple[list[Array], dict[str, Any], int]
"""The inputs of a node, data first; its attributes; the number of its outputs."""


def some_data(rng: random.Random, least: int = 0) -> Array:
    shape = [rng.randint(1, 4) for _ in range(rng.randint(least, 4))]
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def flatten(rng: random.Random, opset: int) -> Drawn:
    data = some_data(rng, 1)
    return [data], {"axis": rng.randint(-data.ndim if opset >= 11 else 0, data.ndim)}, 1


def expand(rng: random.Random, _: int) -> Drawn:
    data = some_data(rng)
    shape = [rng.randint(1, 3) if size == 1 else rng.choice((1, size)) for size in data.shape]
    return [data, np.array([*([2] * rng.randint(0, 2)), *shape], np.int64)], {}, 1


def tile(rng: random.Random, _: int) -> Drawn:
    data = some_data(rng, 1)
    counts = [rng.randint(0, 3 if axis == data.ndim - 1 else 1) for axis in range(data.ndim)]  # results are small, or not kept
    return [data, np.array(rng.sample(counts, len(counts)), np.int64)], {}, 1


def concat(rng: random.Random, _: int) -> Drawn:
    data = some_data(rng, 1)
    axis = rng.randrange(data.ndim)
    others = [np.repeat(data, rng.randint(1, 2), axis) for _ in range(rng.randint(0, 2))]
    return [data, *others], {"axis": axis}, 1


def split(rng: random.Random, opset: int) -> Drawn:
    """Equal parts, a smaller last one from opset 18 on, and stated sizes as an attribute or an input."""
    data = some_data(rng, 1)
    axis = rng.randrange(data.ndim)
    size = data.shape[axis]
    first = rng.randint(0, size)
    if opset < 13:
        return [data], {"axis": axis, "split": [first, size - first]}, 2
    if opset >= 18 and rng.random() < 0.5:
        return [data], {"axis": axis, "num_outputs": (size + 1) // 2}, (size + 1) // 2
    return [data, np.array([first, size - first], np.int64)], {"axis": axis}, 2


DRAWN: dict[str, tuple[Callable[[random.Random, int], Drawn], tuple[int, ...]]] = {
    "Flatten": (flatten, (9, 11, 13, 21)),
    "Expand": (expand, (8, 13)),
    "Tile": (tile, (6, 13)),
    "Concat": (concat, (4, 11, 13)),
    "Split": (split, (2, 11, 13, 18)),
}
"""How calls are drawn, and the opsets that brought another version."""


@pytest.mark.parametrize("operator", DRAWN)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**63))
def test_moved_as_onnxruntime_says(operator: str, seed: int) -> None:
    rng = random.Random(seed)
    drawn, opsets = DRAWN[operator]
    opset = rng.choice(opsets)
    inputs, attributes, count = drawn(rng, opset)
    names = [f"x{number}" for number in range(len(inputs))]
    node = helper.make_node(operator, names, [f"y{number}" for number in range(count)], **attributes)
    found = compute(node, opset, inputs)
    expected = run_node(node, inputs, opset)
    for one, other in zip(found if isinstance(found, list) else [found], expected, strict=True):
        assert (one.shape, one.tobytes()) == (other.shape, other.tobytes())
    moved = len(inputs) if operator == "Concat" else 1
    on_shapes = compute(node, opset, [*map(stand_in, inputs[:moved]), *inputs[moved:]])
    shapes = [each.shape for each in (on_shapes if isinstance(on_shapes, list) else [on_shapes])]
    assert shapes == [each.shape for each in expected]


@pytest.mark.parametrize("version", versions("Identity", "Squeeze", "Unsqueeze", "Reshape", "Transpose"), ids=str)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**63))
def test_shapes_are_those_of_what_is_moved(version: Any, seed: int) -> None:
    found = draft(random.Random(seed), version)
    data, *rest = found.inputs
    assert compute(found.node, version.since, [stand_in(data), *rest]).shape == found.run().shape


@pytest.mark.parametrize("axis", [0, 1])
def test_tile_repeats_along_one_axis_before_version_6(axis: int) -> None:
    """NumPy is the judge: onnxruntime has no such version."""
    data, node = np.arange(6, dtype=np.float32).reshape(2, 3), helper.make_node("Tile", ["x", "tiles", "axis"], ["y"])
    rest = [np.array([3]), np.array([axis])]
    expected = np.concatenate([data] * 3, axis)
    assert compute(node, 1, [data, *rest]).tolist() == expected.tolist()
    assert compute(node, 1, [stand_in(data), *rest]).shape == expected.shape


def test_a_size_that_is_not_known_takes_part_in_no_arithmetic() -> None:
    data = ShapeArray((object(), 4), np.dtype(np.float32))
    assert compute(helper.make_node("Transpose", ["x"], ["y"]), 13, [data]).shape == data.shape[::-1]
    for operator, more in (("Flatten", []), ("Tile", [np.array([2, 1])]), ("Expand", [np.array([1, 4])])):
        with pytest.raises(TypeError):
            compute(helper.make_node(operator, ["x", "n"][: 1 + len(more)], ["y"]), 13, [data, *more])
    with pytest.raises(TypeError):
        compute(helper.make_node("Split", ["x"], ["y", "z"], axis=1), 13, [data])


def stand_in(array: Array) -> ShapeArray:
    return ShapeArray(array.shape, array.dtype)
