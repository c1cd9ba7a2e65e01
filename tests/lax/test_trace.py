"""Tracing: which equations are found and where, how they are executed, and what is said where there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import dmlgather as dg
from dmlgather.lax.tracing.jaxprs import equations
from tests import seeds
from tests.lax.everyday import IDX, X
from tests.lax.executing import executed
from tests.lax.jaxpr_evaluation import JaxprEvaluator


def outcomes(trace: Any) -> list[tuple[int, bool | None]]:
    return [(entry.runs.count, entry.runs.equal) for entry in trace]


@jax.custom_jvp
def with_jvp(x: Any) -> Any:
    return x[::-1]


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), with_jvp(*tangents)))


@jax.custom_vjp
def with_vjp(x: Any) -> Any:
    return x[::-1]


with_vjp.defvjp(lambda x: (x[::-1], None), lambda _, gradient: (gradient,))


@pytest.mark.parametrize(
    ("fn", "where", "runs"),
    [
        (jax.jit(lambda x: x[::-1]), "jit:<lambda>", 1),
        (jax.checkpoint(lambda x: x[::-1]), "remat2", 1),
        (with_jvp, "custom_jvp_call", 1),
        (with_vjp, "custom_vjp_call", 1),
        (lambda x: lax.fori_loop(0, 4, lambda _, y: y[::-1], x), "scan", 4),
        (lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1][::-1]), (0, x)), "while.body", 3),
        (lambda x: lax.while_loop(lambda i: i + x[:, ::-1].size < 42, lambda i: i + 1, 0), "while.cond", 3),
        (lambda x: lax.switch(2, [lambda: x, lambda: x + 1, lambda: x[::-1]]), "cond.branches[2]", 1),
        (lambda x: lax.map(lambda row: row[::-1], x), "scan", 8),
        (jax.jit(lambda y: lax.scan(lambda c, r: (c, r[::-1]), 0, y, reverse=True)), "jit:<lambda>/scan", 8),
    ],
)
def test_bodies_are_entered_and_evaluated_step_by_step(fn: Callable[..., Any], where: str, runs: int) -> None:
    trace = executed(fn, X)
    found = [(entry.where, entry.primitive) for entry in trace if entry.primitive == "rev"]
    assert found == [(where, "rev")]
    assert {outcome for entry, outcome in zip(trace, outcomes(trace), strict=True) if entry.primitive == "rev"} == {(runs, True)}
    assert trace.equal


@pytest.mark.slow
def test_stepping_through_loops_gives_what_jax_gives() -> None:
    def fn(x: Any, idx: Any) -> Any:
        total, rows = lax.scan(lambda c, i: (c * 2 + x[i], (c[0], x[i])), x[0], idx, reverse=True)
        count, last = lax.while_loop(lambda s: s[0] < idx.max(), lambda s: (s[0] + 3, s[1] + x[s[0]]), (idx.min(), total))
        picked = lax.cond(count > 5, lambda: rows[1][::-1], lambda: rows[1])
        return jnp.concatenate([picked, last[None], jnp.stack([rows[0]] * 5, 1)]), count

    x, idx = jnp.asarray(seeds.numpy_rng().integers(0, 99, (8, 5), np.int32)), jnp.array([1, 7, 0])
    program = jax.make_jaxpr(fn)(x, idx)
    ran: list[Any] = []
    evaluator = JaxprEvaluator([place for place, *_ in equations(program)], lambda place, eqn, *_: ran.append(eqn.primitive.name))
    for found, expected in zip(evaluator.run(program, [x, idx]), fn(x, idx), strict=True):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    assert (ran.count("scan"), ran.count("while"), ran.count("cond")) == (1, 1, 1)
    assert ran.count("dynamic_slice") == 2 * 3 + 3
    assert executed(fn, x, idx).equal


@pytest.mark.slow
def test_a_loop_under_vmap_ends_for_each_row_on_its_own() -> None:
    def fn(x: Any, ends: Any) -> Any:
        def loop(row: Any, end: Any) -> Any:
            return lax.while_loop(
                lambda s: s[0] < end, lambda s: (s[0] + 1, s[1] + row[s[0]], jax.random.split(s[2])[0]), (0, 0, jax.random.key(1))
            )

        count, total, key = jax.vmap(loop)(x, ends)
        return count, total, jax.random.key_data(key)

    x, ends = jnp.asarray(seeds.numpy_rng().integers(0, 99, (4, 5), np.int32)), jnp.array([3, 0, 5, 1])
    program = jax.make_jaxpr(fn)(x, ends)
    evaluator = JaxprEvaluator([place for place, *_ in equations(program)], lambda *_: None)
    for found, expected in zip(evaluator.run(program, [x, ends]), fn(x, ends), strict=True):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    trace = executed(fn, x, ends)
    assert {entry.runs.count for entry in trace if entry.primitive == "gather"} == {5}
    assert trace.equal


def test_one_body_at_two_places_is_two_entries() -> None:
    take = jax.jit(lambda x, idx: x[idx])
    trace = executed(lambda x, idx: take(x, idx) + lax.cond(idx[0] > 9, lambda: take(x, idx), lambda: take(x, idx)), X, IDX)
    gathers = [(entry.where, entry.runs) for entry in trace if entry.primitive == "gather"]
    assert [where.split("/")[0] for where, _ in gathers] == ["jit:<lambda>", "cond.branches[0]", "cond.branches[1]"]
    assert [runs.count for _, runs in gathers if runs] == [1, 1, 0]
    assert gathers[2][1] is not None
    assert gathers[2][1].note == "these values do not lead to it"


class Frozen(dict[str, Any]):
    """A mapping that JAX takes as a parameter, which must be hashable."""

    def __hash__(self) -> int:  # type: ignore[override] # dict has none
        return id(self)


def unknown(**parameters: Any) -> Any:
    """A primitive that JAX has never heard of, with these parameters; its value is its argument."""
    primitive: Any = jax.extend.core.Primitive("from_tomorrow")
    primitive.def_impl(lambda x, **_: x)
    primitive.def_abstract_eval(lambda x, **_: x)
    return partial(primitive.bind, **parameters)


def test_jaxprs_in_an_unknown_primitive_are_found_by_type() -> None:
    closed = jax.make_jaxpr(lambda x: x[::-1])(X)
    bind = unknown(first=closed, kept=(Frozen(deep=(closed.jaxpr,)), 3), body_jaxpr=closed, name="it")
    trace = executed(lambda x: bind(x)[1:3], X)
    title = "from_tomorrow:it"
    expected = [f"{title}.first", f"{title}.kept[0]['deep'][0]", f"{title}.body", ""]
    assert [entry.where for entry in trace] == expected
    assert outcomes(trace) == [(0, None)] * 3 + [(1, True)]
    assert trace[0].runs.note == "from_tomorrow around it was evaluated as a whole"
    assert trace[0].source is not None


def test_shard_map_is_found_and_evaluated_as_a_whole() -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), ("a",))
    split: Any = PartitionSpec
    rows: Any = jax.shard_map(lambda x: x[::-1], mesh=mesh, in_specs=(split("a"),), out_specs=split("a"))
    trace = executed(lambda x: rows(x)[1:2], X)
    assert [(entry.where, entry.primitive) for entry in trace] == [("shard_map", "rev"), ("", "slice")]
    assert outcomes(trace) == [(0, None), (1, True)]
    assert trace[0].runs.note.startswith("shard_map around it")


def test_a_scan_that_never_runs() -> None:
    trace = executed(lambda x: lax.scan(lambda c, row: (c, row[::-1]), 0, x[:0])[1][::-1], X)
    assert [(entry.where, entry.primitive) for entry in trace] == [("", "slice"), ("scan", "rev"), ("", "rev")]
    assert outcomes(trace) == [(1, True), (0, None), (1, True)]


@pytest.mark.parametrize("kind", ["bool", "int4", "uint4", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "uint16"])
def test_types_that_numpy_lacks_are_compared_as_well(kind: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    x = jnp.asarray(seeds.numpy_rng().integers(0, 8, (6, 4)).astype(dtype))
    fill = {"mode": "fill", "fill_value": 1}
    trace = executed(lambda x, i, k: (x[i], x[::-1], x[1:3], x[k], x.at[i].get(**fill)), x, IDX, 2)
    assert len(trace) == 5
    assert outcomes(trace) == [(1, True)] * 5, str(trace)


def test_the_fill_value_is_shown() -> None:
    for kind, shown in (("float32", "nan"), ("int8", "-128"), ("uint16", "65535"), ("bool", "True")):
        (entry,) = dg.lax.trace(lambda x, i: x.at[i].get(mode="fill"), jnp.zeros(4, kind), IDX)
        assert (entry.mode, entry.fill) == ("fill", shown)
    (entry,) = dg.lax.trace(lambda x, i: x.at[i].get(mode="fill", fill_value=7), jnp.zeros(4, "int32"), IDX)
    assert entry.policy == "fill 7"
