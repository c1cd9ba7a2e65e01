"""Random functions of chains of indexing and views, as a user of PyTorch writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from tests.chain_drawing import Chain, ChainDrawing, Drawn, Step

TYPES = (torch.float32, torch.int32, torch.uint8, torch.float16, torch.bool, torch.complex64, torch.int64, torch.bfloat16)

Found = tuple[Step, str] | None
"""A step, and what people call it; None where the tensor does not fit."""


def random_chain(rng: np.random.Generator, length: int) -> Chain:
    """A chain of that many steps. PyTorch itself says the shapes."""
    return _Drawing(rng).chain(length)


class _Drawing(ChainDrawing):
    """A chain that grows. now: what its steps give so far."""

    def data(self, shape: list[int]) -> Any:
        dtype = TYPES[int(self.rng.integers(len(TYPES)))]
        values = torch.from_numpy(self.rng.integers(0, 256, (prod(shape) * dtype.itemsize,), np.uint8))
        found = (values % 2 if dtype == torch.bool else values).view(dtype).reshape(shape)
        # PyTorch makes quiet NaNs of signalling ones in types of 16 bits.
        self.now = found.nan_to_num() if dtype in (torch.float16, torch.bfloat16) else found
        return self.now

    def draw(self) -> Drawn | None:
        kind = KINDS[int(self.rng.integers(len(KINDS)))] if self.now.dim() and self.now.numel() else _broadcast
        found = kind(self)
        return None if found is None else (*found, tuple(found[0](self.now, self.indices).shape))

    def add_step(self, drawn: Drawn) -> None:
        super().add_step(drawn)
        self.now = drawn[0](self.now, self.indices)

    def axis(self) -> int:
        return int(self.rng.integers(self.now.dim()))

    def size(self, low: int = 1, high: int = 5) -> int:
        return int(self.rng.integers(low, high))

    def sizes(self, rank: int) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(rank))

    def index(self, shape: Sequence[int], low: int, high: int, *, wide: bool = False) -> int:
        """A new index tensor with values from `low` below `high`, and its number."""
        values = torch.from_numpy(self.rng.integers(low, high, tuple(shape)))
        self.indices.append(values if wide or self.rng.random() < 0.5 else values.to(torch.int32))
        return len(self.indices) - 1


def _indexed(chain: _Drawing) -> Found:
    axis = chain.axis()
    number = chain.index(chain.sizes(chain.size(1, 3)), -chain.now.shape[axis], chain.now.shape[axis])
    whole = (slice(None),) * axis
    return lambda x, i: x[(*whole, i[number])], f"x[{':, ' * axis}i]"


def _pairs(chain: _Drawing) -> Found:
    if chain.now.dim() < 2:
        return None
    first, second = sorted(int(axis) for axis in chain.rng.permutation(chain.now.dim())[:2])
    picked = chain.size()
    one = chain.index((picked,), -chain.now.shape[first], chain.now.shape[first])
    other = chain.index((chain.size(1, 3), 1), -chain.now.shape[second], chain.now.shape[second])
    entries = [slice(None)] * chain.now.dim()

    def step(x: Any, i: Any) -> Any:
        places: list[Any] = list(entries)
        places[first], places[second] = i[one], i[other]
        return x[tuple(places)]

    return step, f"x[i at {first}, j at {second}]"


def _known(chain: _Drawing) -> Found:
    axis = chain.axis()
    known = [number for number in range(chain.now.shape[axis]) if chain.rng.random() < 0.6] or [0]
    place = (slice(None),) * axis
    return lambda x, i: x[(*place, known)], f"x[{':, ' * axis}{known}]"


def _index_select(chain: _Drawing) -> Found:
    axis = chain.axis()
    number = chain.index((chain.size(),), 0, chain.now.shape[axis])
    return lambda x, i: torch.index_select(x, axis, i[number]), f"index_select({axis})"


def _gather(chain: _Drawing) -> Found:
    axis = chain.axis()
    shape = [chain.size() if each == axis else chain.size(1, size + 1) for each, size in enumerate(chain.now.shape)]
    number = chain.index(shape, 0, chain.now.shape[axis], wide=True)
    return lambda x, i: torch.gather(x, axis, i[number]), f"gather({axis})"


def _take(chain: _Drawing) -> Found:
    count = chain.now.numel()
    number = chain.index(chain.sizes(chain.size(0, 3)), -count, count, wide=True)
    return lambda x, i: torch.take(x, i[number]), "take"


def _take_along_dim(chain: _Drawing) -> Found:
    axis = chain.axis()
    shape = [chain.size() if each == axis else size for each, size in enumerate(chain.now.shape)]
    number = chain.index(shape, -chain.now.shape[axis], chain.now.shape[axis], wide=True)
    return lambda x, i: torch.take_along_dim(x, i[number], axis), f"take_along_dim({axis})"


def _embedding(chain: _Drawing) -> Found:
    if chain.now.dim() != 2 or not (chain.now.is_floating_point()):
        return None
    number = chain.index(chain.sizes(chain.size(0, 3)), 0, chain.now.shape[0])
    return lambda x, i: torch.nn.functional.embedding(i[number], x), "embedding"


def _computed(chain: _Drawing) -> Found:
    axis = chain.axis()
    size, number = chain.now.shape[axis], chain.index((chain.size(),), -50, 50)
    factor, term = (int(value) for value in chain.rng.integers(-3, 4, 2))
    which = chain.size(0, 3)

    def step(x: Any, i: Any) -> Any:
        places = i[number] * factor + term
        if which == 0:
            places = places % size
        elif which == 1:
            places = places.clamp(-size, size - 1)
        else:
            places = torch.where((places < 0) | (places >= size), torch.zeros_like(places), places)
        return x.index_select(axis, places if which == 0 else torch.where(places < 0, places + size, places))

    return step, f"computed({axis}, {factor}, {term}, {which})"


def _slice(chain: _Drawing) -> Found:
    parts = []
    for size in chain.now.shape:
        start, stop = sorted(int(end) for end in chain.rng.integers(0, size + 1, 2))
        parts.append(
            slice(start, max(stop, start + 1), chain.size(1, 3))
            if chain.rng.random() < 0.5
            else slice(None, None, chain.size(1, 3))
        )
    if 0 in torch.empty(chain.now.shape)[tuple(parts)].shape:
        return None
    return lambda x, i: x[tuple(parts)], f"x[{parts}]"


def _select(chain: _Drawing) -> Found:
    axis = chain.axis()
    place = int(chain.rng.integers(-chain.now.shape[axis], chain.now.shape[axis]))
    return lambda x, i: x.select(axis, place), f"select({axis}, {place})"


def _narrow(chain: _Drawing) -> Found:
    axis = chain.axis()
    start = int(chain.rng.integers(chain.now.shape[axis]))
    length = chain.size(1, chain.now.shape[axis] - start + 1)
    return lambda x, i: x.narrow(axis, start, length), f"narrow({axis}, {start}, {length})"


def _flip(chain: _Drawing) -> Found:
    axes = [int(axis) for axis in chain.rng.permutation(chain.now.dim())[: chain.size(1, 3)]]
    return lambda x, i: torch.flip(x, axes), f"flip({axes})"


def _permute(chain: _Drawing) -> Found:
    order = [int(axis) for axis in chain.rng.permutation(chain.now.dim())]
    return lambda x, i: x.permute(order), f"permute({order})"


def _reshape(chain: _Drawing) -> Found:
    rest = chain.now.numel()
    shape: list[int] = []
    while rest > 1 and len(shape) < 3:
        shape.append(int(chain.rng.choice([size for size in range(1, rest + 1) if rest % size == 0])))
        rest //= shape[-1]
    shape.append(rest)
    return lambda x, i: x.reshape(shape), f"reshape({shape})"


def _broadcast(chain: _Drawing) -> Found:
    shape = (chain.size(1, 4), *(chain.size(1, 4) if size == 1 else size for size in chain.now.shape))
    return lambda x, i: x.expand(shape), f"expand({shape})"


def _dimensions(chain: _Drawing) -> Found:
    axis = chain.axis()
    if 1 in chain.now.shape:
        return lambda x, i: x.squeeze(), "squeeze"
    return lambda x, i: x.unsqueeze(axis), f"unsqueeze({axis})"


def _unfold(chain: _Drawing) -> Found:
    axis = chain.axis()
    size, step = chain.size(1, chain.now.shape[axis] + 1), chain.size(1, 4)
    return lambda x, i: x.unfold(axis, size, step), f"unfold({axis}, {size}, {step})"


def _diagonal(chain: _Drawing) -> Found:
    if chain.now.dim() < 2:
        return None
    first, second = (int(axis) for axis in chain.rng.permutation(chain.now.dim())[:2])
    return lambda x, i: x.diagonal(0, first, second), f"diagonal({first}, {second})"


def _parts(chain: _Drawing) -> Found:
    axis, count = chain.axis(), chain.size(2, 4)
    return lambda x, i: x.chunk(count, axis)[-1], f"chunk({count}, {axis})[-1]"


def _joined(chain: _Drawing) -> Found:
    axis, shift = chain.axis(), chain.size(-4, 5)
    which = chain.size(0, 4)
    if which == 0:
        return lambda x, i: torch.roll(x, shift, axis), f"roll({shift}, {axis})"
    if which == 1:
        return lambda x, i: torch.cat([x, x.flip(axis)], axis), f"mirrored({axis})"
    if which == 2:
        return lambda x, i: torch.stack(x.unbind(axis), 0), f"stack(unbind({axis}))"
    return lambda x, i: x.repeat_interleave(2, axis), f"repeat_interleave(2, {axis})"


def _pixels(chain: _Drawing) -> Found:
    if chain.now.dim() < 3 or chain.now.shape[-1] % 2 or chain.now.shape[-2] % 2:
        return None
    return lambda x, i: torch.nn.functional.pixel_unshuffle(x, 2), "pixel_unshuffle(2)"


KINDS: tuple[Callable[[_Drawing], Found], ...] = (
    *(_indexed, _indexed, _pairs, _known, _index_select, _gather, _take, _take_along_dim, _embedding, _computed, _computed),
    *(_slice, _slice, _select, _narrow, _flip, _permute, _permute, _reshape, _reshape, _broadcast, _dimensions),
    *(_unfold, _diagonal, _parts, _joined, _joined, _pixels),
)
