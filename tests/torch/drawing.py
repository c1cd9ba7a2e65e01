"""Draws what calls of PyTorch's operators take: tensors, indices, dimensions and faults."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import torch

EVERYWHERE = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
)
"""Types that every operator of PyTorch takes."""

SOMEWHERE = (
    *(torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e4m3fnuz),
    *(torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
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
        lead = rng.choice((0, 0, 3))
        made = _random(rng, lead + prod(stored), dtype)[lead:].reshape(stored)
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
        values = [rng.randrange(low, high) if high > low else 0 for _ in range(prod(shape))]
        if values and self.fault():
            far = [low - 1, high, high + 3, -(2**31)] + ([2**40, -(2**63), 2**63 - 1] if dtype is torch.int64 else [2**31 - 1])
            values[rng.randrange(len(values))] = rng.choice(far)
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


def size_of(tensor: torch.Tensor, dim: Any, default: int = 1) -> int:
    """The size of a dimension that may be a fault."""
    try:
        return int(tensor.shape[dim])
    except (IndexError, TypeError, RuntimeError, OverflowError):
        return default
