"""Random calls of PyTorch's gathers and views: good ones, and ones with a fault. PyTorch says which is which."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tests.torch.judge import TorchCall

EVERYWHERE = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
)
"""Types that every operator of PyTorch takes."""

SOMEWHERE = (
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)
"""Types that some of PyTorch's operators take, and all of dmlgather's."""

JUNK = (1.5, True, "a", None, 2**63, -(2**70), 0.0)
"""What is no integer of 64 bits."""


class Drawing:
    """Draws tensors and arguments. faulty: whether the next argument that may be wrong is wrong; at most one is."""

    def __init__(self, rng: random.Random, faulty: bool) -> None:
        self.rng, self.faulty = rng, faulty

    def fault(self, chance: float = 0.4) -> bool:
        """Whether to make a fault here."""
        if self.faulty and self.rng.random() < chance:
            self.faulty = False
            return True
        return False

    def shape(self, least: int = 0, most: int = 4, *, empty: float = 0.06) -> tuple[int, ...]:
        """Sizes, sometimes 0."""
        rank = self.rng.randint(least, most)
        return tuple(0 if self.rng.random() < empty else self.rng.randint(1, 5) for _ in range(rank))

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> torch.Tensor:
        """Random bits, packed or not."""
        rng = self.rng
        dtype = dtype or rng.choice(EVERYWHERE if rng.random() < 0.85 else SOMEWHERE)
        order = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.4 else list(range(len(shape)))
        apart = [rng.choice((1, 1, 2)) if rng.random() < 0.3 else 1 for _ in shape]
        stored = [shape[axis] * apart[axis] for axis in order]
        count = 1
        for size in stored:
            count *= size
        lead = rng.choice((0, 0, 3))
        made = _random(rng, lead + count, dtype)[lead:].reshape(stored)
        made = made.permute([order.index(axis) for axis in range(len(shape))])
        made = made[tuple(slice(None, None, step) for step in apart)] if shape else made
        if shape and rng.random() < 0.1:
            axis = rng.randrange(len(shape))
            made = made.narrow(axis, 0, min(1, shape[axis])).expand(shape)
        if dtype.is_complex and rng.random() < 0.3:
            made = made.conj()
        assert made.shape == shape
        return made

    def indices(self, shape: tuple[int, ...], low: int, high: int, dtypes: tuple[torch.dtype, ...]) -> torch.Tensor:
        """Indices from low to high - 1, perhaps with one that is not, or of another type."""
        rng = self.rng
        dtype = rng.choice(dtypes)
        if self.fault(0.15):
            return torch.zeros(shape, dtype=rng.choice((torch.int16, torch.float32, torch.bool, torch.uint8, torch.uint32)))
        count = 1
        for size in shape:
            count *= size
        values = [rng.randrange(low, high) if high > low else 0 for _ in range(count)]
        if values and self.fault():
            far = [low - 1, high, high + 3, -(2**31)] + ([2**40, -(2**63), 2**63 - 1] if dtype is torch.int64 else [2**31 - 1])
            values[rng.randrange(count)] = rng.choice(far)
        made = torch.tensor(values, dtype=dtype).reshape(shape)
        return made.t().contiguous().t() if made.dim() == 2 and rng.random() < 0.3 else made

    def dim(self, rank: int, *, scalar: bool = True) -> Any:
        """A dimension, of either sign; or a fault."""
        count = max(rank, 1) if scalar else rank
        if self.fault(0.25):
            return self.rng.choice((count, count + 2, -count - 1, *JUNK))
        return self.number(self.rng.randrange(-count, count)) if count else 0

    def number(self, value: int) -> Any:
        """An integer, now and then as a tensor."""
        return torch.tensor(value) if self.rng.random() < 0.05 else value

    def among(self, good: int, *bad: Any) -> Any:
        """The good integer, or one of the bad values."""
        return self.rng.choice((*bad, *JUNK)) if self.fault(0.3) else self.number(good)

    def among_index(self, good: int, size: int) -> Any:
        """An integer in brackets, or a fault."""
        return self.rng.choice((size, -size - 1, 2**40)) if self.fault(0.3) else self.number(good)

    def mask(self, shape: tuple[int, ...]) -> torch.Tensor:
        """A random mask."""
        made = torch.zeros(shape, dtype=torch.uint8)
        for place in torch.ones(shape).nonzero():
            made[tuple(place)] = self.rng.random() < 0.5
        return made if self.rng.random() < 0.2 else made.bool()

    def sequence(self, values: list[Any], *bad: Any) -> Any:
        """The values as a list or a tuple, or a fault."""
        rng = self.rng
        if self.fault(0.3):
            wrong = [[*values, 7], [*values, *values[:1]], values[1:], [*values[:-1], -9], [*values[:-1], rng.choice(JUNK)], *bad]
            return rng.choice(wrong)
        return rng.choice((list, tuple))(values)


def _random(rng: random.Random, count: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([rng.random() < 0.5 for _ in range(count)], dtype=torch.bool)
    raw = rng.randbytes(count * dtype.itemsize)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype) if raw else torch.zeros(0, dtype=dtype)


def _size(tensor: torch.Tensor, dim: Any, default: int = 1) -> int:
    """The size of a dimension that may be a fault."""
    try:
        return int(tensor.shape[dim])
    except (IndexError, TypeError, RuntimeError, OverflowError):
        return default


def _index_select(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    dim = at.dim(data.dim())
    high = _size(data, dim)
    count = 1 if not data.dim() else at.rng.choice((0, 1, 2, 5)) if high else 0
    shape: tuple[int, ...] = () if count == 1 and at.rng.random() < 0.3 else (count,)
    if at.fault(0.2):
        shape = at.rng.choice(((2, 1), (1, 2), (3,)))
    return data, dim, at.indices(shape, 0, high, (torch.int32, torch.int64))


def _gather(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape())
    dim = at.dim(data.dim())
    high = _size(data, dim)
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
        return data, at.indices(shape, 0, data.numel(), (torch.int64,))
    dim = at.dim(data.dim())
    high = _size(data, dim)
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
    index = at.indices(at.shape(0, 3), 0, _size(weight, 0), (torch.int32, torch.int64))
    if at.rng.random() < 0.6:
        return index, weight
    padding = at.rng.choice((rows, -rows - 1, 0.5)) if at.fault(0.5) else at.rng.choice((None, 0, -1, rows - 1))
    return index, weight, padding


def _select(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1, empty=0.02))
    dim = at.dim(data.dim())
    size = _size(data, dim)
    return data, dim, at.among(at.rng.randrange(-size, size) if size else 0, size, -size - 1)


def _narrow(at: Drawing) -> tuple[Any, ...]:
    data = at.tensor(at.shape(0 if at.fault(0.1) else 1))
    dim = at.dim(data.dim())
    size = _size(data, dim)
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
    size = _size(data, dim)
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
    size = _size(data, dim)
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


MAKERS: Mapping[str, Callable[[Drawing], tuple[Any, ...]]] = {
    "as_strided": _as_strided,
    "chunk": _chunk,
    "diagonal": _diagonal,
    "embedding": _embedding,
    "expand": _expand,
    "flip": _flip,
    "gather": _gather,
    "index": _index,
    "index_select": _index_select,
    "narrow": _narrow,
    "permute": _permute,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "roll": _roll,
    "select": _select,
    "slice": _slice,
    "split": _split,
    "take": _take,
    "take_along_dim": _take_along_dim,
    "tensor_split": _tensor_split,
    "transpose": _transpose,
    "unfold": _unfold,
}


def draft(rng: random.Random, operation: str, *, faulty: bool) -> TorchCall:
    """A random call of an operation; a faulty one has a fault, if its draw found a place for one."""
    return TorchCall(operation, MAKERS[operation](Drawing(rng, faulty)))
