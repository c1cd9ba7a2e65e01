"""A difference is claimed only where no operator that is not looked into decides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import dmlgather as dg
from dmlgather.dialects.problem import TensorType
from dmlgather.equivalence import Equivalence, decide
from tests.equivalence.making import Program, clipped, cut, do, graph, ids, lax_take, number, other, take, typed
from tests.onnx.modelling import parsed

X, IDS = typed(10, 8), ids(4)


def computed(b: Any, i: str) -> str:
    """Indices that an operator computes of indices."""
    return other(b, i, "computed")


def backwards(b: Any, x: str) -> str:
    return cut(b, x, (9, 10, -1), (0, 8, 1))


def beside_another(b: Any, x: str, i: str) -> str:
    """Rows by indices that are clamped, cut from in front of what an operator makes of the same indices."""
    (scattered,) = b.opaque("scatter", "scatter", [x, i], [X])
    return cut(b, b.concatenated("both", [lax_take(b, x, i), scattered], 0), (0, 4, 1), (0, 8, 1))


def decided(one: Program, two: Program, *types: TensorType) -> list[Equivalence]:
    """What is said of two programs, in both orders."""
    a, b = graph(one, *(types or (X, IDS))), graph(two, *(types or (X, IDS)))
    return [decide(a, b), decide(b, a)]


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        (take, lambda b, x, i: take(b, x, computed(b, i)), "whether a program raises follows from the output of computed"),
        (take, lambda b, x, i: take(b, x, do(b, "add", computed(b, i), i)), "whether a program raises follows from the output"),
        (take, lambda b, x, i: take(b, x, take(b, computed(b, i), number(b, [0, 1, 2, 3]))), "whether a program raises follows"),
        (take, lambda b, x, i: (take(b, x, computed(b, i)), lax_take(b, x, i))[-1], "whether a program raises follows from the"),
        (
            lambda b, x, i: [x, take(b, x, computed(b, i))],
            lambda b, x, i: [backwards(b, x), take(b, x, computed(b, i))],
            "whether a program raises follows from the output of computed",
        ),
        (take, beside_another, "takes integers and may raise as well"),
        (lambda b, x, i: other(b, x), lambda b, x, i: other(b, x, "abs"), "they differ unless the output of"),
        (lambda b, x, i: other(b, x), lambda b, x, i: x, "they differ unless"),
        (
            lambda b, x, i: cut(b, other(b, x), (0, 1, 1), (0, 8, 1)),
            lambda b, x, i: cut(b, other(b, x), (1, 1, 1), (0, 8, 1)),
            "they differ unless the output of relu[0, 0] of the first program equals the output of relu[1, 0] of the second,",
        ),
    ],
)
def test_no_difference_that_another_operator_decides(one: Program, two: Program, reason: str) -> None:
    for found in decided(one, two):
        assert found.verdict == "not proven", found
        assert found.counterexample is None
    assert reason in decided(one, two)[0].reason


@pytest.mark.parametrize(
    ("one", "two"),
    [
        # What the operator computes is no part of the difference.
        (lambda b, x, i: other(b, take(b, x, i)), lambda b, x, i: other(b, lax_take(b, x, i))),
        (lambda b, x, i: [other(b, x), take(b, x, i)], lambda b, x, i: [other(b, x, "abs"), lax_take(b, x, i)]),
        (lambda b, x, i: [other(b, x), x], lambda b, x, i: [other(b, x), backwards(b, x)]),
        (lambda b, x, i: [lax_take(b, x, computed(b, i)), x], lambda b, x, i: [lax_take(b, x, computed(b, i)), backwards(b, x)]),
        # Some elements are an operator's, and others differ.
        (
            lambda b, x, i: b.concatenated("both", [other(b, x), x], 0),
            lambda b, x, i: b.concatenated("both", [other(b, x, "abs"), backwards(b, x)], 0),
        ),
    ],
)
def test_differences_beside_other_operators(one: Program, two: Program) -> None:
    for found in decided(one, two):
        assert found.verdict == "different", found
        assert found.counterexample is not None


def test_an_operator_that_takes_integers_may_raise_only_for_those_out_of_range() -> None:
    one: Program = lambda b, x, i: [take(b, x, i), computed(b, i)]  # noqa: E731 - as the rows above
    two: Program = lambda b, x, i: [take(b, backwards(b, x), i), computed(b, i)]  # noqa: E731 - likewise
    three: Program = lambda b, x, i: [take(b, x, clipped(b, i, -10, 9)), computed(b, i)]  # noqa: E731 - likewise
    assert [found.verdict for found in decided(one, two)] == ["different"] * 2
    assert [found.verdict for found in decided(one, three)] == ["not proven"] * 2


def test_indices_that_an_operator_computes_decide_which_inputs_count() -> None:
    one = graph(lambda b, x, i: [lax_take(b, x, computed(b, i)), x], X, IDS)
    two = graph(lambda b, x, i: [lax_take(b, x, computed(b, i)), backwards(b, x)], X, IDS)
    assert decide(one, two).verdict == "different"
    found = decide(one, two, given="valid")
    assert found.verdict == "not proven"
    assert "whether a program raises follows from the output of computed" in found.reason


ALIKE = {
    "padding": "p = Constant<value_ints = [1, 1, 1, 1]>() t = Pad(x, p)",
    "zeros above the diagonal": "t = Trilu<upper = 0>(x)",
    "the diagonal of ones": "e = EyeLike(x) t = Mul(e, e)",
    "elements that are repeated": (
        "n = Constant<value_floats = [1.0, 2.0]>() r = Constant<value_floats = [0.0]>() "
        "f = Constant<value_ints = [1, 1, 3, 4]>() x4 = Reshape(x, f) s = Constant<value_floats = [1.0, 1.0, 1.0, 2.0]>() "
        'u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x4, r, s) '
        "g = Constant<value_ints = [3, 8]>() t = Reshape(u, g)"
    ),
    "one function of equal elements": "c = Concat<axis = 1>(x, x) t = Tanh(c)",
}
"""Each makes `t`, of which two elements are equal."""

PLACES = {
    "padding": ([0, 0], [0, 1]),
    "zeros above the diagonal": ([0, 1], [1, 3]),
    "the diagonal of ones": ([0, 0], [1, 1]),
    "elements that are repeated": ([1, 2], [1, 3]),
    "one function of equal elements": ([2, 1], [2, 5]),
}


@pytest.mark.parametrize("row", ALIKE)
def test_other_operators_write_equal_elements(row: str) -> None:
    models = [
        parsed(f"agraph (float[3, 4] x) => (float y) <int64[2] at = {{{a}, {b}}}> {{ {ALIKE[row]} y = GatherND(t, at) }}")
        for a, b in PLACES[row]
    ]
    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 16 + 1
    one, two = (
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for model in models
    )
    assert one == two
    assert dg.equivalent(*models).verdict != "different"


IN_JAX: dict[str, Callable[[Any, Any], Any]] = {
    "divided by 1": lambda x, i: x[i // 1],
    "moved by no bits": lambda x, i: x[i >> 0],
    "or 0": lambda x, i: x[i | 0],
    "exclusive or 0": lambda x, i: x[i ^ 0],
    "halved": lambda x, i: x[i // 2],
    "turned twice": lambda x, i: x[~~i],
    "raised to the power 1": lambda x, i: x[i**1],
    "filled": lambda x, i: x.at[i].get(mode="fill", fill_value=3),
    "filled by indices that are moved": lambda x, i: x.at[i >> 0].get(mode="fill", fill_value=3),
    "one more": lambda x, i: x[i + 1],
}


@pytest.mark.parametrize("row", IN_JAX)
def test_a_difference_is_one_for_jax(row: str) -> None:
    def plain(x: Any, i: Any) -> Any:
        return x[i]

    x, every = jnp.arange(5.0) + 1, jnp.arange(-12, 13)
    equal = np.array_equal(plain(x, every), IN_JAX[row](x, every))
    for one, two in ((plain, IN_JAX[row]), (IN_JAX[row], plain)):
        found = dg.equivalent(one, two, x, every)
        assert found.verdict != ("different" if equal else "proven"), found
        if row in ("filled", "one more"):
            assert found.verdict == "different"
