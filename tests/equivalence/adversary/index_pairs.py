"""Pairs of index expressions. The libraries say exactly whether they are equal: on elements that all differ."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import dmlgather as dg
from tests.equivalence.adversary.drafts import Array

SHAPES = ((4,), (2, 3), (3, 4), (2, 3, 2))
KINDS = ("index", "jax", "torch")
"""What the second program is: dg.index as well, or a function of JAX or of PyTorch."""


def judged(seed: int, kind: str) -> str:
    """The verdict about a pair. AssertionError where it is not what the libraries say."""
    chance = random.Random(seed)
    shape = chance.choice(SHAPES)
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    one, other = _pair(chance, data, kind)
    found = dg.equivalent(dg.index[one], _program(other, kind), _example(data, kind))
    equal = bool(np.array_equal(data[one], _indexed(data, other, kind)))
    expected = "proven" if equal else "different"
    told = f"seed {seed}, {kind}: {found}, but the library says {expected}: {one!r} and {other!r} of float32 {shape}"
    assert found.verdict == expected, told
    if found.counterexample is not None:
        (array,) = found.counterexample.inputs.values()
        assert not np.array_equal(array[one], _indexed(array, other, kind)), told
    return found.verdict


def _program(expression: Any, kind: str) -> Any:
    if kind == "index":
        return dg.index[expression]
    if kind == "torch":
        import torch

        known = (each.nonzero()[0] if isinstance(each, np.ndarray) and each.dtype == bool else each for each in expression)
        entries = tuple(
            torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in known
        )  # it exports few masks
        return lambda x: x[entries]
    return lambda x: x[expression]


def _example(data: Array, kind: str) -> Any:
    if kind == "torch":
        import torch

        return torch.from_numpy(data.copy())
    return data.shape, "float32"


def _indexed(data: Array, expression: Any, kind: str) -> Array:
    """What an expression gives: PyTorch takes a number beside arrays for no array."""
    return np.asarray(_program(expression, kind)(_example(data, kind))) if kind == "torch" else np.asarray(data[expression])


def _pair(chance: random.Random, data: Array, kind: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Two expressions. Of some first ones the library takes nothing that is near: PyTorch, of two negative steps."""
    while True:
        one = _legal(data, "index", partial(_expression, chance, data.shape))
        other = None if one is None else _legal(data, kind, partial(_near, chance, one, data.shape))
        if one is not None and other is not None:
            return one, other


def _legal(data: Array, kind: str, draw: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """An expression that NumPy and the library take, and whose result has elements; None where 100 draws give none."""
    for _ in range(100):
        drawn = draw()
        try:
            found = data[drawn], _indexed(data, drawn, kind)
        except (IndexError, ValueError):  # PyTorch takes no negative steps
            continue
        if all(each.size and each.ndim for each in found):
            return drawn
    return None


def _expression(chance: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One entry for each of the first dimensions."""
    entries = [_entry(chance, size) for size in shape[: chance.randint(1, len(shape))]]
    if chance.random() < 0.2:
        entries.insert(chance.randint(0, len(entries)), None)
    return tuple(entries)


def _entry(chance: random.Random, size: int) -> Any:
    """A number, a slice, a mask, or positions as a list or an array of integers."""
    count = chance.choice((2, 2, 3))
    positions = [chance.randrange(-size, size) for _ in range(count)]
    match chance.randrange(6):
        case 0:
            return positions[0]
        case 1:
            return slice(chance.choice((None, 0, 1)), chance.choice((None, size - 1, -1, size)))
        case 2:
            return slice(None, None, chance.choice((-1, 2, 1)))
        case 3:
            return np.array([chance.random() < 0.6 for _ in range(size)])
        case 4:
            return np.array(positions)
        case _:
            return positions


def _near(chance: random.Random, expression: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """One entry is another one, or is the same one and spelled otherwise."""
    entries = list(expression)
    place = chance.randrange(len(entries))
    axis = sum(each is not None for each in entries[:place])
    if entries[place] is None:
        return (*entries, ...) if ... not in [each for each in entries if each is ...] else tuple(entries)
    size = shape[axis]
    entries[place] = chance.choice((_respelled, _changed))(chance, entries[place], size)
    if chance.random() < 0.2:
        entries.append(...)
    return tuple(entries)


def _respelled(chance: random.Random, entry: Any, size: int) -> Any:
    """The same positions."""
    if isinstance(entry, int):
        return entry - size if entry >= 0 else entry + size
    numbers = np.arange(size)[entry]
    if isinstance(entry, slice):
        return chance.choice(
            (numbers, numbers - size, numbers.tolist(), slice(*entry.indices(size)) if (entry.step or 1) > 0 else entry)
        )
    steps = {*np.diff(numbers).tolist()}
    if steps == {1} and chance.random() < 0.5:
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return chance.choice((numbers, numbers.tolist(), numbers - size))


def _changed(chance: random.Random, entry: Any, size: int) -> Any:
    """Other positions, in most cases one of them."""
    if isinstance(entry, int):
        return entry + chance.choice((-1, 1))
    numbers = np.arange(size)[entry]
    if isinstance(entry, slice) or not numbers.size or chance.random() < 0.2:
        return _entry(chance, size)
    if entry is not numbers and isinstance(entry, np.ndarray) and entry.dtype == bool:
        mask = entry.copy()
        mask[chance.randrange(size)] ^= True
        return mask
    changed = numbers.copy()
    if chance.random() < 0.5:
        changed = changed[::-1].copy()
    else:
        changed[chance.randrange(changed.size)] = chance.randrange(size)
    return changed if isinstance(entry, np.ndarray) else changed.tolist()
