"""Random models that look up tuples: GatherND with constant positions of every kind, between transpositions."""

from __future__ import annotations

import random
from math import prod

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, helper, numpy_helper

from tests.dialects.brackets import KeyDrawing, Spelling, random_bits
from tests.onnx.random_chains import LARGEST, Feeds

TYPES = ("float32", "int64", "uint8", "float16", "bool", "int32", "float64")


def random_tuples(rng: random.Random) -> tuple[ModelProto, Feeds]:
    """One to three GatherNDs, of which each reads what the one before it gives, and the array that the first one reads."""
    data = random_bits(rng, rng.choice(TYPES))
    nodes, constants, value, shape = [], [], "x", data.shape
    far = rng.choice((0.0, 0.0, 0.15))
    for number in range(rng.randint(1, 3)):
        order = rng.sample(range(len(shape)), len(shape))
        turned = tuple(shape[axis] for axis in order)
        batch = rng.choice((0, 0, rng.randrange(len(shape))))
        tuples, following = _tuples(rng, turned, batch, far)
        if prod(following) > LARGEST or len(following) > 6 or 0 in following:  # where nothing is written, no index is looked at
            break
        constants.append(numpy_helper.from_array(tuples, f"tuples{number}"))
        nodes.append(helper.make_node("Transpose", [value], [f"turned{number}"], perm=order))
        nodes.append(helper.make_node("GatherND", [f"turned{number}", f"tuples{number}"], [f"y{number}"], batch_dims=batch))
        value, shape = f"y{number}", following
        if not shape:
            break
    nodes.append(helper.make_node("Identity", [value], ["y"]))
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    inputs = [helper.make_tensor_value_info("x", kind, data.shape)]
    graph = helper.make_graph(nodes, "tuples", inputs, [helper.make_tensor_value_info("y", kind, shape)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", rng.choice((12, 13, 17)))], ir_version=8)
    return model, {"x": data}


def _tuples(rng: random.Random, shape: tuple[int, ...], batch: int, far: float) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Index tuples for data of a shape, of shape [batch…, positions…, components], and the shape of what they look up."""
    components = rng.randint(1, len(shape) - batch)
    draw = KeyDrawing(rng, shape, Spelling(types=("int64",)), far)
    positions = () if rng.random() < 0.1 and 0 not in shape else draw.places
    places = (*shape[:batch], *positions)
    shapes = [places if rng.random() < 0.5 else draw.spread(places) for _ in range(components)]
    arrays = [draw.array(batch + number, shape) for number, shape in enumerate(shapes)]
    tuples = np.stack([np.broadcast_to(array, places) for array in arrays], -1)
    return np.ascontiguousarray(tuples), (*places, *shape[batch + components :])
