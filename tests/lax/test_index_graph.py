"""Graphs of JAX functions: each primitive's steps give JAX's bits, and only what computes the same is equal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dmlgather.dialects.index_graph import Elementwise, IndexGraph, Opaque
from dmlgather.lax.tracing.index_graph import index_graph, read_program
from tests import seeds
from tests.lax.everyday import EXPRESSIONS, IDX, Expression, X
from tests.lax.stepping import stepped

EDGES = np.array([-(2**31), 2**31 - 1, -1, 0, 1, 7, -7, 6], np.int32)
BARRIER: Any = lax.optimization_barrier
STRUCT: Any = jax.ShapeDtypeStruct
BYTES = np.array([0, 1, 2, 127, 128, 254, 255, 7], np.uint8)


def works(graph: IndexGraph) -> list[str]:
    return [str(getattr(step.work, "operator", getattr(step.work, "name", "concatenation"))) for step in graph.steps]


def agrees(fn: Callable[..., Any], *args: Any, opaque: int = 0) -> IndexGraph:
    """The graph of a function, which gives the function's bits, with this number of opaque steps."""
    program = read_program(jax.make_jaxpr(fn)(*args))
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(fn(*jax.tree.map(jnp.asarray, args)))]
    found = stepped(program, jax.tree.leaves(args))
    assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]
    assert sum(isinstance(step.work, Opaque) for step in program.graph.steps) == opaque
    return program.graph


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda expression: expression.title)
def test_everyday_expressions(expression: Expression) -> None:
    agrees(expression.fn, *expression.arguments(seeds.numpy_rng()), opaque=1 if "scan" in expression.title else 0)


@pytest.mark.parametrize(
    ("fn", "names"),
    [
        (lambda x: x.reshape(4, 10), ["reshape"]),
        (lambda x: lax.reshape(x, (10, 4), dimensions=(1, 0)), ["transpose", "reshape"]),
        (lambda x: jnp.squeeze(x[None, :, None], (0, 2)), ["reshape", "reshape"]),
        (lambda x: x.T, ["transpose"]),
        (lambda x: lax.transpose(x, (0, 1)), []),
        (lambda x: jnp.broadcast_to(x, (2, 8, 5)), ["reshape", "expand"]),
        (lambda x: lax.broadcast_in_dim(x[:, :1], (8, 3, 4), (0, 1)), ["slice", "reshape", "expand"]),
        (lambda x: jnp.tile(x, (2, 1)), ["reshape", "expand", "reshape"]),
        (lambda x: jnp.repeat(x, 2, 0), ["reshape", "expand", "reshape"]),
        (lambda x: jnp.split(x, [3, 3], 0), ["slice"] * 3),
        (lambda x: jnp.unstack(x, axis=1), ["slice", "reshape"] * 5),
        (lambda x: jnp.concatenate([x, x[:2]]), ["slice", "concatenation"]),
        (lambda x: jnp.stack([x, x], 1), ["reshape", "reshape", "concatenation"]),
        (lambda x: jnp.roll(x, 2, 1), ["slice", "slice", "concatenation"]),
        (jnp.flip, ["rev"]),
        (lambda x: BARRIER((lax.stop_gradient(jnp.copy(x)), x))[0], []),
        (lambda x: jax.device_put(x)[1:], ["slice"]),
        (jax.checkpoint(lambda x: x[1:]), ["slice"]),
        (lambda x: x[np.array([1, -1])], ["gather"]),
        (lambda x: (x[0:0], x[0:0].reshape(5, 0), jnp.concatenate([x[0:0], x])), None),
        (lambda x: (x, x, jnp.arange(3)), []),
    ],
)
def test_views_concatenations_and_identities(fn: Callable[..., Any], names: list[str] | None) -> None:
    graph = agrees(fn, X)
    assert names is None or works(graph) == names


@pytest.mark.parametrize("values", [EDGES, EDGES > 0], ids=["int32", "bool"])
def test_comparisons_and_casts(values: Any) -> None:
    def fn(a: Any, b: Any) -> Any:
        compared = a < b, a <= b, a > b, a >= b, a == b, a != b
        return (
            *compared,
            jnp.maximum(a, b),
            jnp.minimum(a, b),
            jnp.where(compared[0], a, b),
            [a.astype(kind) for kind in (bool, np.int8, np.uint16)],
        )

    agrees(fn, values, values[::-1].copy())


def test_arithmetic_wraps_around_as_in_jax() -> None:
    def fn(a: Any, b: Any) -> Any:
        return a + b, a - b, a * b, -a, lax.clamp(np.int32(-7), a, np.int32(7)), (a < b) & ~(a > 0) | (b == a)

    agrees(fn, EDGES, EDGES[::-1].copy())


@pytest.mark.parametrize("values", [EDGES, BYTES], ids=["int32", "uint8"])
@pytest.mark.parametrize("divisor", [3, 127])
def test_remainders_by_a_known_number(values: Any, divisor: int) -> None:
    number = values.dtype.type(divisor)
    agrees(lambda a: (lax.rem(a, jnp.full_like(a, number)), a % number), values)


def test_what_has_no_form_of_its_own_is_opaque() -> None:
    agrees(lax.rem, EDGES, EDGES[::-1].copy(), opaque=1)
    agrees(lambda a: (a & 3, a | 4, ~a), EDGES, opaque=3)
    agrees(lambda x: jnp.where(x > 0, x, -x), X, opaque=2)
    agrees(lax.select_n, np.arange(8, dtype=np.int32) % 3, EDGES, EDGES + 1, EDGES + 2, opaque=1)
    graph = index_graph(lambda x: jnp.sort(jnp.asarray(x).at[1].set(0)[::-1]), X)
    assert works(graph) == ["lax.scatter", "rev", "lax.sort"]


def test_loops_without_results_are_opaque_and_dropped() -> None:
    def fn(x: Any) -> Any:
        return lax.scan(lambda x, _: (x, None), lax.while_loop(lambda x: False, lambda x: x, x)[::2], None, length=3)[0]

    assert works(agrees(fn, X, opaque=2).needed()) == ["slice"]


def test_keys_are_their_words() -> None:
    keys = jax.random.split(jax.random.key(0), 4)

    def fn(keys: Any, i: Any) -> Any:
        moved = jnp.stack([keys[i], keys[::-1][:3]]).T.reshape(2, 3)
        return jnp.where(i[0] > 0, moved[0], moved[1]), jnp.broadcast_to(keys[0], (2,))

    program = read_program(jax.make_jaxpr(fn)(keys, IDX[:3] % 4))
    assert program.graph.types["keys"].shape == (4, 2)
    assert [step.work.operator for step in program.graph.steps if isinstance(step.work, Opaque)] == ["lax.select_n"]


def test_arguments_are_labelled_as_users_know_them() -> None:
    graph = index_graph(lambda tree, *more: tree["x"][more[0]], {"x": X}, IDX)
    assert graph.inputs == ("tree['x']", "more[0]")
    assert index_graph(jax.make_jaxpr(lambda x: x[1:])(X)).inputs == ("x",)
    with pytest.raises(TypeError, match="but 1 example follow: leave them out"):
        index_graph(jax.make_jaxpr(lambda x: x[1:])(X), X)


def test_a_size_that_is_a_symbol_is_refused() -> None:
    (size,) = jax.export.symbolic_shape("n")
    rows = STRUCT((size, 5), np.float32)
    with pytest.raises(ValueError, match=r"float32\[n,5\], whose size n is a symbol: state every size as a number"):
        index_graph(lambda x: x[::-1], rows)


def attributes(fn: Callable[..., Any], *args: Any) -> list[Any]:
    return [step.work for step in index_graph(fn, *args).steps if isinstance(step.work, Opaque)]


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x @ x.T, "lax.matmul"),
        (lambda x: x[None] @ x.T[None], "lax.matmul"),
        (lambda x: jnp.einsum("ij,kj->ik", x, x), "lax.dot_general"),
        (lambda x: jnp.matmul(x, x.T, precision="highest"), "lax.dot_general"),
        (lambda x: lax.dot(x, x.T), "lax.dot_general"),
        (lambda x: x[0] @ x.T, "lax.dot_general"),
        (lambda x: lax.bitcast_convert_type(x, np.int32), "bitcast"),
        (lambda x: lax.bitcast_convert_type(x, np.int16), "lax.bitcast_convert_type"),
    ],
)
def test_names_that_attributes_decide(fn: Callable[..., Any], expected: str) -> None:
    (found,) = attributes(fn, X)
    assert found.operator == expected


def scanned(number: Any) -> Callable[..., Any]:
    return lambda x: lax.scan(lambda c, row: (c + number, row * c), jnp.float32(0), x)[1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (jnp.sin, jnp.sin, True),
        (jnp.sin, jnp.cos, False),
        (partial(jnp.sum, axis=0), lambda x: x.sum(0), True),
        (partial(jnp.sum, axis=0), partial(jnp.sum, axis=1), False),
        (scanned(np.float32(1)), scanned(1), True),
        (scanned(np.float32(1)), scanned(np.float32(2)), False),
        (scanned(np.float32(0)), scanned(np.float32(-0.0)), False),
        (lambda x: x * np.float32(3), lambda x: x * np.float32(3), True),
    ],
)
def test_opaque_steps_are_equal_where_they_compute_the_same(one: Any, other: Any, same: bool) -> None:
    found = attributes(one, X)
    assert found
    assert (found == attributes(other, X)) is same
    assert hash(tuple(found)) is not None


def test_equations_with_effects_are_equal_to_no_other() -> None:
    def fn(x: Any) -> Any:
        jax.debug.print("{}", x[0, 0])
        return x

    assert attributes(fn, X) != attributes(fn, X)
    assert attributes(fn, X)[0] != attributes(lambda x: (fn(x), fn(x)), X)[1]
    assert attributes(lambda x: lax.map(fn, x[None]), X) != attributes(lambda x: lax.map(fn, x[None]), X)


def test_a_callback_equals_itself_alone() -> None:
    def double(x: Any) -> Any:
        return x * 2

    def calling(callback: Any) -> Any:
        return lambda x: jax.pure_callback(callback, STRUCT((8, 5), np.float32), x)

    assert attributes(calling(double), X) == attributes(calling(double), X)
    assert attributes(calling(double), X) != attributes(calling(lambda x: x * 2), X)


def test_normalised_indices_are_arithmetic() -> None:
    graph = index_graph(lambda x, i: x[i], X, IDX)
    found = [step.work.operator for step in graph.steps if isinstance(step.work, Elementwise)]
    assert found == ["less", "add", "where"]
