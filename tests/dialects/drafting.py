"""What random calls of every dialect are drawn with: sizes, bits, how arrays lie in memory, and faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from tests.dialects.outcomes import Array

EXTREMES = (-(2**63), 2**63 - 1, 2**63 + 2, 2**64 - 1, 2**32 + 1, 2**32 - 1, 2**31, -(2**31), -(2**32) - 1, 2**16 + 1, 127, 255)
"""Values that other widths or signs would read as good ones; each is drawn where the type of the indices holds it."""

seeds = st.integers(0, 2**63 - 1)
"""A test draws one seed, which is all that hypothesis prints and shrinks; everything else follows from it."""

DraftT = TypeVar("DraftT")


@dataclass(frozen=True)
class Fault:
    """One way to break a good call. breaks: changes a draft, or says False where that draft cannot be broken so."""

    name: str
    raises: type[Exception]
    breaks: Callable[[random.Random, Any], bool | None]


def setting(name: str, choose: Callable[[random.Random, Any], Any]) -> Callable[[random.Random, Any], None]:
    """A way to break a draft: give an attribute the chosen value."""
    return lambda rng, draft: setattr(draft, name, choose(rng, draft))


def broken(rng: random.Random, fault: Fault, good: Callable[[], DraftT]) -> DraftT:
    """The first of many good drafts that the fault can break, broken."""
    for _ in range(2000):
        draft = good()
        if fault.breaks(rng, draft) is not False:
            return draft
    raise AssertionError(f"no good call can be broken by {fault.name!r}")


def some_sizes(rng: random.Random, rank: int, *, most: int = 240) -> list[int]:
    """Sizes of a tensor of that rank and at most that many elements, sometimes of none."""
    sizes = [0 if rng.random() < 0.04 else rng.choice((1, 1, 2, 2, 3, 4, 5)) for _ in range(rank)]
    while prod(sizes) > most:
        sizes[sizes.index(max(sizes))] = 1
    return sizes


def some_shape(rng: random.Random, least: int, most: int) -> tuple[int, ...]:
    """The shape of a tensor of `least` to `most` dimensions."""
    return tuple(some_sizes(rng, rng.randint(least, most)))


def sizes_within(rng: random.Random, rank: int, room: int, among: Sequence[int] = (1, 2, 2, 3, 4, 5)) -> list[int]:
    """Sizes of a tensor of any rank and at most `room` elements; of most dimensions the sizes are 1 where there are many."""
    found = [1] * rank
    for axis in rng.sample(range(rank), rank):
        found[axis] = rng.choice([size for size in among if size * prod(found) <= room])
    if found and rng.random() < 0.03:
        found[rng.randrange(rank)] = 0
    return found


def random_bits(rng: random.Random, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Any bits that the type has, so that NaNs of every payload occur."""
    if dtype.kind == "b":
        return np.array([rng.random() < 0.5 for _ in range(prod(shape))], bool).reshape(shape)
    return np.frombuffer(rng.randbytes(prod(shape) * dtype.itemsize), dtype).reshape(shape).copy()


def laid_out(rng: random.Random, array: Array, *, same: bool = False) -> Array:
    """An array of that shape that lies otherwise in memory.

    What repeats is one slice of the array. same: repeat only what is the same in the array, so that no element changes.
    """
    kind = rng.choice(("packed", "packed", "permuted", "reversed", "padded", "repeated", "read-only"))
    if not array.ndim:  # views of scalars are no arrays
        kind = rng.choice(("packed", "read-only"))
    if kind == "permuted":
        order = rng.sample(range(array.ndim), array.ndim)
        return array.transpose(order).copy().transpose(np.argsort(order))
    if kind == "reversed":
        turn = tuple(slice(None, None, rng.choice((1, -1))) for _ in array.shape)
        return array[turn].copy()[turn]
    if kind == "padded":
        room = np.zeros(tuple(2 * size + 1 for size in array.shape), array.dtype)
        inner = tuple(slice(1, None, 2) for _ in array.shape)
        room[inner] = array
        return room[inner]
    if kind == "repeated":
        cuts = [slice(None, 1) if rng.random() < 0.6 else slice(None) for _ in array.shape]
        if same:
            cuts = [slice(None, 1) if _repeats(array, axis) else slice(None) for axis in range(array.ndim)]
        return np.broadcast_to(array[tuple(cuts)].copy(), array.shape)
    array = array.copy()
    array.flags.writeable = kind != "read-only"
    return array


def at_an_odd_address(array: Array) -> Array:
    """A copy whose elements lie across the machine's words."""
    if array.dtype.kind in "OT":
        return array
    return np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)


def _repeats(array: Array, axis: int) -> bool:
    """Whether all slices along an axis have the same bits."""
    first = np.broadcast_to(array[(slice(None),) * axis + (slice(None, 1),)], array.shape) if array.shape[axis] else array
    if array.dtype.kind in "OT":
        return bool((first == array).all())
    return first.tobytes() == array.tobytes()
