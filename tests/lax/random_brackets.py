"""Random functions of brackets of every kind, as a user of JAX writes them: index arrays are constants or arguments."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.chain_drawing import MOST_DIMENSIONS, MOST_ELEMENTS, Chain, Step
from tests.dialects.brackets import Key, Spelling, is_array, random_bits, some_key

TYPES = ("float32", "int32", "uint8", "float16", "bool", "complex64", "int16")
SPELLING = Spelling(types=("int32", "int32", "int8", "uint8", "int16", "uint32"))
MODES = (None, None, "clip", "fill", "promise_in_bounds")


def random_brackets(rng: np.random.Generator, length: int) -> Chain:
    """One to three brackets, in JAX's modes. length: of chains of other kinds."""
    own = random.Random(int(rng.integers(2**62)))
    x = random_bits(own, own.choice(TYPES))
    steps, texts, indices, shape = list[Step](), list[str](), list[Any](), x.shape
    for _ in range(1 + length % 3):
        mode = own.choice(MODES)
        key = some_key(own, shape, SPELLING, far=0.0 if mode == "promise_in_bounds" else 0.3)
        if own.random() < 0.5:
            step = _step(key, mode)
        else:
            placed = tuple(_Argument(_added(indices, entry)) if is_array(entry) else entry for entry in key)
            step = _step(placed, mode)
        following = _shape(shape, key)
        if prod(following) > MOST_ELEMENTS or len(following) > MOST_DIMENSIONS:
            break
        looks_up = any(isinstance(entry, np.ndarray) for entry in key)
        steps.append(step)
        texts.append(f"{'x[i' if looks_up else 'x['} {key} in mode {mode}")
        shape = following
    return Chain(tuple(steps), tuple(texts), x, tuple(indices))


class _Argument(int):
    """The number of an index array among the arguments."""


def _added(indices: list[Any], array: Any) -> int:
    indices.append(array)
    return len(indices) - 1


def _step(key: Key, mode: str | None) -> Step:
    def step(x: Any, i: Any) -> Any:
        entries = tuple(i[entry] if isinstance(entry, _Argument) else entry for entry in key)
        return jnp.asarray(x)[entries] if mode is None else jnp.asarray(x).at[entries].get(mode=mode)

    return step


def _shape(shape: tuple[int, ...], key: Key) -> tuple[int, ...]:
    """The shape of x[key], whatever the index arrays hold."""
    inside = tuple(np.zeros_like(entry) if is_array(entry) else entry for entry in key)
    found: tuple[int, ...] = np.broadcast_to(np.uint8(0), shape)[inside].shape
    return found
