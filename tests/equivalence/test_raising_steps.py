"""A gather that can raise is a part of the program, whether its elements are read or not: ONNX Runtime says what raises."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlgather as dg
from dmlgather.onnx import Backend
from tests.onnx.modelling import parsed

HEAD = "agraph (float[5, 2] x, int64[3, 1] i) => (float[2, 5] y)"

ALONE = {
    "Gather": "dead = Gather(x, i)",
    "GatherElements": "dead = GatherElements(x, i)",
    "GatherND": "dead = GatherND(x, i)",
    "with a reader that nothing reads": "t = Gather(x, i) dead = Relu(t)",
    "of what an operator computes": "t = Relu(x) dead = Gather<axis = 0>(t, i)",
    "by indices that are computed": "j = Add(i, one) dead = Gather(x, j)",
    "of a gather": "t = Gather(x, i) zero = Constant<value_int = 0>() dead = Gather<axis = 1>(t, zero)",
    "without elements": "s = Constant<value_ints = [0]>() e = Slice(x, s, s, one) dead = Gather(e, i)",
}
"""Nodes in front of `y = Transpose(x)`, which needs none of them."""


def model(nodes: str) -> Any:
    return parsed(f"{HEAD} <int64[1] one = {{1}}> {{ {nodes} y = Transpose(x) }}")


X, GOOD = np.arange(10, dtype=np.float32).reshape(5, 2), np.array([[0], [3], [2]])


def raises_in_onnxruntime(of: Any, indices: Any) -> bool:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(of.SerializeToString(), options, providers=["CPUExecutionProvider"])
    try:
        session.run(None, {"x": X, "i": indices})
    except (
        onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,
        onnxruntime.capi.onnxruntime_pybind11_state.Fail,
    ) as error:
        if not re.search("out of data bounds|Out of range value in index|invalid index found", str(error)):
            raise
        return True
    return False


@pytest.mark.parametrize("row", ALONE)
def test_a_gather_that_nothing_reads(row: str) -> None:
    one, two = model(ALONE[row]), model("")
    found = dg.equivalent(one, two)
    assert found.verdict == "different", found
    assert found.counterexample is not None
    bad = found.counterexample.inputs["i"]
    assert [raises_in_onnxruntime(each, bad) for each in (one, two)] == [True, False]
    assert [raises_in_onnxruntime(each, GOOD) for each in (one, two)] == [False, False]
    assert dg.equivalent(two, one).verdict == "different"
    assert dg.equivalent(one, one)
    assert dg.equivalent(one, two, given="valid"), "where its indices are in range it does nothing"


@pytest.mark.parametrize("row", ALONE)
def test_a_gather_that_nothing_reads_raises_when_it_is_fused(row: str) -> None:
    of = model(ALONE[row])
    fused = dg.fuse(dg.onnx.index_graph(of))
    prepared = [Backend.prepare(of)] if not re.search("Relu|Add", ALONE[row]) else []  # which it does not run

    def relu(_: Any, arrays: Any) -> list[Any]:
        return [np.maximum(arrays[0], 0)]

    for bad in (5, -7, 2**40):
        indices = np.array([[0], [bad], [1]])
        assert raises_in_onnxruntime(of, indices)
        with pytest.raises(IndexError):
            fused.run({"x": X, "i": indices}, compute=relu)
        for each in prepared * 3:
            with pytest.raises(IndexError):
                each.run([X, indices])
    (found,) = fused.run({"x": X, "i": GOOD}, compute=relu).values()
    assert found.tobytes() == X.T.tobytes()
    assert dg.equivalent(of, fused)
    assert not dg.equivalent(model(""), fused)


@pytest.mark.parametrize(
    "nodes",
    [
        "k = Constant<value_ints = [0, 4, -5]>() dead = Gather(x, k)",
        "k = Constant<value_ints = [1]>() j = Unsqueeze(k, one) dead = GatherElements<axis = 1>(x, j)",
        "k = Constant<value_ints = [4, 1]>() dead = GatherND(x, k)",
        "z = Constant<value_ints = [0]>() j = Slice(i, z, z, z) dead = Gather(x, j)",
        "low = Constant<value_int = -5>() high = Constant<value_int = 4>() j = Clip(i, low, high) dead = Gather(x, j)",
        "dead = Relu(x)",
    ],
)
def test_what_cannot_raise_is_no_part_of_the_program(nodes: str) -> None:
    of = model(nodes)
    assert not raises_in_onnxruntime(of, np.array([[9], [-9], [2**40]]))
    assert dg.equivalent(of, model(""))
    assert [launch.holds for launch in dg.fuse(dg.onnx.index_graph(of)).launches] == [("Transpose node that gives 'y'",)]


def test_known_indices_out_of_range_raise_always() -> None:
    one = model("k = Constant<value_ints = [0, 5]>() dead = Gather(x, k)")
    assert raises_in_onnxruntime(one, GOOD)
    assert dg.equivalent(one, model("")).verdict == "different"
    assert dg.equivalent(one, model("k = Constant<value_ints = [-6]>() dead = Gather(x, k)"))
    with pytest.raises(IndexError):
        dg.fuse(dg.onnx.index_graph(one)).run({"x": X, "i": GOOD})


def test_each_step_raises_once() -> None:
    """A gather that a launch holds is not done beside it."""
    fused = dg.fuse(dg.index[((3,), "int64")].transpose(1, 0)[::-1].problems(((5, 2), "float32")))
    assert len(fused.launches) == 1


OTHERS = {
    "ScatterElements": ("dead = ScatterElements(x, j, x)", "Out of range value in index|out of data bounds|out-of-bounds"),
    "ScatterND": ("dead = ScatterND(x, i, u)", "invalid index|indice"),
    "in front of an operator that cannot raise": ("t = ScatterND(x, i, u) dead = Relu(t)", "invalid index|indice"),
    "read, but not where an output comes from": (
        "t = ScatterND(x, i, u) c = Concat<axis = 0>(x, t) z = Constant<value_ints = [0]>() e = Constant<value_ints = [5]>() "
        "x2 = Slice(c, z, e)",
        "invalid index|indice",
    ),
}
"""Nodes outside the family that raise for an index out of range, and what ONNX Runtime says then."""


@pytest.mark.parametrize("row", OTHERS)
def test_another_operator_that_no_output_needs(row: str) -> None:
    """That it raises nothing is an assumption, which a proof lists; without it, nothing is proven."""
    nodes, message = OTHERS[row]
    head = "agraph (float[5, 2] x, int64[3, 1] i, float[3, 2] u, int64[5, 2] j) => (float[2, 5] y)"
    one = parsed(f"{head} {{ {nodes} y = Transpose({'x2' if 'x2' in nodes else 'x'}) }}")
    two = parsed(f"{head} {{ y = Transpose(x) }}")
    arrays = {"x": X, "i": GOOD, "u": np.ones((3, 2), np.float32), "j": np.zeros((5, 2), np.int64)}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    models = [of.SerializeToString() for of in (one, two)]
    runs = [onnxruntime.InferenceSession(of, options, providers=["CPUExecutionProvider"]) for of in models]
    for run in runs:
        np.testing.assert_array_equal(run.run(None, arrays)[0], X.T)
    bad = {**arrays, "i": np.full((3, 1), 9), "j": np.full((5, 2), 9)}
    with pytest.raises(Exception, match=message):
        runs[0].run(None, bad)
    runs[1].run(None, bad)

    name = nodes.partition("(")[0].rpartition(" ")[2].partition("<")[0]
    for pair, side in (((one, two), "first"), ((two, one), "second")):
        for given in ("any", "valid"):
            found = dg.equivalent(*pair, given=given)
            (words,) = found.assumptions
            assert found.verdict == "proven"
            expected = f"{name} node that gives '\\w+' of the {side} program, which no output needs, raises nothing"
            assert re.fullmatch(expected, words)
            strict = dg.equivalent(*pair, given=given, assume=())
            assert (strict.verdict, strict.reason) == ("not proven", f"it is not known that {words}")
        assert dg.equivalent(*pair, assume=("raise_nothing",))
        assert dg.equivalent(*pair, assume=("softmax",)).verdict == "not proven"


def test_an_operator_that_both_programs_need_is_no_assumption() -> None:
    head = "agraph (float[5, 2] x, int64[3, 1] i, float[3, 2] u) => (float[2, 5] y)"
    one = parsed(f"{head} {{ t = ScatterND(x, i, u) y = Transpose(t) }}")
    two = parsed(f"{head} {{ v = Identity(x) t = ScatterND(v, i, u) s = Transpose(t) r = Transpose(s) y = Transpose(r) }}")
    found = dg.equivalent(one, two, assume=())
    assert (found.verdict, found.assumptions) == ("proven", ())


def test_a_node_of_which_nothing_is_known_that_no_output_needs() -> None:
    """Its type does not follow, so that it cannot be read."""
    head = '<ir_version: 9, opset_import: ["" : 17, "com.example" : 1]> agraph (float[5, 2] x) => (float[2, 5] y)'
    one = parsed(f"{head} {{ dead = com.example.Thing(x) more = Relu(dead) y = Transpose(x) }}")
    found = dg.equivalent(one, parsed(f"{head} {{ y = Transpose(x) }}"))
    assert [words.partition(" of the")[0] for words in found.assumptions] == ["Thing node that gives 'dead'"]


def test_a_remainder_by_a_divisor_that_may_be_zero() -> None:
    head = "agraph (float[5, 2] x, int64[2] i, int64[2] n) => (float[2, 5] y)"
    one, two = (parsed(f"{head} {{ {dead} y = Transpose(x) }}") for dead in ("dead = Mod(i, n)", ""))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    run = onnxruntime.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"])
    arrays = {"x": X, "i": np.array([7, -7]), "n": np.array([2, 0])}
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match=r"(division|modulo) by zero"):
        run.run(None, arrays)
    assert "raises nothing" in str(dg.equivalent(one, two))
    assert dg.equivalent(one, two, assume=()).verdict == "not proven"
    known = parsed(f"{head} <int64[2] two = {{2, 3}}> {{ dead = Mod(i, two) y = Transpose(x) }}")
    assert dg.equivalent(known, two, assume=())
