"""Random good ONNX nodes of up to ten dimensions, with their arrays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import FeatureLevel
from tests.dialects.binding import held
from tests.dialects.drafting import sizes_within
from tests.directml.pages import PAGES
from tests.onnx import specification
from tests.onnx.described import NAMES, Node
from tests.onnx.drafts import DTYPES, elements

NUMBERS = tuple(kind for kind in DTYPES if np.dtype(kind).kind not in "OUST")


def drawn(seed: int, level: FeatureLevel) -> Node:
    """The good node of a seed, mostly of a data type that DirectML has at `level`."""
    rng = random.Random(seed)
    operator = rng.choice(list(NAMES))
    opset = rng.choice([opset for opset in (1, 10, 11, 12, 13, 16, 28) if opset >= specification.VERSIONS[operator][0]])
    page = PAGES[NAMES[operator]]
    known = page.at(max(level, page.introduced)).data
    wanted = [kind for kind in NUMBERS if held(np.dtype(kind))[0] in known or rng.random() < 0.1]
    if opset < 13:
        wanted = [kind for kind in wanted if np.dtype(kind).name != "bfloat16"]
    kind = np.dtype(rng.choice(wanted))
    return _MAKERS[operator](rng, opset, kind)


def _rank(rng: random.Random) -> int:
    return rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 10))


def _index_values(rng: random.Random, shape: Sequence[int], size: int, kind: Any, *, wraps: bool = True) -> NDArray[Any]:
    values = [rng.randint(-size if wraps else 0, size - 1) for _ in range(prod(shape))]
    return np.array(values, kind).reshape(shape)


def _around(rng: random.Random, room: int, size: int) -> list[int]:
    """Dimensions of indices into an axis of `size`; without an element where that is 0."""
    found = sizes_within(rng, rng.choice((0, 0, 1, 1, 2, 3, 5, 9)), room)
    return found if size else [*found, 0]


def _gather(rng: random.Random, opset: int, kind: np.dtype[Any]) -> Node:
    sizes = sizes_within(rng, _rank(rng), 60)
    axis = rng.randrange(len(sizes))
    shape = _around(rng, 8, sizes[axis])
    indices = _index_values(rng, shape, sizes[axis], rng.choice(("int32", "int64")), wraps=opset >= 11)
    return Node("Gather", opset, elements(rng, kind, tuple(sizes)), indices, {"axis": rng.choice((axis, axis - len(sizes)))})


def _gather_elements(rng: random.Random, opset: int, kind: np.dtype[Any]) -> Node:
    thin = rng.random() < 0.15
    sizes = [3] * rng.choice((5, 6)) if thin else sizes_within(rng, _rank(rng), 200)
    axis = rng.randrange(len(sizes))
    smaller = rng.choice((0.0, 0.5))
    shape = [2 if thin else rng.randint(min(1, size), size) if rng.random() < smaller else size for size in sizes]
    shape[axis] = rng.randint(1, 4) if sizes[axis] else 0
    indices = _index_values(rng, shape, sizes[axis], rng.choice(("int32", "int64")))
    return Node(
        "GatherElements", opset, elements(rng, kind, tuple(sizes)), indices, {"axis": rng.choice((axis, axis - len(sizes)))}
    )


def _gather_nd(rng: random.Random, opset: int, kind: np.dtype[Any]) -> Node:
    sizes = sizes_within(rng, _rank(rng), 100)
    batch = rng.choice((0, 0, rng.randrange(len(sizes)))) if opset >= 12 else 0
    count = rng.choice((0, 1, 1, rng.randint(0, len(sizes) - batch), len(sizes) - batch))
    count = min(count, len(sizes) - batch)
    indexed = sizes[batch : batch + count]
    tuples = [*sizes[:batch], *_around(rng, 6, prod(indexed))]
    columns = [_index_values(rng, tuples, size, "int64") for size in indexed]
    indices = np.stack(columns, -1) if columns else np.empty((*tuples, 0), np.int64)
    named = {"batch_dims": batch} if opset >= 12 and rng.random() < 0.8 + batch else {}
    return Node("GatherND", opset, elements(rng, kind, tuple(sizes)), indices, named)


def _slice(rng: random.Random, opset: int, kind: np.dtype[Any]) -> Node:
    sizes = sizes_within(rng, 0 if rng.random() < 0.03 else _rank(rng), 300)
    axes = rng.sample(range(len(sizes)), rng.choice((rng.randint(0, len(sizes)), len(sizes))))
    backwards = rng.choice((0.0, 0.4)) if opset >= 10 else 0.0
    bounds = [_bounds(rng, sizes[axis], backwards=rng.random() < backwards) for axis in axes]
    starts, ends, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
    named: dict[str, Any] = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    if opset < 10 or (not backwards and rng.random() < 0.2):
        del named["steps"]
    if opset >= 10:
        named = {name: np.array(values, np.int64) for name, values in named.items()}
    return Node("Slice", opset, elements(rng, kind, tuple(sizes)), None, named)


def _bounds(rng: random.Random, size: int, *, backwards: bool) -> tuple[int, int, int]:
    """Start, end and step for an axis of that size; seldom of an empty window."""
    first = rng.choice((0, 0, rng.randint(0, max(size - 1, 0))))
    last = rng.randint(first, max(size - 1, first)) if rng.random() < 0.98 else first - 1
    step = rng.choice((1, 1, 1, 2, 3, 2**63 - 1))
    if backwards:
        return rng.choice((last, last - size) if last < size - 1 else (-1, 2**40)), first - 1 if first else -(2**63), -step
    return rng.choice((first, first - size)), last + 1 if last < size - 1 else rng.choice((size, 2**63 - 1)), step


def _blocks(rng: random.Random, *, mode: bool) -> tuple[list[int], int, dict[str, Any]]:
    size = rng.choice((1, 2, 2, 3))
    return sizes_within(rng, 4, 24), size, {"blocksize": size} | ({"mode": rng.choice(("DCR", "CRD"))} if mode else {})


def _depth_to_space(rng: random.Random, opset: int, kind: np.dtype[Any]) -> Node:
    (n, c, h, w), size, named = _blocks(rng, mode=opset >= 11)
    return Node("DepthToSpace", opset, elements(rng, kind, (n, c * size**2, h, w)), None, named)


def _space_to_depth(rng: random.Random, opset: int, kind: np.dtype[Any]) -> Node:
    (n, c, h, w), size, named = _blocks(rng, mode=opset >= 28)
    return Node("SpaceToDepth", opset, elements(rng, kind, (n, c, h * size, w * size)), None, named)


_MAKERS = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
