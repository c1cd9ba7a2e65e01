"""Twelve everyday indexing expressions, fresh arrays for them, and what each turns into, written down by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True)
class Fact:
    """What one equation must be.

    limits, steps: of each lookup of the plan: how many values are valid, and how far one takes through the data. bytes: of
    indices, read and written together.
    """

    equation: str
    policy: str
    directml: str
    shape: tuple[int, ...]
    in_strides: tuple[int, ...]
    limits: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    in_offset: int = 0
    bytes: int = 0
    where: str = ""
    runs: int = 1


@dataclass(frozen=True)
class Expression:
    """A function, its arguments, and its equations in order. x is float32 [8, 5] wherever it occurs."""

    title: str
    fn: Callable[..., Any]
    arguments: Callable[[np.random.Generator], tuple[Any, ...]]
    facts: tuple[Fact, ...]


def data(rng: np.random.Generator, *shape: int) -> Any:
    """Random bits as float32, NaNs included."""
    return np.frombuffer(rng.bytes(4 * int(np.prod(shape))), np.float32).reshape(shape)


def indices(rng: np.random.Generator, size: int, *shape: int) -> Any:
    """Valid indices, negative ones included."""
    return rng.integers(-size, size, shape, np.int32)


X = np.arange(40, dtype=np.float32).reshape(8, 5)
X.flags.writeable = False  # many tests read it
IDX = np.array([6, -8, 1], np.int32)
"""What parameters of tests, which are made at import, may use: no two elements of X are the same."""


def _rows(rng: np.random.Generator) -> tuple[Any, ...]:
    return data(rng, 8, 5), indices(rng, 8, 3)


def _matrix(rng: np.random.Generator) -> tuple[Any, ...]:
    return (data(rng, 8, 5),)


def _place(rng: np.random.Generator) -> tuple[Any, ...]:
    return data(rng, 8, 5), indices(rng, 8)[()]


def _even_rows(x: Any, idx: Any) -> Any:
    def add(total: Any, i: Any) -> tuple[Any, Any]:
        return lax.cond(i % 2 == 0, lambda: total + x[i], lambda: total), i

    return lax.scan(add, jnp.zeros(5), idx)


ROWS = "gather float32[8,5], int32[3,1] -> float32[3,5]"
ONE_ROW = "dynamic_slice float32[8,5], int32[2] -> float32[1,5]"

EXPRESSIONS = (
    Expression(
        "x[idx]",
        lambda x, idx: x[idx],
        _rows,
        (Fact(ROWS, "promise_in_bounds", "GATHER from 1_0", (3, 5), (0, 1), (8,), (5,), bytes=12 + 120),),
    ),
    Expression(
        "x[:, idx]",
        lambda x, idx: x[:, idx],
        lambda rng: (data(rng, 8, 5), indices(rng, 5, 3)),
        (
            Fact(
                *("gather float32[8,5], int32[3,1] -> float32[8,3]", "promise_in_bounds", "GATHER from 1_0"),
                *((8, 3), (5, 0), (5,), (1,)),
                bytes=12 + 192,
            ),
        ),
    ),
    Expression(
        "x[idx1, idx2]",
        lambda x, one, two: x[one, two],
        lambda rng: (data(rng, 8, 5), indices(rng, 8, 3), indices(rng, 5, 3)),
        (
            Fact(
                *("gather float32[8,5], int32[3,2] -> float32[3]", "promise_in_bounds", "GATHER_ND from 2_1"),
                *((3,), (0,), (8, 5), (5, 1)),
                bytes=24 + 24,
            ),
        ),
    ),
    Expression(
        "x[::-2]",
        lambda x: x[::-2],
        _matrix,
        (
            Fact(
                *("slice float32[8,5] -> float32[4,5]", "-", "SLICE from 1_0", (4, 5), (10, 1)),
                in_offset=5,
                bytes=160,
            ),
            Fact(
                *("rev float32[4,5] -> float32[4,5]", "-", "SLICE1 from 2_1", (4, 5), (-5, 1)),
                in_offset=15,
                bytes=160,
            ),
        ),
    ),
    Expression(
        "x[3:7]",
        lambda x: x[3:7],
        _matrix,
        (Fact("slice float32[8,5] -> float32[4,5]", "-", "SLICE from 1_0", (4, 5), (5, 1), in_offset=15, bytes=160),),
    ),
    Expression(
        "x[i], i traced",
        lambda x, i: x[i],
        _place,
        (Fact(ONE_ROW, "clip", "GATHER from 1_0 (EXP202)", (1, 5), (5, 1), (8, 1), (5, 1), bytes=8 + 40),),
    ),
    Expression(
        'x.at[idx].get(mode="fill")',
        lambda x, idx: x.at[idx].get(mode="fill"),
        lambda rng: (jnp.asarray(data(rng, 8, 5)), rng.integers(-20, 20, 3, np.int32)),
        (Fact(ROWS, "fill nan", "GATHER from 1_0 (EXP201, EXP202)", (3, 5), (0, 1), (8,), (5,), bytes=12 + 120),),
    ),
    Expression(
        "jnp.take(x, idx, axis=1)",
        lambda x, idx: jnp.take(x, idx, axis=1),
        lambda rng: (data(rng, 8, 5), rng.integers(-9, 9, 3, np.int32)),
        (
            Fact(
                *("gather float32[8,5], int32[3,1] -> float32[8,3]", "fill nan", "GATHER from 1_0 (EXP201, EXP202)"),
                *((8, 3), (5, 0), (5,), (1,)),
                bytes=12 + 192,
                where="jit:_take",
            ),
        ),
    ),
    Expression(
        "jnp.take_along_axis(x, idx, axis=1)",
        lambda x, idx: jnp.take_along_axis(x, idx, axis=1),
        lambda rng: (data(rng, 8, 5), indices(rng, 5, 8, 2)),
        (
            Fact(
                *("gather float32[8,5], int32[8,2,1] -> float32[8,2]", "fill nan", "GATHER_ELEMENTS from 2_1 (EXP201, EXP202)"),
                *((8, 2), (5, 0), (5,), (1,)),
                bytes=64 + 128,
                where="jit:take_along_axis",
            ),
        ),
    ),
    Expression(
        "lax.dynamic_slice(x, (i, 1), (2, 3))",
        lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 3)),
        _place,
        (
            Fact(
                *("dynamic_slice float32[8,5], int32[2] -> float32[2,3]", "clip", "SLICE1, GATHER_ND from 2_1 (EXP202)"),
                *((2, 3), (5, 1), (7, 3), (5, 1)),
                bytes=8 + 48,
            ),
        ),
    ),
    Expression(
        "jax.vmap(lambda row, i: row[i])(x, idx)",
        jax.vmap(lambda row, i: row[i]),
        lambda rng: (data(rng, 8, 5), indices(rng, 5, 8)),
        (
            Fact(
                *("gather float32[8,5], int32[8,1] -> float32[8,1]", "clip", "GATHER_ELEMENTS from 2_1 (EXP202)"),
                *((8, 1), (5, 1), (5,), (1,)),
                bytes=32 + 64,
            ),
        ),
    ),
    Expression(
        "lax.scan over idx, with x[i] in a branch of lax.cond",
        _even_rows,
        lambda rng: (data(rng, 8, 5), 2 * indices(rng, 4, 3) + np.array([0, 1, 0], np.int32)),
        (
            Fact(
                *(ONE_ROW, "clip", "GATHER from 1_0 (EXP202)", (1, 5), (5, 1), (8, 1), (5, 1)),
                bytes=8 + 40,
                where="scan/cond.branches[1]",
                runs=2,
            ),
        ),
    ),
)
