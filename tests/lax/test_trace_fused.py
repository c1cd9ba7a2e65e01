"""Fused runs of traced functions: bits, kinds of arrays, and what each launch does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlgather as dg
from dmlgather.plan.compose import compose
from tests import seeds
from tests.chain_drawing import Chain, check_fresh_chains
from tests.lax.everyday import EXPRESSIONS, IDX, Expression, X
from tests.lax.fused_chains import faults
from tests.lax.random_chains import random_chain


def same(found: Any, expected: Any) -> bool:
    """Whether two trees have the same structure and bits."""
    (leaves, tree), (others, other) = (jax.tree.flatten(each) for each in (found, expected))
    bits = [(one.dtype, one.shape, np.asarray(one).tobytes()) for one in leaves]
    return str(tree) == str(other) and bits == [(one.dtype, one.shape, np.asarray(one).tobytes()) for one in others]


def test_random_chains_give_jaxs_bits() -> None:
    check_fresh_chains(random_chain, faults, 16)


def test_a_wrong_merge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain((lambda x, _: jnp.flip(x, 1), lambda x, _: x.T), ("flip(1)", "x.T"), X, ())
    assert faults([chain]) == []
    wrong = lambda outer, inner, **how: replace(compose(outer, inner, **how), in_offset=0)  # noqa: E731 # one line says it
    monkeypatch.setattr("dmlgather.fusion.fusing.compose", wrong)
    with pytest.raises(ValueError, match="the plan reaches input elements"):  # the plan itself refuses to leave its input
        faults([chain])
    backwards = lambda outer, inner, **how: replace((plan := compose(outer, inner, **how)), out_strides=plan.out_strides[::-1])  # noqa: E731
    square = replace(chain, x=X[:5])
    monkeypatch.setattr("dmlgather.fusion.fusing.compose", backwards)
    assert faults([square]) == ["fused differs: x float32[5, 5]: flip(1), x.T"]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda expression: expression.title)
def test_everyday_expressions_run(expression: Expression) -> None:
    arguments = expression.arguments(seeds.numpy_rng())
    trace = dg.lax.trace(expression.fn, *arguments)
    found = trace.run(*arguments)
    kind = jax.Array if any(isinstance(each, jax.Array) for each in arguments) else np.ndarray
    assert all(isinstance(leaf, kind) for leaf in jax.tree.leaves(found))
    assert same(found, expression.fn(*map(jnp.asarray, arguments)))


def test_slices_of_slices_clamp_the_start_of_each() -> None:
    """Where JAX's compiler does not: `tests.peers.jax`."""

    def fn(x: Any, i: Any, k: Any) -> Any:
        return lax.dynamic_slice(lax.dynamic_slice(x, [i], [5]), [k], [1])

    x = np.arange(6, dtype=np.int32)
    assert int(fn(jnp.asarray(x), 0, 9)[0]) == int(dg.lax.trace(fn, x, 0, 9).run(x, 0, 9)[0]) == 4


def test_arrays_of_jax_give_arrays_of_jax_and_trees_come_back() -> None:
    def fn(tree: Any, *, start: Any) -> Any:
        rows = tree["x"][tree["idx"][0]]
        return {"rows": rows.T, "same": (tree["x"], rows, rows), "sum": rows[:, ::2].sum(), "one": x_of(start), "none": None}

    def x_of(start: Any) -> Any:
        return lax.dynamic_index_in_dim(jnp.arange(8) * 2, start)

    tree = {"x": X, "idx": [IDX]}
    trace = dg.lax.trace(fn, tree, start=3)
    for given, kind in ((tree, np.ndarray), ({"x": jnp.asarray(X), "idx": [IDX]}, jax.Array)):
        found = trace.run(given, start=5)
        assert all(isinstance(leaf, kind) for leaf in jax.tree.leaves(found))
        assert same(found, fn(jax.tree.map(jnp.asarray, tree), start=5))
    trace.run(tree, start=0)["same"][0][:] = 0  # a result of its own
    assert X.view(np.uint8).any()


def test_keys_opaque_equations_and_effects(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(keys: Any, x: Any, i: Any) -> Any:
        jax.debug.print("i is {}", i)
        picked = keys[i]
        loop = lax.fori_loop(0, 2, lambda _, rows: rows[::-1] * 2, x[i])
        return picked, jnp.sin(x[i])[:, ::-1] + loop, jax.random.key_data(picked[0])

    keys, i = jax.random.split(jax.random.key(0), 8), np.abs(IDX) % 8
    trace = dg.lax.trace(fn, keys, X, i)
    picked, noisy, words = trace.run(keys, X, i)
    jax.effects_barrier()  # type: ignore[no-untyped-call] # JAX's
    assert capsys.readouterr().out == f"i is {i}\n"
    with jax.disable_jit():
        expected = fn(keys, jnp.asarray(X), i)
    assert same((jax.random.key_data(picked), noisy, words), (jax.random.key_data(expected[0]), *expected[1:]))
    inside = [entry for entry in trace if entry.where.startswith("scan")]
    assert [entry.launches for entry in inside] == [()] * len(inside) != []


def test_64_bit_arrays_stay_such() -> None:
    with jax.enable_x64(True):
        x = seeds.numpy_rng().random((8, 5))
        trace = dg.lax.trace(lambda x, i: x[i].T[::-1], x, IDX.astype(np.int64))
        found = trace.run(x, IDX.astype(np.int64))
    assert found.dtype == np.float64
    assert same(found, x[IDX].T[::-1])


def test_entries_say_which_launches_do_them() -> None:
    trace = dg.lax.trace(lambda x, i: (x[i][:, ::2].T, x[0:0], x[jnp.array([1])][:, 1:] * 2), X, IDX)
    assert [(entry.primitive, len(entry.launches)) for entry in trace] == [
        *(("gather", 1), ("slice", 1), ("slice", 1)),
        *(("gather", 1), ("slice", 1)),
    ]
    first, second, *_ = trace
    assert first.launches == second.launches
    holds = trace.fused.launches[first.launches[0]].holds
    assert {"gather", "slice", "transpose"} <= {*holds}
    assert trace.fused.bytes_saved > 0
    assert f"launch    {first.launches[0]}\n" in str(first)
    assert trace.to_json()["entries"][0]["launches"] == list(first.launches)
    assert json.loads(json.dumps(trace.to_json()))["fused"]["bytes_saved"] == trace.fused.bytes_saved


def test_a_dead_gather_and_a_known_one_have_no_launch() -> None:
    def fn(x: Any, i: Any) -> Any:
        _ = x[i]
        return x[1:], jnp.arange(5)[jnp.array([3])]

    trace = dg.lax.trace(fn, X, IDX)
    assert [(entry.primitive, entry.launches) for entry in trace] == [("gather", ()), ("slice", (0,)), ("gather", ())]
    assert same(trace.run(X, IDX), fn(jnp.asarray(X), IDX))


def test_a_function_of_nothing() -> None:
    trace = dg.lax.trace(lambda: (jnp.arange(100_000)[::3], 2))
    found, two = trace.run()
    assert isinstance(found, np.ndarray)
    assert (found.tolist(), two) == (list(range(0, 100_000, 3)), 2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X,), r"the arguments form PyTreeDef\(\(\(\*,\), \{\}\)\), but PyTreeDef\(\(\(\*, \*\), \{\}\)\) was traced"),
        ((X[:4], IDX), r"x is float32\[4, 5\], but float32\[8, 5\] was traced: trace the function again"),
        ((X, IDX * 1.5), r"i is float32\[3\], but int32\[3\] was traced"),
        ((X, jax.ShapeDtypeStruct((3,), np.int32)), r"i is ShapeDtypeStruct.*, a shape without values: run needs an array"),  # type: ignore[no-untyped-call] # JAX's
        (("a", IDX), "x is of type str, expected an array, or a number"),
    ],
)
def test_other_arguments_are_refused(args: Any, message: str) -> None:
    trace = dg.lax.trace(lambda x, i: x[i], X, IDX)
    with pytest.raises(TypeError, match=message):
        trace.run(*args)


def test_results_are_the_callers_own() -> None:
    def fn(x: Any, i: Any) -> Any:
        return {"argument": x, "gathered": x[i], "opaque": jnp.sin(x), "view of it": jnp.sin(x).T, "constant": jnp.arange(3)}

    trace = dg.lax.trace(fn, X, IDX)
    before = X.tobytes()
    for _ in range(2):
        found = trace.run(X, IDX)
        assert same(found, fn(jnp.asarray(X), IDX))
        for result in found.values():
            assert result.flags.writeable
            result[...] = 0
    assert X.tobytes() == before
