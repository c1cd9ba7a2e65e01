"""Random calls of PyTorch's gathers and views: good ones, and ones with a fault. PyTorch says which is which."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tests.torch.drawing import Drawing, size_of
from tests.torch.judge import TorchCall
from tests.torch.view_drafts import VIEWS


def _index_select(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    dim = at.dim(data.dim())
    high = size_of(data, dim)
    count = 1 if not data.dim() else at.rng.choice((0, 1, 2, 5)) if high else 0
    shape: tuple[int, ...] = () if count == 1 and at.rng.random() < 0.3 else (count,)
    if at.fault(0.2):
        shape = at.rng.choice(((2, 1), (1, 2), (3,)))
    return data, dim, at.indices(shape, 0, high, (torch.int32, torch.int64))


def _gather(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    dim = at.dim(data.dim())
    high = size_of(data, dim)
    shape = [at.rng.randint(0 if at.rng.random() < 0.1 else min(1, size), size) for size in data.shape]
    if shape and isinstance(dim, int) and -len(shape) <= dim < len(shape):
        shape[dim] = at.rng.randint(1, 5) if high else 0
    elif not shape and at.rng.random() < 0.5:
        shape = [at.rng.randint(1, 3)]
    if at.fault(0.3):
        shape = at.rng.choice(([*shape, 1], shape[1:], [size + 1 for size in shape]))
    return data, dim, at.indices(tuple(shape), 0, high, (torch.int32, torch.int64))


def _take(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    shape = at.shape() if data.numel() else (0, 2)
    return data, at.indices(shape, -data.numel(), data.numel(), (torch.int64,))


def _take_along_dim(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(1))
    if at.rng.random() < 0.1:
        shape = at.shape() if data.numel() else (0,)
        return data, at.indices(shape, 0, data.numel(), (torch.int32, torch.int64))
    dim = at.dim(data.dim())
    high = size_of(data, dim)
    sizes = [at.rng.choice((1, size)) if size != 1 else at.rng.randint(1, 3) for size in data.shape]
    if isinstance(dim, int) and -len(sizes) <= dim < len(sizes):
        sizes[dim] = at.rng.randint(1, 4) if high else 0
    if at.fault(0.3):
        sizes = at.rng.choice(([*sizes, 1], sizes[1:], [size + 1 for size in sizes]))
    return data, at.indices(tuple(sizes), -3 * high, 3 * high, (torch.int64,)), dim


def _embedding(at: Drawing) -> tuple[Any, ...]:
    rows = at.rng.randint(1, 6)
    weight = at.tensor((rows, at.rng.randint(0 if at.rng.random() < 0.05 else 1, 4)))
    if at.fault(0.2):
        weight = at.tensor(at.shape(0, 1) if at.rng.random() < 0.5 else at.shape(3))
    index = at.indices(at.shape(0, 3), 0, size_of(weight, 0), (torch.int32, torch.int64))
    if at.rng.random() < 0.6:
        return index, weight
    padding = at.rng.choice((rows, -rows - 1, 0.5)) if at.fault(0.5) else at.rng.choice((None, 0, -1, rows - 1))
    return index, weight, padding


def _index(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0, 5, empty=0.03))
    entries: list[Any] = []
    axis, arrays = 0, at.rng.choice(((), (3,), (2, 1)))
    while axis < data.dim() and at.rng.random() < 0.85:
        size = data.shape[axis]
        kind = at.rng.choice(("integer", "slice", "slice", "tensor", "tensor", "tensor", "list", "mask", "new", "junk", "bool"))
        if kind == "new":
            entries.append(None)
            continue
        if kind == "bool" and at.rng.random() < 0.3:
            entries.append(at.rng.choice((True, False, torch.tensor(True), torch.tensor(1, dtype=torch.uint8))))
            continue
        if kind == "integer" and size:
            entries.append(at.among_index(at.rng.randrange(-size, size), size))
        elif kind in ("tensor", "list") and size:
            spread = (
                tuple(1 if at.rng.random() < 0.2 else each for each in arrays)
                if at.rng.random() < 0.8 or not arrays
                else arrays[1:]
            )
            if at.fault(0.1):
                spread = (7, 5)
            found = at.indices(spread, -size, size, (torch.int32, torch.int64, torch.int64))
            entries.append(found.tolist() if kind == "list" and found.dim() and found.dtype is torch.int64 else found)
        elif kind == "mask" and not arrays and axis + 1 < data.dim() and at.rng.random() < 0.4:
            entries.append(at.mask(data.shape[axis : axis + 2]))
            axis += 1
        elif kind == "mask" and not arrays:
            entries.append(at.mask((size + 1 if at.fault(0.2) else size,)))
        elif kind == "junk" and at.fault(0.3):
            entries.append(
                at.rng.choice((1.5, "a", slice(1.5), slice(None, None, -1), slice(None, None, 0), 2**63, torch.zeros(2)))
            )
        else:
            start, stop = (at.rng.choice((None, 0, 1, -1, 2, -9, 9)) for _ in range(2))
            entries.append(slice(start, stop, at.rng.choice((None, 1, 2, 3))))
        axis += 1
    if at.rng.random() < 0.3:
        place = at.rng.randint(0, len(entries))
        # what stands behind an ellipsis is for the last dimensions, so nothing does unless all are named
        entries.insert(place if axis == data.dim() else len(entries), ...)
    if at.fault(0.05):
        entries += [0] * (data.dim() + 1)
    if len(entries) == 1 and at.rng.random() < 0.7:
        return data, entries[0]
    return data, tuple(entries)


GATHERS: Mapping[str, Callable[[Drawing], tuple[Any, ...]]] = {
    "embedding": _embedding,
    "gather": _gather,
    "index": _index,
    "index_select": _index_select,
    "take": _take,
    "take_along_dim": _take_along_dim,
}

MAKERS = dict(sorted({**GATHERS, **VIEWS}.items()))
"""By the names of the operations."""


def draft(rng: random.Random, operation: str, *, faulty: bool) -> TorchCall:
    """A random call of an operation; a faulty one has a fault, if its draw found a place for one."""
    return TorchCall(operation, MAKERS[operation](Drawing(rng, faulty)))
