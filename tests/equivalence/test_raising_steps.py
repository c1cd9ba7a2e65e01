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
