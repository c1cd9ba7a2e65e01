"""Calls in the making: good ones. Tensors have a few hundred elements at most."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects.drafting import laid_out, random_bits, some_shape
from tests.dialects.outcomes import Array
from tests.onnx.specification import BOUNDS, Call, listed, type_name

DTYPES: tuple[Any, ...] = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", ml_dtypes.bfloat16),
    *("O", "U", "S", "T"),
)
"""NumPy's forms of the data types of the newest versions; the last four hold strings."""

EXTREMES = (2**31, 2**32, 2**32 + 1, -(2**32), -(2**63), 2**63 - 1, -(2**31), 2**31 - 1, -(2**31) - 1)
WORDS = ("", "a", "bb", "Gather", "naïve", "日本語", "a longer string than small-string storage holds", " ", "0")


@dataclass
class Draft:
    """A call in the making. `named` holds the bounds of Slice as lists until `finished`."""

    operator: str
    opset: int
    data: Array
    indices: Any
    named: dict[str, Any]


def _bounds(rng: random.Random, size: int) -> tuple[int, int, int]:
    start, end = (rng.choice(EXTREMES) if rng.random() < 0.2 else rng.randint(-2 * size - 2, 2 * size + 2) for _ in range(2))
    step = rng.choice(EXTREMES) if rng.random() < 0.1 else rng.choice((1, 1, 2, 3, 7, -1, -1, -1, -2, -3, -100))
    return start, end, step


@dataclass(frozen=True)
class Sizes:
    """How a call's sizes are drawn. data: of at least so many dimensions. around: of indices. bounds: start, end and step of an
    axis of a size.
    """

    data: Callable[[random.Random, int], tuple[int, ...]] = lambda rng, least: some_shape(rng, least, 4)
    around: Callable[[random.Random], tuple[int, ...]] = lambda rng: some_shape(rng, 0, 3)
    bounds: Callable[[random.Random, int], tuple[int, int, int]] = _bounds


SMALL = Sizes()


def good(rng: random.Random, operator: str, opset: int) -> Draft:
    """A draft without a fault."""
    dtypes = [item for item in DTYPES if type_name(np.dtype(item)) in listed(operator, opset, "data")]
    return MAKERS[operator](rng, opset, rng.choice(dtypes), SMALL)


def elements(rng: random.Random, dtype: Any, shape: tuple[int, ...]) -> Array:
    """Random bits; random words for strings."""
    kind, count = np.dtype(dtype), prod(shape)
    if kind.kind in "OUST":
        words = [word.encode().decode("ascii", "ignore") if kind.kind == "S" else word for word in WORDS]
        return np.array([rng.choice(words) for _ in range(count)], dtype).reshape(shape)
    if type_name(kind) in ("tensor(int4)", "tensor(uint4)"):
        return np.array([rng.randrange(8) for _ in range(count)]).astype(kind).reshape(shape)
    return random_bits(rng, kind, shape)


def _values(rng: random.Random, shape: tuple[int, ...], size: int, dtype: str, *, wraps: bool = True) -> Array:
    """Valid indices for an axis of that size."""
    return np.array([rng.randint(-size if wraps else 0, size - 1) for _ in range(prod(shape))], dtype).reshape(shape)


def _axis(rng: random.Random, named: dict[str, Any], rank: int) -> int:
    """An axis, counted from either end or left out where it is the default."""
    axis = rng.randrange(rank)
    if axis or rng.random() < 0.7:
        named["axis"] = axis - rank if rng.random() < 0.4 else axis
    return axis


def _gather(rng: random.Random, opset: int, dtype: Any, sizes: Sizes) -> Draft:
    shape = sizes.data(rng, 1)
    named: dict[str, Any] = {}
    axis = _axis(rng, named, len(shape))
    around = sizes.around(rng)
    if not shape[axis] and 0 not in around:
        around = (*around, 0)
    indices = _values(rng, around, shape[axis], rng.choice(("int32", "int64")), wraps=opset >= 11)
    return Draft("Gather", opset, elements(rng, dtype, shape), indices, named)


def _gather_elements(rng: random.Random, opset: int, dtype: Any, sizes: Sizes) -> Draft:
    shape = sizes.data(rng, 1)
    named: dict[str, Any] = {}
    axis = _axis(rng, named, len(shape))
    taken = [size if rng.random() < 0.6 else rng.randint(min(size, 1), size) for size in shape]
    taken[axis] = rng.choice((1, 2, 3, 6)) if shape[axis] else 0
    indices = _values(rng, tuple(taken), shape[axis], rng.choice(("int32", "int64")))
    return Draft("GatherElements", opset, elements(rng, dtype, shape), indices, named)


def _gather_nd(rng: random.Random, opset: int, dtype: Any, sizes: Sizes) -> Draft:
    shape = sizes.data(rng, 1)
    named: dict[str, Any] = {}
    batch = rng.choice((0, 0, *range(len(shape)))) if opset >= 12 else 0
    if batch or (rng.random() < 0.3 and opset >= 12):
        named["batch_dims"] = batch
    count = rng.choice((*range(len(shape) - batch + 1), len(shape) - batch))
    tuples = (*shape[:batch], *sizes.around(rng)[:2])
    looked_up = shape[batch : batch + count]
    if 0 in looked_up and 0 not in tuples:
        tuples = (*tuples, 0)
    columns = [_values(rng, tuples, size, "int64") for size in looked_up]
    indices = np.stack(columns, -1) if columns else np.empty((*tuples, 0), np.int64)
    return Draft("GatherND", opset, elements(rng, dtype, shape), indices, named)


def _slice(rng: random.Random, opset: int, dtype: Any, sizes: Sizes) -> Draft:
    shape = sizes.data(rng, 0)
    count = rng.randint(0, len(shape))
    axes = rng.sample(range(len(shape)), count)
    named: dict[str, Any] = {}
    if rng.random() < 0.3:
        axes = list(range(count))
    else:
        named["axes"] = [axis - len(shape) if rng.random() < 0.3 else axis for axis in axes]
    bounds = [sizes.bounds(rng, shape[axis]) for axis in axes]
    named |= {name: [each[number] for each in bounds] for number, name in enumerate(("starts", "ends"))}
    if opset >= 10 and rng.random() < 0.8:
        named["steps"] = [step for *_, step in bounds]
    return Draft("Slice", opset, elements(rng, dtype, shape), None, named)


def _blocks(rng: random.Random, modes: bool) -> tuple[int, dict[str, Any], list[int]]:
    """Size of a block, attributes, and [n, c, h, w] of the part that blocks come on top of."""
    block = rng.choice((1, 2, 2, 3, 4))
    sizes = list(some_shape(rng, 4, 4))
    while prod(sizes) * block**2 > 400:
        sizes[sizes.index(max(sizes))] = 1
    return block, {"blocksize": block} | ({"mode": rng.choice(("DCR", "CRD"))} if modes and rng.random() < 0.8 else {}), sizes


def _depth_to_space(rng: random.Random, opset: int, dtype: Any, sizes: Sizes) -> Draft:
    block, named, (n, c, h, w) = _blocks(rng, opset >= 11)
    return Draft("DepthToSpace", opset, elements(rng, dtype, (n, c * block**2, h, w)), None, named)


def _space_to_depth(rng: random.Random, opset: int, dtype: Any, sizes: Sizes) -> Draft:
    block, named, (n, c, h, w) = _blocks(rng, opset >= 28)
    return Draft("SpaceToDepth", opset, elements(rng, dtype, (n, c, h * block, w * block)), None, named)


MAKERS: dict[str, Callable[[random.Random, int, Any, Sizes], Draft]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}


def finished(rng: random.Random, draft: Draft, fault: str, seed: int) -> Call:
    """The call of a draft: arrays laid out, bounds as lists, tuples or arrays of one type."""
    arrays = [draft.data] if draft.indices is None else [draft.data, draft.indices]
    lists = [name for name in BOUNDS if isinstance(draft.named.get(name), list)]
    numbers = [value for name in lists for value in draft.named[name]]
    forms: list[Callable[[list[int]], Any]] = [list, tuple, lambda values: np.array(values, np.int64)]
    if draft.opset >= 10 and all(-(2**31) <= value < 2**31 for value in numbers):
        forms.append(lambda values: np.array(values, np.int32))
    form = rng.choice(forms)
    named = draft.named | {name: form(draft.named[name]) for name in lists}
    return Call(draft.operator, draft.opset, tuple(laid_out(rng, array, same=True) for array in arrays), named, fault, seed)
