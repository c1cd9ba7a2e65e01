"""Random functions of chains of indexing and views, as a user of JAX writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.chain_drawing import Chain, ChainDrawing, Drawn

TYPES = ("float32", "int32", "uint8", "float16", "bool", "complex64", "int16")
INDEX_TYPES = ("int32", "int32", "int8", "uint8", "int16", "uint32")
MODES = ("promise_in_bounds", "clip", "fill")


def random_chain(rng: np.random.Generator, length: int) -> Chain:
    """A chain of that many steps."""
    return _Drawing(rng).chain(length)


class _Drawing(ChainDrawing):
    """A chain that grows. shape: of what its steps give so far."""

    def data(self, shape: list[int]) -> Any:
        self.shape = tuple(shape)
        dtype = np.dtype(str(self.rng.choice(TYPES)))
        bits = self.rng.bytes(prod(shape) * dtype.itemsize)
        values = np.frombuffer(bits, np.uint8) % 2 if dtype.kind == "b" else np.frombuffer(bits, dtype)
        return values.astype(dtype).reshape(shape)

    def draw(self) -> Drawn | None:
        kind = KINDS[int(self.rng.integers(len(KINDS)))] if self.shape else _broadcast  # most take an axis
        return kind(self)

    def add_step(self, drawn: Drawn) -> None:
        super().add_step(drawn)
        self.shape = drawn[2]

    def axis(self) -> int:
        return int(self.rng.integers(len(self.shape)))

    def sizes(self, rank: int) -> tuple[int, ...]:
        return tuple(int(size) for size in self.rng.integers(1, 5, rank))

    def index(self, shape: Sequence[int], low: int, high: int) -> int:
        """A new index array with values from `low` below `high`, and its number. JAX refuses a type that cannot hold the size."""
        dtype = np.dtype(str(self.rng.choice([name for name in INDEX_TYPES if np.iinfo(name).max >= high])))
        low = max(low, int(np.iinfo(dtype).min))
        self.indices.append(self.rng.integers(low, high, shape).astype(dtype))
        return len(self.indices) - 1

    def anywhere(self, shape: Sequence[int], size: int) -> int:
        return self.index(shape, -2 * size, 3 * max(size, 1))  # of no elements, any index is outside


def _rows(chain: _Drawing) -> Drawn | None:
    axis, picked = chain.axis(), chain.sizes(int(chain.rng.integers(1, 3)))
    if not (size := chain.shape[axis]):
        return None
    number = chain.index(picked, -size, size)
    whole = (slice(None),) * axis
    shape = (*chain.shape[:axis], *picked, *chain.shape[axis + 1 :])
    return lambda x, i: x[(*whole, i[number])], f"x[{':, ' * axis}i{list(picked)}]", shape


def _pairs(chain: _Drawing) -> Drawn | None:
    if len(chain.shape) < 2 or 0 in chain.shape[:2]:
        return None
    picked = chain.sizes(1)
    one, other = (chain.index(picked, -size, size) for size in chain.shape[:2])
    return lambda x, i: x[i[one], i[other]], f"x[i{list(picked)}, j]", (*picked, *chain.shape[2:])


def _at(chain: _Drawing) -> Drawn | None:
    axis, mode = chain.axis(), str(chain.rng.choice(MODES))
    size = chain.shape[axis]
    if not size:
        return None
    picked = chain.sizes(1)
    number = chain.index(picked, 0, size) if mode == "promise_in_bounds" else chain.anywhere(picked, size)
    place = (*(slice(None),) * axis,)
    shape = (*chain.shape[:axis], *picked, *chain.shape[axis + 1 :])
    return lambda x, i: jnp.asarray(x).at[(*place, i[number])].get(mode=mode), f"at[{axis}].get({mode})", shape


def _take(chain: _Drawing) -> Drawn | None:
    axis, mode = chain.axis(), (None, "clip", "fill", "wrap")[chain.rng.integers(4)]
    if not chain.shape[axis]:
        return None
    picked = chain.sizes(int(chain.rng.integers(0, 3)))
    number = chain.anywhere(picked, chain.shape[axis])
    shape = (*chain.shape[:axis], *picked, *chain.shape[axis + 1 :])
    return lambda x, i: jnp.take(x, i[number], axis=axis, mode=mode), f"take({axis}, {mode})", shape


def _take_along_axis(chain: _Drawing) -> Drawn | None:
    axis, mode = chain.axis(), (None, "clip", "fill")[chain.rng.integers(3)]
    if not chain.shape[axis]:
        return None
    shape = (*chain.shape[:axis], *chain.sizes(1), *chain.shape[axis + 1 :])
    number = chain.anywhere(shape, chain.shape[axis])
    return lambda x, i: jnp.take_along_axis(x, i[number], axis=axis, mode=mode), f"take_along_axis({axis}, {mode})", shape


def _normalised(chain: _Drawing) -> Drawn | None:
    axis, size = (place := chain.axis()), chain.shape[place]
    if not size:
        return None
    picked = chain.sizes(1)
    number = chain.index(picked, -min(size, 100), size)
    shape = (*chain.shape[:axis], *picked, *chain.shape[axis + 1 :])

    def step(x: Any, i: Any) -> Any:
        rows = i[number].astype(np.int32)
        return jnp.take(x, jnp.where(rows < 0, rows + size, rows), axis=axis, mode="clip")

    return step, f"normalised({axis})", shape


def _computed(chain: _Drawing) -> Drawn | None:
    axis = chain.axis()
    size, picked = chain.shape[axis], chain.sizes(1)
    if not size:
        return None
    number = chain.anywhere(picked, size)
    factor, term = (int(value) for value in chain.rng.integers(-3, 4, 2))
    shape = (*chain.shape[:axis], *picked, *chain.shape[axis + 1 :])

    def step(x: Any, i: Any) -> Any:
        return jnp.take(x, jnp.clip(i[number].astype(np.int32) * factor + term, -1, size + 1) % max(size, 2), axis=axis)

    return step, f"computed({axis}, {factor}, {term})", shape


def _dynamic_slice(chain: _Drawing) -> Drawn | None:
    taken = tuple(int(chain.rng.integers(0 if chain.rng.random() < 0.02 else min(size, 1), size + 1)) for size in chain.shape)
    number = chain.anywhere((len(taken),), max(chain.shape))
    fixed = [bool(chain.rng.random() < 0.3) for _ in taken]

    def step(x: Any, i: Any) -> Any:
        return lax.dynamic_slice(
            x, [np.int32(1) if known else i[number][k].astype(np.int32) for k, known in enumerate(fixed)], taken
        )

    return step, f"dynamic_slice({list(taken)})", taken


def _gather(chain: _Drawing) -> Drawn | None:
    """Windows that start at index vectors of some components, in a random mode."""
    rank = len(chain.shape)
    components = sorted(int(axis) for axis in chain.rng.permutation(rank)[: chain.rng.integers(1, rank + 1)])
    windows = tuple(
        int(chain.rng.integers(1, size + 1)) if axis in components and size else size for axis, size in enumerate(chain.shape)
    )
    if 0 in chain.shape:
        return None
    batch = chain.sizes(int(chain.rng.integers(0, 3)))
    number = chain.anywhere((*batch, len(components)), max(chain.shape))
    first = int(chain.rng.integers(0, len(batch) + 1))
    numbers = lax.GatherDimensionNumbers(tuple(range(first, first + rank)), (), tuple(components))
    mode = str(chain.rng.choice(["clip", "fill"]))
    shape = (*batch[:first], *windows, *batch[first:])
    return lambda x, i: lax.gather(x, i[number], numbers, windows, mode=mode), f"gather({windows}, {components}, {mode})", shape


def _slice(chain: _Drawing) -> Drawn | None:
    parts = []
    for size in chain.shape:
        step = int(chain.rng.choice([1, 1, 2, 3, -1, -2]))
        start, stop = sorted(int(end) for end in chain.rng.integers(0, size + 1, 2))
        parts.append(
            slice(None, None, step) if chain.rng.random() < 0.5 else slice(start, stop + (start == stop and stop < size))
        )
    shape = tuple(len(range(size)[part]) for size, part in zip(chain.shape, parts, strict=True))
    return (lambda x, i: x[tuple(parts)], f"x[{parts}]", shape) if prod(shape) or chain.rng.random() < 0.1 else None


def _flip(chain: _Drawing) -> Drawn | None:
    axis = chain.axis()
    return lambda x, i: jnp.flip(x, axis), f"flip({axis})", chain.shape


def _transpose(chain: _Drawing) -> Drawn | None:
    order = tuple(int(axis) for axis in chain.rng.permutation(len(chain.shape)))
    return lambda x, i: jnp.transpose(x, order), f"transpose({order})", tuple(chain.shape[axis] for axis in order)


def _reshape(chain: _Drawing) -> Drawn | None:
    rest = prod(chain.shape)
    shape: list[int] = []
    while rest > 1 and len(shape) < 3:
        shape.append(int(chain.rng.choice([size for size in range(1, rest + 1) if rest % size == 0])))
        rest //= shape[-1]
    shape.append(rest)
    return lambda x, i: jnp.reshape(x, shape), f"reshape({shape})", tuple(shape)


def _broadcast(chain: _Drawing) -> Drawn | None:
    shape = (*chain.sizes(1), *(int(chain.rng.integers(1, 4)) if size == 1 else size for size in chain.shape))
    return lambda x, i: jnp.broadcast_to(x, shape), f"broadcast_to({shape})", shape


def _dimensions(chain: _Drawing) -> Drawn | None:
    if 1 in chain.shape and len(chain.shape) > 1:
        axis = chain.shape.index(1)
        return lambda x, i: jnp.squeeze(x, axis), f"squeeze({axis})", (*chain.shape[:axis], *chain.shape[axis + 1 :])
    axis = chain.axis()
    return lambda x, i: jnp.expand_dims(x, axis), f"expand_dims({axis})", (*chain.shape[:axis], 1, *chain.shape[axis:])


def _joined(chain: _Drawing) -> Drawn | None:
    axis, shift = chain.axis(), int(chain.rng.integers(1, 4))
    if chain.rng.random() < 0.5:
        return lambda x, i: jnp.roll(x, shift, axis), f"roll({shift}, {axis})", chain.shape
    shape = (*chain.shape[:axis], 2 * chain.shape[axis], *chain.shape[axis + 1 :])
    return lambda x, i: jnp.concatenate([x, jnp.flip(x, axis)], axis), f"mirrored({axis})", shape


KINDS: tuple[Callable[[_Drawing], Drawn | None], ...] = (
    *(_rows, _rows, _pairs, _at, _at, _take, _take, _take_along_axis, _normalised, _computed, _dynamic_slice, _gather),
    *(_slice, _slice, _flip, _transpose, _transpose, _reshape, _reshape, _broadcast, _dimensions, _joined),
)
