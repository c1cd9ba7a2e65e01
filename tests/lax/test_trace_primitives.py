"""Tracing: JAX's primitives with programs inside, and operands of PRNG keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import linear_call
from jax.experimental import compute_on, pallas, scheduling_groups
from jax.experimental.custom_partitioning import custom_partitioning
from jax.scipy.sparse.linalg import cg, gmres

from dmlgather.lax.tracing.jaxprs import parts
from tests.lax.executing import executed

struct: Any = jax.ShapeDtypeStruct
labelled: Any = scheduling_groups.xla_metadata_call
on_the_host: Any = getattr(compute_on, "compute_on2", compute_on.compute_on)  # its name before 0.12

X = np.arange(4, dtype=np.float32)
KEYS = {name: jax.random.split(jax.random.key(3, impl=name), 5) for name in ("threefry2x32", "rbg")}


def backwards(x: Any) -> Any:
    return x[::-1]


@custom_vmap
def with_vmap(x: Any) -> Any:
    return x[::-1]


with_vmap.def_vmap(lambda size, batched, x: (x[:, ::-1], True))


@custom_partitioning
def partitioned(x: Any) -> Any:
    return x[::-1]


rule: Any = partitioned.def_partition
rule(partition=lambda *_: None, infer_sharding_from_operands=lambda *_: None, sharding_rule="i -> i")


@jax.custom_vjp
def rematerialised(x: Any) -> Any:
    return x[::-1]


rematerialised.defvjp(lambda x: (x[::-1], x), lambda _, gradient: (gradient,), optimize_remat=True)


def in_a_kernel(x: Any) -> Any:
    def kernel(read: Any, written: Any) -> None:
        written[...] = read[...][::-1]

    return pallas.pallas_call(kernel, out_shape=struct(x.shape, x.dtype), interpret=True)(x)


def root(b: Any) -> Any:
    return lax.custom_root(lambda x: x - b[::-1], b, lambda f, x: x - f(x), lambda g, y: y / g(jnp.ones_like(y)))


CALLED: dict[str, tuple[Callable[..., Any], str]] = {
    "composite": (lax.composite(backwards, name="a.b"), "composite:a.b"),
    "custom_vmap_call": (with_vmap, "custom_vmap_call"),
    "custom_partitioning": (partitioned, "custom_partitioning"),
    "linear_call": (lambda x: linear_call(lambda _, x: x[::-1], lambda _, y: y[::-1], (), x), "linear_call"),
    "xla_metadata_call": (labelled(backwards, group="b"), "xla_metadata_call"),
    "compute_on": (on_the_host(backwards, compute_type="device_host", out_memory_spaces=jax.memory.Space.Device), "compute_on"),
    "remat_opt": (lambda x: jax.vjp(rematerialised, x)[0], "remat_opt"),
    "custom_root": (root, "custom_jvp_call"),
    "platform_dependent": (lambda x: lax.platform_dependent(x, cpu=backwards, default=lambda x: x), "cond.branches[0]"),
    "custom_linear_solve": (
        lambda b: lax.custom_linear_solve(lambda v: v, b, lambda _, b: b[::-1]),
        "custom_linear_solve.jaxprs.solve",
    ),
}


OPAQUE: dict[str, tuple[Callable[..., Any], str]] = {
    "pallas_call": (in_a_kernel, "pallas_call"),
    "reduce": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.stack([a, b])[::-1][0], (0,)), "reduce"),
    "scatter": (lambda x: jnp.asarray(x).at[0].apply(lambda v: jnp.stack([v, v])[::-1][0]), "scatter"),
}


if not hasattr(compute_on, "compute_on2"):  # from JAX 0.12 on, custom_root is an object that JAX evaluates
    OPAQUE["custom_root"] = (CALLED.pop("custom_root")[0], "CustomRoot")


@pytest.mark.parametrize("title", CALLED)
def test_programs_that_are_called_are_entered(title: str) -> None:
    fn, where = CALLED[title]
    trace = executed(fn, X)
    entry = next(entry for entry in trace if entry.where == where)
    assert entry.primitive == "rev"
    assert str(entry.runs) == "1, equal"
    assert trace.equal


@pytest.mark.parametrize("title", OPAQUE)
def test_programs_that_jax_evaluates_as_a_whole_are_listed(title: str) -> None:
    fn, around = OPAQUE[title]
    trace = executed(fn, X)
    entry = next(entry for entry in trace if entry.primitive == "rev")
    assert entry.where.replace("/", ".").split(".")[0] == around
    assert entry.plan is not None
    assert str(entry.runs) == f"0: {around} around it was evaluated as a whole"


@pytest.mark.slow
@pytest.mark.parametrize("solver", [cg, gmres])
def test_iterative_solvers_are_entered_and_what_serves_derivatives_says_so(solver: Any) -> None:
    order = np.array([2, 0, 3, 1])

    def operator(v: Any) -> Any:
        return (3 * v)[order][np.argsort(order)]

    trace = executed(lambda b: solver(operator, b)[0], X)
    assert trace.equal
    places = {entry.where.split("/")[0]: entry for entry in trace if entry.primitive == "gather"}
    title = "custom_linear_solve.jaxprs"
    assert {place.removeprefix(f"{title}.") for place in places} >= {"matvec", "solve"}
    for place, entry in places.items():
        if place != f"{title}.solve":
            assert entry.runs.note == "custom_linear_solve runs it for derivatives alone"
    assert {entry.runs.equal for entry in trace if entry.where == f"{title}.solve"} == {True}
    looped = [entry.runs for entry in trace if entry.where.startswith(f"{title}.solve/while.body")]
    assert looped
    assert all(runs.equal for runs in looped if runs.count)


def test_a_solve_gives_what_jax_gives_it() -> None:
    """Constants of four programs stand before the right-hand sides; only those of one are its own."""
    one, two, three = (np.arange(size) for size in (1, 2, 3))

    def matvec(v: Any) -> Any:
        return v + 0 * jnp.asarray(one)[0] * v

    def solve(_: Any, b: Any) -> Any:
        return b[::-1] * jnp.asarray(two)[1] + jnp.asarray(three)[2]

    fn = partial(lax.custom_linear_solve, matvec, solve=solve, transpose_solve=solve)
    trace = executed(lambda b: fn(b)[1:], X)
    assert trace.equal
    assert [str(entry.runs) for entry in trace if entry.where == ""] == ["1, equal"]


def test_programs_in_records_are_found() -> None:
    """The index maps of a Pallas kernel are fields of records in its parameters."""
    spec = pallas.BlockSpec((4,), lambda i: (i,))
    call = pallas.pallas_call(
        lambda read, written: written.__setitem__(..., read[...]),
        out_shape=struct((4,), np.float32),
        grid=(1,),
        in_specs=[spec],
        out_specs=spec,
        interpret=True,
    )
    (eqn,) = jax.make_jaxpr(call)(X).eqns
    assert any("index_map_jaxpr" in label for label in parts(eqn))


def test_a_primitive_of_the_same_name_is_another_one() -> None:
    other: Any = jax.extend.core.Primitive("gather")
    other.def_impl(lambda x: x)
    other.def_abstract_eval(lambda x: x)
    assert [entry.primitive for entry in executed(lambda x: other.bind(x)[::-1], X)] == ["rev"]


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize(
    ("fn", "primitives"),
    [
        (lambda k, i: k[i], {"gather"}),
        (lambda k, i: k.at[i].get(mode="fill"), {"gather"}),
        (lambda k, i: k.at[i].get(mode="fill", fill_value=5), {"gather"}),
        (lambda k, i: k.at[i].get(mode="clip"), {"gather"}),
        (jax.vmap(lambda k, i: k[i], (None, 0)), {"gather"}),
        (lambda k, i: jnp.stack([k, k])[i % 2, i], {"gather"}),
        (lambda k, i: lax.dynamic_slice(k, (i[0],), (2,)), {"dynamic_slice"}),
        (lambda k, i: lax.dynamic_slice(k, (9,), (2,)), {"dynamic_slice"}),
        (lambda k, i: k[1:4:2], {"slice"}),
        (lambda k, i: k[::-2], {"slice", "rev"}),
        (lambda k, i: lax.scan(lambda c, k: (c, k.reshape(1)[::-1]), 0, k)[1], {"rev"}),
    ],
)
def test_keys_are_gathered_as_their_words(fn: Callable[..., Any], primitives: set[str], kind: str) -> None:
    trace = executed(fn, KEYS[kind], np.array([1, 7, -3], np.int32))
    entries = [entry for entry in trace if str(entry.operand).startswith("key<")]
    assert {entry.primitive for entry in entries} == primitives
    for entry in entries:
        assert entry.key_words is not None
        assert entry.key_words.shape == (*entry.operand.shape, *jax.random.key_data(KEYS[kind]).shape[1:])
        assert f"words     {entry.key_words}, what {entry.operand} holds" in str(entry)
        assert json.loads(json.dumps(entry.to_json()))["key_words"]["dtype"] == "uint32"
        assert entry.directml is not None
        assert entry.directml.level is not None
        assert entry.runs.equal, entry


def test_other_elements_of_jaxs_own_have_no_plan_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlgather.lax.tracing.jaxprs.key_words", lambda dtype: None)
    (entry,) = executed(lambda k: k[::-1], KEYS["rbg"])
    assert (entry.plan, entry.directml, entry.bytes_moved, entry.key_words) == (None, None, None, None)
    assert entry.no_plan == "key<rbg> is a type of JAX's own, whose elements are neither plain bits nor PRNG keys"
    assert (entry.runs.count, entry.runs.equal) == (1, None)
    assert entry.runs.note == f"no plan: {entry.no_plan}"
    assert f"no plan   {entry.no_plan}" in str(entry)
