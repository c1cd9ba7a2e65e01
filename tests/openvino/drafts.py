"""Calls in the making: good ones. Tensors have a few hundred elements at most."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests.dialects.drafting import EXTREMES, laid_out, random_bits, some_shape
from tests.dialects.outcomes import Array
from tests.openvino.specification import INDICES, INTEGERS, Call

MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
FAR = (2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**32 + 1)


@dataclass
class Draft:
    """A call in the making: arrays are laid out at its end."""

    operation: str
    version: Any
    arrays: list[Array]
    more: dict[str, Any]

    @property
    def data(self) -> Array:
        return self.arrays[0]

    def finished(self, rng: random.Random, fault: str, seed: int) -> Call:
        data, *indices = self.arrays
        # Where an index out of range is an error, or one of them a fault, their values stay.
        same = self.operation != "Gather"
        arrays = (laid_out(rng, data), *(laid_out(rng, array, same=same) for array in indices))
        return Call(self.operation, self.version, arrays, self.more, fault, seed)


def good(
    rng: random.Random, operation: str, version: int, dtypes: Sequence[Any], index_dtypes: Sequence[Any] = INTEGERS
) -> Draft:
    """A draft without a fault. index_dtypes: those of Gather."""
    draft = Draft(operation, version, [np.zeros(())], {})
    if operation == "Gather":
        _gather(rng, draft, index_dtypes)
    else:
        draft.arrays = [np.zeros(some_shape(rng, 0 if operation == "StridedSlice" else 1, 4), np.int8)]
        _MAKERS[operation](rng, draft)
    draft.arrays[0] = random_bits(rng, np.dtype(rng.choice(dtypes)), draft.data.shape)
    return draft


def _gather(rng: random.Random, draft: Draft, index_dtypes: Sequence[Any]) -> None:
    sizes = list(some_shape(rng, 1, 5))
    axis = rng.randrange(len(sizes))
    if rng.random() < 0.1:  # beyond what narrow index types reach
        sizes = [1 if dimension != axis else rng.choice((130, 200, 257, 300)) for dimension in range(len(sizes))]
    batch = rng.randint(0, axis) if draft.version > 1 and rng.random() < 0.6 else 0
    moved = some_shape(rng, 0, 3)
    if prod((*sizes[:axis], *moved, *sizes[axis + 1 :])) > 480:
        moved = moved[:1]
    shape = (*sizes[:batch], *moved)
    draft.arrays = [np.zeros(sizes, np.int8), _anywhere(rng, shape, sizes[axis], np.dtype(rng.choice(index_dtypes)))]
    batch_dims = batch - len(shape) if draft.version > 1 and batch < len(shape) and rng.random() < 0.4 else batch
    draft.more = {"axis": _one_integer(rng, _counted(rng, axis, len(sizes))), "batch_dims": batch_dims}


def _anywhere(rng: random.Random, shape: tuple[int, ...], size: int, dtype: np.dtype[Any]) -> Array:
    """Indices, some of which are out of range of a size."""
    info = np.iinfo(dtype)
    low, high = max(info.min, -size), min(info.max, size - 1)
    far = [value for value in EXTREMES if info.min <= value <= info.max]
    outside = rng.choice((0, 0.2, 0.6))  # of an index, to be out of range

    def value() -> int:
        found = rng.randint(low, high) if low <= high else 0
        if rng.random() < outside:
            found = rng.choice((rng.choice(far), size, -size - 1, size + rng.randrange(9), -size - rng.randrange(9)))
        return max(min(found, int(info.max)), int(info.min))

    return np.array([value() for _ in range(prod(shape))], dtype).reshape(shape)


def _one_integer(rng: random.Random, axis: int) -> Any:
    """An integer, or an array of one."""
    if rng.random() < 0.6:
        return axis
    dtypes = [dtype for dtype in INTEGERS if axis >= 0 or dtype.kind == "i"]
    return np.array(axis, rng.choice(dtypes)).reshape(rng.choice(((), (1,))))


def _gather_elements(rng: random.Random, draft: Draft) -> None:
    sizes = list(draft.data.shape)
    axis = rng.randrange(len(sizes))
    size, sizes[axis] = sizes[axis], rng.choice((0, 1, 2, 3, 7)) if sizes[axis] else 0
    draft.arrays.append(_indices(rng, sizes, [size], rng.choice(INDICES["GatherElements"]))[..., 0])
    draft.more["axis"] = _counted(rng, axis, len(sizes))


def _gather_nd(rng: random.Random, draft: Draft) -> None:
    sizes = draft.data.shape
    batch = rng.randint(0, len(sizes) - 1)
    size = rng.randint(0, len(sizes) - batch)
    moved = [rng.choice((1, 2, 3)) for _ in range(rng.randint(0, 2))]
    if 0 in sizes[batch : batch + size]:
        moved = [0]
    draft.arrays.append(_indices(rng, [*sizes[:batch], *moved], sizes[batch : batch + size], rng.choice(INTEGERS)))
    draft.more["batch_dims"] = batch


def _indices(rng: random.Random, shape: Sequence[int], sizes: Sequence[int], kind: np.dtype[Any]) -> Array:
    """Tuples of positions in dimensions of these sizes."""
    found = np.zeros((*shape, len(sizes)), kind)
    for place in np.ndindex(*shape):
        found[place] = [rng.randrange(-size if kind.kind == "i" else 0, size) for size in sizes]
    return found


def _slice(rng: random.Random, draft: Draft) -> None:
    rank = draft.data.ndim
    axes = rng.sample(range(rank), rng.randint(0, rank))
    default = rng.random() < 0.3
    sizes = [draft.data.shape[axis] for axis in (range(len(axes)) if default else axes)]
    draft.more = dict(zip(("start", "stop", "step"), _bounds(rng, sizes), strict=True))
    if not default:
        draft.more["axes"] = _as_array(rng, [_counted(rng, axis, rank) for axis in axes])


def _strided_slice(rng: random.Random, draft: Draft) -> None:
    sizes = list(draft.data.shape)
    count = rng.randint(0, len(sizes))
    kinds = ["plain"] * count + ["new"] * rng.choice((0, 0, 1, 2))
    rng.shuffle(kinds)
    if rng.random() < 0.4:
        kinds.insert(rng.randint(0, len(kinds)), "ellipsis")
    hidden, axis, marks = len(sizes) - count, 0, {name: [0] * len(kinds) for name in MASKS}
    along: list[int] = []
    for k, kind in enumerate(kinds):
        marks["begin_mask"][k], marks["end_mask"][k] = (int(rng.random() < 0.3) for _ in range(2))
        marks["shrink_axis_mask"][k] = int(rng.random() < (0.3 if kind == "plain" else 0.1))
        if kind != "plain":
            marks[f"{kind}_axis_mask" if kind == "new" else "ellipsis_mask"][k] = 1
            marks["new_axis_mask"][k] |= int(rng.random() < 0.1 and kind == "ellipsis")
        along.append(sizes[axis] if kind == "plain" else 3)
        axis += {"plain": 1, "new": 0, "ellipsis": hidden}[kind]
    begin, end, strides = (list(values) for values in _bounds(rng, along))
    for k, kind in enumerate(kinds):
        if kind != "plain" or marks["shrink_axis_mask"][k]:
            strides[k] = rng.choice((strides[k], 0))
        if kind == "plain" and marks["shrink_axis_mask"][k]:
            if along[k]:
                begin[k] = rng.randrange(-along[k], along[k])
            else:
                marks["shrink_axis_mask"][k], strides[k] = 0, strides[k] or 1
    draft.more = {"begin": _as_array(rng, begin), "end": _as_array(rng, end)}
    if all(stride == 1 for stride in strides) and rng.random() < 0.5:
        strides = []
    if strides or not begin:
        draft.more["strides"] = _as_array(rng, strides)
    draft.more |= {name: _mask(rng, mask) for name, mask in marks.items()}


def _mask(rng: random.Random, mask: list[int]) -> Any:
    """The mask with fewer zeros at its end, or more."""
    while mask and not mask[-1] and rng.random() < 0.3:
        mask = mask[:-1]
    return [*mask, *[0] * rng.choice((0, 0, 0, 1, 2))]


def _bounds(rng: random.Random, sizes: Sequence[int]) -> list[list[int]]:
    """start, stop and step for dimensions of these sizes."""

    def bound(size: int) -> int:
        return rng.choice(FAR) if rng.random() < 0.05 else rng.randint(-2 * size - 2, 2 * size + 2)

    steps = [rng.choice((1, 1, 1, 2, 3, -1, -1, -2, -3, 2**40, -(2**40))) for _ in sizes]
    return [[bound(size) for size in sizes], [bound(size) for size in sizes], steps]


def _as_array(rng: random.Random, values: list[int]) -> Any:
    """A list, or an array of a type that holds the values."""
    if rng.random() < 0.5:
        return values
    kinds = [kind for kind in INTEGERS if all(np.iinfo(kind).min <= value <= np.iinfo(kind).max for value in values)]
    return np.array(values, rng.choice(kinds))


def _counted(rng: random.Random, axis: int, rank: int) -> int:
    return axis - rank if rng.random() < 0.4 else axis


_MAKERS: Mapping[str, Callable[[random.Random, Draft], None]] = {
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
}
