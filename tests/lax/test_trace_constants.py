"""Tracing: starts that do not depend on the arguments, which make a gather a slice, or settle that it reads what JAX reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlgather as dg
from dmlgather.lax.tracing.jaxprs import DEPTH_LIMIT, ELEMENT_LIMIT, Constants
from tests.lax.everyday import X

rng_uniform: Any = lax.rng_uniform
random_bits: Any = lax.rng_bit_generator
struct: Any = jax.ShapeDtypeStruct
SOME = np.array([6, 1, -2])


@pytest.mark.parametrize(
    ("fn", "found"),
    [
        (lambda x: lax.dynamic_slice(x, (3, 1), (2, 3)), "SLICE from 1_0"),
        (lambda x: lax.dynamic_slice(x, (jnp.array([9, 3])[1], 1), (2, 3)), "SLICE from 1_0"),
        (lambda x: lax.dynamic_slice(x, (x.shape[0] // jnp.int32(3), -1), (2, 3)), "SLICE from 1_0"),
        (jax.vmap(lambda row: lax.dynamic_slice(row, (1,), (2,))), "SLICE from 1_0"),
        (lambda x: jnp.take(x, jnp.array([1]), axis=0), "SLICE from 1_0"),
        (lambda x: x.at[SOME].get(mode="clip"), "GATHER from 1_0"),
        (lambda x: x.at[SOME].get(mode="fill"), "GATHER from 1_0"),
        (lambda x: jnp.take(x, SOME + 8, axis=0), "GATHER from 1_0 (EXP201, EXP202)"),
        (lambda x: x.at[jnp.arange(3) * 2].get(mode="clip"), "GATHER from 1_0"),
        (lambda x: x.at[jnp.argsort(jnp.asarray(SOME))].get(mode="clip"), "GATHER from 1_0"),
        (jax.jit(lambda x: jax.jit(lambda x, i: x.at[i].get(mode="clip"))(x, SOME)), "GATHER from 1_0"),
        (lambda x: lax.cond(True, lambda x, i: x.at[i].get(mode="clip"), lambda x, i: x[:3], x, SOME), "GATHER from 1_0"),
        # What follows depends on the arguments, or comes from what is not evaluated.
        (lambda x: x.at[x[0, 0].astype(int)[None]].get(mode="clip"), "GATHER from 1_0 (EXP202)"),
        (lambda x: lax.map(lambda i: x.at[i].get(mode="clip"), SOME), "GATHER from 1_0 (EXP202)"),
        (lambda x: x.at[lax.fori_loop(0, 3, lambda _, i: i + 1, SOME)].get(mode="clip"), "GATHER from 1_0 (EXP202)"),
        (lambda x: x.at[jax.random.randint(jax.random.key(0), (3,), 0, 5)].get(mode="clip"), "GATHER from 1_0 (EXP202)"),
        (lambda x: x.at[rng_uniform(0, 5, (3,))].get(mode="clip"), "GATHER from 1_0 (EXP202)"),
        (lambda x: x.at[random_bits(np.zeros(4, "uint32"), (3,))[1].view(int)].get(mode="clip"), "GATHER from 1_0 (EXP202)"),
    ],
)
def test_constant_starts(fn: Callable[..., Any], found: str) -> None:
    entry = dg.lax.trace(fn, jnp.asarray(X))[-1]
    assert str(entry.directml) == found


def test_callbacks_are_not_called() -> None:
    called: list[Any] = []

    def start_of_the_host() -> Any:
        called.append(1)
        return np.int32(1)

    def fn(x: Any) -> Any:
        start = jax.pure_callback(start_of_the_host, struct((), np.int32))
        return lax.dynamic_slice(x, (start, 0), (1, 5))

    entry = dg.lax.trace(fn, X)[-1]
    assert str(entry.directml) == "GATHER from 1_0 (EXP202)"
    assert called == []


@pytest.mark.parametrize("size", [ELEMENT_LIMIT, ELEMENT_LIMIT + 1])
def test_large_values_are_not_computed(size: int) -> None:
    program = jax.make_jaxpr(lambda: jnp.arange(size) + 1)()
    value = Constants(program).value(program.jaxpr.outvars[0])
    assert (value is None) is (size > ELEMENT_LIMIT)


@pytest.mark.parametrize("length", [DEPTH_LIMIT - 1, DEPTH_LIMIT + 1, 20 * DEPTH_LIMIT])
def test_long_chains_are_not_followed(length: int) -> None:
    def fn() -> Any:
        number = jnp.asarray(SOME)
        for _ in range(length):
            number = number + 1
        return number

    program = jax.make_jaxpr(fn)()
    value = Constants(program).value(program.jaxpr.outvars[0])
    assert (value is None) is (length > DEPTH_LIMIT)
