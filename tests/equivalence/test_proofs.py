"""What is proven, and what is not: each row is a pair of programs whose relation is known by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import StridedView
from dmlgather.equivalence import decide
from dmlgather.equivalence.results import Given
from dmlgather.lax.problems.gather import GatherDimensionNumbers, LaxGather
from dmlgather.plan import OutOfBounds
from tests.equivalence.making import (
    Program,
    clipped,
    cut,
    do,
    graph,
    ids,
    lax_take,
    number,
    other,
    take,
    take_nd,
    typed,
    wrapped,
)

X, IDS = typed(10, 8), ids(4)


def clipped_nd(b: GraphBuilder, x: str, i: str) -> str:
    numbers = GatherDimensionNumbers((1,), (0, 1), (0, 1))
    return b.problem("lax nd", LaxGather(b.types[x], b.types[i], numbers, (1, 1, 2), OutOfBounds.CLAMP), x, i)


def turned_flat(b: GraphBuilder, x: str) -> str:
    return b.reshaped("flat", b.transposed("t", x, (1, 0)), (80,))


def filled_by_mask(b: GraphBuilder, x: str, i: str) -> str:
    """FILL without FILL: gather at clipped indices, and select."""
    inside = clipped(b, i, 0, 9)
    mask = b.reshaped("column", do(b, "equal", inside, i, dtype="bool"), (4, 1))
    return do(b, "where", mask, take(b, x, inside), number(b, -1, "float32"))


EQUAL: dict[str, tuple[Program, Program, tuple[TensorType, ...]]] = {
    "slice and gather of different axes": (
        lambda b, x, i: cut(b, take(b, x, i), (0, 4, 1), (6, 3, -2)),
        lambda b, x, i: take(b, cut(b, x, (0, 10, 1), (6, 3, -2)), i),
        (X, IDS),
    ),
    "transpose through gather": (
        lambda b, x, i: take(b, b.transposed("t", x, (1, 0, 2)), i, 1),
        lambda b, x, i: b.transposed("t", take(b, x, i), (2, 0, 1, 3)),
        (typed(10, 8, 6), ids(4, 5)),
    ),
    "wrapped by arithmetic": (
        lambda b, x, i: take(b, x, wrapped(b, clipped(b, i, -10, 9), 10)),
        lambda b, x, i: take(b, x, clipped(b, i, -10, 9)),
        (X, IDS),
    ),
    "clipped by arithmetic": (lax_take, lambda b, x, i: take(b, x, clipped(b, i, 0, 9)), (X, IDS)),
    "clipped per component": (
        clipped_nd,
        lambda b, x, i: take_nd(b, x, clipped(b, i, [0, 0], [4, 6])),
        (typed(5, 7, 2), ids(6, 2)),
    ),
    "filled by selection": (lambda b, x, i: lax_take(b, x, i, fill=-1), filled_by_mask, (X, IDS)),
    "parts put together": (
        lambda b, x: b.concatenated("c", [cut(b, x, (0, 10, 1), (0, 3, 1)), cut(b, x, (0, 10, 1), (3, 5, 1))], 1),
        lambda b, x: x,
        (X,),
    ),
    "gather of a concatenation": (
        lambda b, x, i, y: take(b, b.concatenated("c", [x, y], 1), i),
        lambda b, x, i, y: b.concatenated("c", [take(b, x, i), take(b, y, i)], 1),
        (X, IDS, typed(10, 3)),
    ),
    "rolled": (
        lambda b, x, i: take(b, b.concatenated("c", [cut(b, x, (0, 10, 1), (3, 5, 1)), cut(b, x, (0, 10, 1), (0, 3, 1))], 1), i),
        lambda b, x, i: take(b, take(b, x, number(b, [3, 4, 5, 6, 7, 0, 1, 2]), 1), i),
        (X, IDS),
    ),
    "two axes as one": (
        lambda b, x, i, j: take_nd(b, x, b.stacked("s", [clipped(b, i, 0, 9), clipped(b, j, 0, 7)], 1)),
        lambda b, x, i, j: take(
            b,
            b.reshaped("flat", x, (80,)),
            do(b, "add", do(b, "multiply", clipped(b, i, 0, 9), number(b, 8)), clipped(b, j, 0, 7)),
        ),
        (X, IDS, IDS),
    ),
    "constant indices that are strided": (
        lambda b, x: take(b, x, number(b, [8, 6, 4])),
        lambda b, x: cut(b, x, (8, 3, -2), (0, 8, 1)),
        (X,),
    ),
    "diagonal": (
        lambda b, x: b.problem("diagonal", StridedView(b.types[x], (8,), (9,)), x),
        lambda b, x: take_nd(b, x, number(b, [[k, k] for k in range(8)])),
        (X,),
    ),
    "views that strides cannot say": (
        lambda b, x: b.transposed("u", b.reshaped("q", cut(b, turned_flat(b, x), (1, 78, 1)), (39, 2)), (1, 0)),
        lambda b, x: b.reshaped("r", take(b, turned_flat(b, x), number(b, [*range(1, 79, 2), *range(2, 79, 2)])), (2, 39)),
        (X,),
    ),
    "constants": (
        lambda b, x, i: take(b, b.transposed("t", number(b, np.arange(6).reshape(2, 3), "float32"), (1, 0)), i),
        lambda b, x, i: take(b, number(b, [[0, 3], [1, 4], [2, 5]], "float32"), i),
        (X, IDS),
    ),
    "opaque steps with equal inputs": (
        lambda b, x, i: other(b, take(b, b.transposed("t", x, (1, 0)), i, 1)),
        lambda b, x, i: other(b, b.transposed("t", take(b, x, i), (1, 0))),
        (X, IDS),
    ),
    "a gather that raises always": (
        lambda b, x: take(b, x, number(b, [11])),
        lambda b, x: take(b, x, number(b, [-12])),
        (X,),
    ),
    "a gather that nothing needs and that cannot raise": (
        lambda b, x, i: (lax_take(b, x, i), take(b, x, clipped(b, i, -10, 9)), take(b, x, number(b, [-10, 9])), x)[-1],
        lambda b, x, i: x,
        (X, IDS),
    ),
    "gathers that nothing needs and that raise alike": (
        lambda b, x, i: (take(b, x, i), x)[-1],
        lambda b, x, i: (other(b, take(b, b.transposed("t", x, (1, 0)), i, 1)), x)[-1],
        (X, IDS),
    ),
    "no elements, and indices that are checked": (
        take,
        lambda b, x, i: b.reshaped("r", take(b, x, i), (4, 0)),
        (typed(10, 0), IDS),
    ),
    "unsigned indices do not wrap": (
        lambda b, x, i: take(b, x, do(b, "cast", i, dtype="int32")),
        lambda b, x, i: take(b, x, wrapped(b, do(b, "cast", i, dtype="int32"), 10**6)),
        (X, ids(4, dtype="uint16")),
    ),
    "bits as another integer and back": (
        take,
        lambda b, x, i: do(b, "cast", take(b, do(b, "cast", x, dtype="int64"), i), dtype="uint64"),
        (typed(10, 8, dtype="uint64"), IDS),
    ),
}  # fmt: skip


FAR = [-(2**63), 0, 2**63 - 1, 5, 2**62]

EQUAL |= {
    "the first elements of a constant": (
        lambda b: other(b, cut(b, number(b, np.arange(8), "float32"), (0, 4, 1))),
        lambda b: other(b, number(b, np.arange(4), "float32")),
        (),
    ),
    "constants at both ends of int64": (
        lambda b, i: take(b, number(b, FAR), i),
        lambda b, i: take(b, b.reshaped("r", b.transposed("t", number(b, [FAR]), (1, 0)), (5,)), i),
        (IDS,),
    ),
    "constants that int64 does not hold": (
        lambda b, i: do(b, "cast", take(b, number(b, [2**64 - 1, 3], "uint64"), i), dtype="int64"),
        lambda b, i: take(b, do(b, "cast", number(b, [2**64 - 1, 3], "uint64"), dtype="int64"), i),
        (IDS,),
    ),
}


@pytest.mark.parametrize("row", EQUAL)
def test_equal_programs_are_proven(row: str) -> None:
    one, two, types = EQUAL[row]
    assert str(decide(graph(one, *types), graph(two, *types))) == "proven: equal for all inputs of these shapes"
    assert decide(graph(two, *types), graph(one, *types))


EQUAL |= {
    "a mask between data and constants that are not one value": (
        lambda b, x, m: b.transposed("t", do(b, "where", m, x, number(b, np.arange(80).reshape(10, 8), "float32")), (1, 0)),
        lambda b, x, m: do(
            b,
            "where",
            b.transposed("t", m, (1, 0)),
            b.transposed("t", x, (1, 0)),
            number(b, np.arange(80).reshape(10, 8).T, "float32"),
        ),
        (X, typed(10, 8, dtype="bool")),
    ),
}

DIFFERENT: dict[str, tuple[Program, Program, tuple[TensorType, ...]]] = {
    "another window": (
        lambda b, x, i: cut(b, take(b, x, i), (0, 4, 1), (6, 3, -2)),
        lambda b, x, i: take(b, cut(b, x, (0, 10, 1), (5, 3, -2)), i),
        (X, IDS),
    ),
    "arithmetic wraps what raises": (lambda b, x, i: take(b, x, wrapped(b, i, 10)), take, (X, IDS)),
    "clip and fill": (lax_take, lambda b, x, i: lax_take(b, x, i, fill=0), (X, IDS)),
    "another fill": (lambda b, x, i: lax_take(b, x, i, fill=0), lambda b, x, i: lax_take(b, x, i, fill=-0.0), (X, IDS)),
    "an index that a slice drops": (
        lambda b, x, i: cut(b, take(b, x, i), (0, 3, 1), (0, 8, 1)),
        lambda b, x, i: take(b, x, cut(b, i, (0, 3, 1))),
        (X, IDS),
    ),
    "all of p is checked, or what i leads to": (
        lambda b, x, i, p: take(b, x, take(b, p, i)),
        lambda b, x, i, p: take(b, take(b, x, p), i),
        (X, IDS, ids(7)),
    ),
    "one component clipped to less": (
        clipped_nd,
        lambda b, x, i: take_nd(b, x, clipped(b, i, [0, 0], [4, 5])),
        (typed(5, 7, 2), ids(6, 2)),
    ),
    "one element of many bools": (
        lambda b, x: cut(b, x, (0, 64, 1)),
        lambda b, x: take(b, x, number(b, [*range(63), 62])),
        (typed(64, dtype="bool"),),
    ),
    "arithmetic that overflows": (
        lambda b, x, i: lax_take(b, x, do(b, "add", i, number(b, 100, "int8"))),
        lambda b, x, i: lax_take(b, x, do(b, "add", do(b, "cast", i, dtype="int16"), number(b, 100, "int16"))),
        (X, ids(4, dtype="int8")),
    ),
    "an unsigned index that is -1 when cast": (
        lambda b, x: lax_take(b, x, do(b, "cast", number(b, [-1, 0]), dtype="uint64")),
        lambda b, x: lax_take(b, x, number(b, [-1, 0])),
        (X,),
    ),
    "the first elements of a concatenation, joined with others": (
        lambda b, x, y: cut(b, b.concatenated("c", [cut(b, b.concatenated("c", [x, y], 0), (0, 6, 1)), y], 0), (0, 7, 1)),
        lambda b, x, y: cut(b, b.concatenated("c", [x, y, y], 0), (0, 7, 1)),
        (typed(4), typed(4)),
    ),
    "a gather that nothing needs": (lambda b, x, i: (take(b, x, i), x)[-1], lambda b, x, i: x, (X, IDS)),
    "gathers that nothing needs, of two sizes": (
        lambda b, x, i: (take(b, x, i), x)[-1],
        lambda b, x, i: (take(b, x, i, 1), x)[-1],
        (X, IDS),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", DIFFERENT)
@pytest.mark.parametrize("swapped", [False, True])
def test_programs_that_differ_have_a_counterexample(row: str, swapped: bool) -> None:
    one, two, types = DIFFERENT[row]
    graphs = graph(one, *types), graph(two, *types)
    found = decide(*(graphs[::-1] if swapped else graphs))
    assert found.verdict == "different"
    assert found.counterexample is not None


@pytest.mark.parametrize(
    ("one", "two", "given", "verdict"),
    [
        (take, lambda b, x, i: take(b, x, wrapped(b, i, 10)), "valid", "proven"),
        (take, lambda b, x, i: lax_take(b, x, wrapped(b, i, 10)), "valid", "proven"),
        (take, lax_take, "valid", "different"),  # a negative index is in range in ONNX
        (lax_take, take, "valid", "proven"),
        (lax_take, lambda b, x, i: lax_take(b, x, i, fill=7), "valid", "proven"),
        (lax_take, lambda b, x, i: lax_take(b, x, i, fill=7), "any", "different"),
    ],
)
def test_equality_where_the_first_programs_indices_are_in_range(one: Program, two: Program, given: Given, verdict: str) -> None:
    assert decide(graph(one, X, IDS), graph(two, X, IDS), given=given).verdict == verdict


def test_what_is_known_of_inner_indices() -> None:
    """x[p[i]] checks p where i leads, x[p][i] all of p: in range there, in range here, and not the other way round."""
    inner: Program = lambda b, x, i, p: take(b, x, take(b, p, i))  # noqa: E731 - a row as those above
    outer: Program = lambda b, x, i, p: take(b, take(b, x, p), i)  # noqa: E731 - likewise
    one, two = (graph(each, X, IDS, ids(7)) for each in (inner, outer))
    assert decide(two, one, given="valid")
    assert decide(one, two, given="valid").verdict == "different"


def test_an_operator_that_is_not_looked_into_stops_the_proof() -> None:
    turned = decide(
        graph(lambda b, x: b.transposed("t", other(b, x), (1, 0)), X),
        graph(lambda b, x: other(b, b.transposed("t", x, (1, 0))), X),
    )
    assert turned.verdict == "not proven"
    assert turned.step == "relu"
    assert "the second program does not do relu with inputs that are known to be equal" in turned.reason
    assert turned.counterexample is None


def test_operators_with_another_zero_are_others() -> None:
    """0.0 and -0.0 are equal in Python."""
    one, two = (
        graph(lambda b, x, zero=zero: b.opaque("pad", "pad", [x], [b.types[x]], attributes=(("value", zero),))[0], X)
        for zero in (0.0, -0.0)
    )
    assert decide(one, one)
    assert decide(one, two).verdict == "not proven"


def test_indices_that_an_opaque_step_computes() -> None:
    """Whether they can be out of range is not known; so no difference is claimed."""
    one = graph(lambda b, x, i: lax_take(b, x, other(b, i, "top_k")), X, IDS)
    two = graph(lambda b, x, i: lax_take(b, x, clipped(b, other(b, i, "top_k"), 0, 3)), X, IDS)
    assert decide(one, one)
    found = decide(one, two)
    assert found.verdict == "not proven"
    assert "they differ for some outputs of top_k, which is not looked into" in found.reason


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        ((X, IDS), (typed(10, 9), IDS), "input 'x' is float32 [10, 8] in the first program and float32 [10, 9] in the second"),
        ((X, IDS), (typed(10, 8, dtype="int32"), IDS), "input 'x' is float32 [10, 8] in the first program and int32 [10, 8] in"),
        ((X, IDS), (X, ids(5)), "input 'i' is int64 [4] in the first program and int64 [5] in the second"),
    ],
)
def test_other_types_of_inputs(one: tuple[TensorType, ...], two: tuple[TensorType, ...], reason: str) -> None:
    found = decide(graph(take, *one), graph(take, *two))
    assert found.verdict == "different"
    assert reason in found.reason


def test_numbers_of_inputs_and_outputs() -> None:
    one = graph(take, X, IDS)
    assert "has 2 inputs, the second 1, and their names differ" in decide(one, graph(lambda b, x: x, X, names=["z"])).reason
    both = graph(lambda b, x, i: [x, take(b, x, i)], X, IDS)
    assert decide(one, both).reason == "the first program has 1 output, the second 2"


def test_inputs_are_matched_by_name_or_by_position() -> None:
    one = graph(take, X, IDS)
    assert decide(one, graph(lambda b, i, x: take(b, x, i), IDS, X, names=["i", "x"]))
    assert decide(one, graph(take, X, IDS, names=["table", "rows"]))
    assert decide(one, graph(lambda b, x, i, extra: take(b, x, i), X, IDS, IDS))


def test_flat_tensors() -> None:
    one, two = graph(lambda b, x: x, X), graph(lambda b, x: x, typed(1, 1, 80))
    assert decide(one, two, flat=True)
    assert decide(one, two).verdict == "different"


def test_fused_graphs_do_what_they_did() -> None:
    program: Program = lambda b, x, i: cut(b, b.transposed("t", take(b, x, wrapped(b, i, 10)), (1, 0)), (7, 8, -1), (1, 2, 1))  # noqa: E731 - as above
    whole = graph(program, X, IDS)
    fused = dg.fuse(whole)
    assert len(fused.launches) < len(whole.steps)
    assert dg.equivalent(whole, fused)


def test_large_tensors_are_compared_by_strides() -> None:
    large = typed(30522, 768)
    one = graph(lambda b, x, i: cut(b, take(b, x, i), (0, 4096, 1), (0, 384, 2)), large, ids(4096))
    two = graph(lambda b, x, i: take(b, cut(b, x, (0, 30522, 1), (0, 384, 2)), i), large, ids(4096))
    assert decide(one, two)


def test_programs_that_are_too_large_to_run_are_not_run() -> None:
    large = typed(2**15, 2**14)
    one = graph(other, large)
    found = decide(one, graph(lambda b, x: b.transposed("t", other(b, b.transposed("t", x, (1, 0))), (1, 0)), large))
    assert found.verdict == "not proven"
    assert found.reason.endswith("the programs are too large to be run, so no counterexample was searched")


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "complex128", "object"])
def test_every_type_of_data(dtype: str) -> None:
    kind: Any = typed(5, 6, dtype=dtype)
    first, last = (graph(lambda b, x, k=k: cut(b, x, (k, 4, 1), (0, 6, 1)), kind) for k in (0, 1))
    assert decide(first, first)
    assert decide(first, last).verdict == "different"


def test_given_is_one_of_two() -> None:
    one = graph(lambda b, x: x, X)
    with pytest.raises(ValueError, match="given is 'all', expected 'any' or 'valid'"):
        decide(one, one, given="all")  # type: ignore[arg-type] # what is tested
