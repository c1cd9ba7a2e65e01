"""Random calls of PyTorch's views: good ones, and ones with a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tests.torch.drawing import Drawing, size_of


def _select(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1, empty=0.02))
    dim = at.dim(data.dim())
    size = size_of(data, dim)
    return data, dim, at.among(at.rng.randrange(-size, size) if size else 0, size, -size - 1)


def _narrow(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1))
    dim = at.dim(data.dim())
    size = size_of(data, dim)
    start = at.rng.randint(-size, size)
    room = size - (start + size if start < 0 else start)
    return data, dim, at.among(start, size + 1, -size - 1), at.among(at.rng.randint(0, room), room + 1, -1)


def _slice(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1))

    def bound() -> int | None:
        return at.rng.choice((None, 0, 1, 2, -1, -2, 5, -9, 2**63 - 1, -(2**63)))

    return data, _plain(at.dim(data.dim())), bound(), bound(), _plain(at.among(at.rng.choice((1, 1, 2, 3, 2**40)), 0, -1))


def _plain(value: Any) -> Any:
    """aten's operators take no tensors for integers."""
    return int(value) if isinstance(value, torch.Tensor) else value


def _flip(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    rank = data.dim()
    dims = [axis - rank * at.rng.randint(0, 1) for axis in at.rng.sample(range(rank), at.rng.randint(0, rank))]
    return data, at.sequence(dims, 0, range(1), "a")


def _chunk(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1))
    return data, at.among(at.rng.randint(1, 6), 0, -1), at.dim(data.dim())


def _split(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1))
    dim = at.dim(data.dim())
    size = size_of(data, dim)
    if at.rng.random() < 0.5:
        return data, at.among(at.rng.randint(1, 6), 0, -1), dim
    cuts = sorted(at.rng.randint(0, size) for _ in range(at.rng.randint(0, 3)))
    parts = [end - start for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
    return data, at.sequence(parts, [size + 1, -1], range(size)), dim


def _tensor_split(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1))
    dim = at.dim(data.dim())
    if at.rng.random() < 0.4:
        return data, at.among(at.rng.randint(1, 6), 0, -1), dim
    places: Any = [at.rng.randint(-6, 6) for _ in range(at.rng.randint(0, 3))]
    if at.rng.random() < 0.2:
        kind = at.rng.choice((torch.int32, torch.float32)) if at.fault() else torch.int64
        return data, torch.tensor([places] if at.fault() else places, dtype=kind), dim
    if at.fault(0.3):
        return data, at.rng.choice(([*places, 1.5], [True], range(2), "a")), dim
    return data, at.rng.choice((list, tuple))(places), dim


def _permute(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    rank = data.dim()
    return data, at.sequence([axis - rank * at.rng.randint(0, 1) for axis in at.rng.sample(range(rank), rank)], 0)


def _transpose(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    return data, at.dim(data.dim()), at.dim(data.dim())


def _expand(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(empty=0.03))
    sizes = [at.rng.choice((-1, size if size != 1 else at.rng.randint(0, 3))) for size in data.shape]
    new = [at.rng.randint(0 if at.rng.random() < 0.1 else 1, 3) for _ in range(at.rng.choice((0, 0, 1, 2)))]
    if at.fault(0.5):
        return data, at.rng.choice(([-1, *new, *sizes], [*new, *sizes[1:]], [size + 1 for size in sizes], [*new, *sizes, 9]))
    return data, (*new, *sizes)


def _unfold(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    dim = at.dim(data.dim())
    size = size_of(data, dim)
    return data, dim, at.among(at.rng.randint(0, size), size + 1, -1), at.among(at.rng.choice((1, 1, 2, 7, 2**40)), 0, -1)


def _diagonal(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(2))
    first, second = at.rng.sample(range(data.dim()), 2)
    if at.fault(0.3):
        second = at.rng.choice((first, data.dim(), -9))
    return data, at.among(at.rng.randint(-6, 6)), first - data.dim() * at.rng.randint(0, 1), second


def _as_strided(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(1, empty=0))
    count = data.untyped_storage().nbytes() // data.dtype.itemsize
    while True:
        sizes = [at.rng.randint(0 if at.rng.random() < 0.05 else 1, 4) for _ in range(at.rng.randint(0, 3))]
        strides = [at.rng.choice((0, 1, 1, 2, 3, 5)) for _ in sizes]
        start = at.rng.choice((None, 0, at.rng.randint(0, count - 1)))
        first = data.storage_offset() if start is None else start
        if 0 in sizes or first + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True)) < count:
            break
    if at.fault(0.5):
        # of several values that do not fit, PyTorch looks at one first
        return at.rng.choice(
            ((data, sizes, [*strides, 1], start), (data, [*sizes, 2], [*strides, count], 0), (data, sizes, strides, -1))
        )
    return data, sizes, strides, start


def _pixel_shuffle(at: Drawing) -> tuple[Any, ...]:
    factor = at.rng.choice((1, 2, 3))
    *batch, channels, rows, columns = at.shape(3, 5)
    data = at.tensor((*batch, channels * factor**2, rows, columns))
    if at.fault(0.3):
        data = at.tensor(at.rng.choice(((4, 2), (3,), (5, 2, 2), (2, 6, 1, 2))))
    return data, at.among(factor, 0, -1, 7)


def _pixel_unshuffle(at: Drawing) -> tuple[Any, ...]:
    factor = at.rng.choice((1, 2, 3))
    *batch, channels, rows, columns = at.shape(3, 5, empty=0)
    data = at.tensor((*batch, channels, rows * factor, columns * factor))
    if at.fault(0.3):
        data = at.tensor(at.rng.choice(((4, 2), (3,), (2, 2, 5), (2, 5, 2))))
    return data, at.among(factor, 0, -1, 7)


def _roll(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    rank = data.dim()
    if at.rng.random() < 0.3 or not rank:
        return data, at.among(at.rng.randint(-9, 9), (), (1, 2))
    dims = [at.rng.randrange(-rank, rank) for _ in range(at.rng.randint(1, 3))]
    shifts = [at.rng.choice((0, 1, -2, 7, 2**62)) for _ in dims]
    if len(dims) == 1 and at.rng.random() < 0.5:
        return data, at.among(shifts[0], (1, 2)), at.dim(rank)
    return data, at.sequence(shifts, ()), dims


VIEWS: Mapping[str, Callable[[Drawing], tuple[Any, ...]]] = {
    "as_strided": _as_strided,
    "chunk": _chunk,
    "diagonal": _diagonal,
    "expand": _expand,
    "flip": _flip,
    "narrow": _narrow,
    "permute": _permute,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "roll": _roll,
    "select": _select,
    "slice": _slice,
    "split": _split,
    "tensor_split": _tensor_split,
    "transpose": _transpose,
    "unfold": _unfold,
}
"""By the names of the operations."""
