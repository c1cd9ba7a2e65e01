"""Indices that are constants, in models and in `to_directml`. Judge: the reference of each operator, in NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, helper, numpy_helper

import dmlgather as dg
from dmlgather.directml import Report
from dmlgather.onnx_checking.checked_model import Verdict
from tests.onnx_checking.following import ran
from tests.onnx_checking.modelling import checked, only, parsed

WRONG = {
    "Gather": ("Gather", 13, {}, [0, 9], "indices[1]", "-3 … 2, as data has size 3 in dimension 0", "9"),
    "Gather from the end": ("Gather", 13, {"axis": -1}, [[0], [-5]], "indices[1,0]", "-4 … 3", "-5"),
    "Gather-1": ("Gather", 5, {}, [-1], "indices[0]", "0 … 2", "-1"),
    "a scalar": ("Gather", 13, {}, 3, "indices[]", "-3 … 2", "3"),
    "GatherElements": ("GatherElements", 13, {"axis": 1}, [[0, 1], [4, -5]], "indices[1,0]", "-4 … 3", "4"),
    "GatherND": ("GatherND", 13, {}, [[2, 3], [0, 4], [9, 0]], "indices[1,1]", "-4 … 3, as data has size 4 in dimension 1", "4"),
    "GatherND by batches": ("GatherND", 13, {"batch_dims": 1}, [[0], [-4], [-5]], "indices[2,0]", "-4 … 3", "-5"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_the_first_index_outside(tmp_path: Path, case: tuple[str, int, Any, Any, str, str, str]) -> None:
    operator, opset, attributes, indices, path, valid, got = case
    node = helper.make_node(operator, ["x", "i"], ["y"], **attributes)
    values = np.array(indices, np.int64)
    report = dg.onnx.to_directml(node, {"x": (3, 4)}, {"x": "float32"}, opset=opset, constants={"i": values})
    assert isinstance(report, Report)
    (finding,) = report.findings
    assert (finding.code, finding.severity, finding.path, finding.got) == ("EXP111", "error", path, got)
    assert finding.expected.startswith(valid)
    model = parsed(f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[3,4] x) => (float y) {{ }}')
    model.graph.node.append(node)
    model.graph.initializer.append(numpy_helper.from_array(values, "i"))
    found = checked(tmp_path, model)
    assert (only(found).verdict, only(found).lowest, only(found).taken) == (Verdict.REFUSED, None, None)
    assert [(one.code, one.path, one.expected) for one in found.findings] == [("EXP111", path, finding.expected)]
    model.graph.initializer.pop()
    constant = helper.make_node("Constant", [], ["i"], value=numpy_helper.from_array(values))
    model.graph.node.insert(0, constant)
    assert [one.code for one in checked(tmp_path, model).findings] == ["EXP111"]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=4), st.integers(0, 1))
def test_indices_inside_and_outside(indices: list[int], axis: int) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=axis)
    found = dg.onnx.to_directml(node, [(3, 4), None], ["float32", "int64"], constants={"i": indices})
    bad = [number for number, index in enumerate(indices) if not -(3, 4)[axis] <= index < (3, 4)[axis]]
    try:
        np.take(np.zeros((3, 4)), indices, axis)
    except IndexError:
        assert isinstance(found, Report)
        assert re.findall(r"\d+", found.findings[0].path) == [str(bad[0])]
    else:
        assert not isinstance(found, Report)


def test_other_findings_are_not_lost() -> None:
    node = helper.make_node("GatherElements", ["x", "i"], ["y"])
    found = dg.onnx.to_directml(node, [(3,), None], ["float32", "int64"], "1_0", constants={"i": [3]})
    assert isinstance(found, Report)
    assert [finding.code for finding in found.findings] == ["EXP111", "EXP106"]


def test_a_size_that_is_not_known_is_not_judged(tmp_path: Path) -> None:
    text = "g (float[N,4] x) => (float y) <int64[1] i = {9}> { y = Gather(x, i) }"
    assert only(checked(tmp_path, text)).verdict is Verdict.TAKEN
    assert only(checked(tmp_path, text.replace("N,4", "9,N"))).verdict is Verdict.REFUSED


def test_nothing_is_looked_up_where_the_output_is_empty(tmp_path: Path) -> None:
    found = checked(tmp_path, "g (float[3,0] x) => (float y) <int64[1] i = {9}> { y = Gather(x, i) }")
    assert {finding.code for finding in found.findings} == {"EXP102"}


COMPUTED = {
    "the last two of a size": ("s = Sub(n, two) z = Slice(x, s, n)", 2, -3),
    "up to a size, at most four": ("e = Min(n, four) z = Slice(x, zero, e)", 4, 4),
    "behind a size": ("e = Add(n, two) j = Concat<axis = 0>(x, w) z = Slice(j, n, e)", 2, 2),
    "two slices in a row": ("a = Slice(x, two, far) z = Slice(a, zero, four)", 4, 5),
    "two slices side by side": ("a = Slice(x, zero, two) b = Slice(w, zero, two) z = Concat<axis = 0>(a, b)", 4, 4),
    "a difference of least sizes": ("a = Min(n, four) b = Min(n, two) d = Sub(a, b) z = ConstantOfShape(d)", 2, 3),
}
"""Nodes that compute z of x of N and w of M elements: how many elements it has at most, and an index."""


@pytest.mark.parametrize("case", COMPUTED.values(), ids=COMPUTED)
def test_the_most_that_a_computed_size_can_be(tmp_path: Path, case: tuple[str, int, int]) -> None:
    """Judge: onnxruntime, which has no such element for any size, and has the one before for some."""
    nodes, most, index = case
    numbers = {"zero": 0, "one": 1, "two": 2, "four": 4, "far": 99}
    text = "g (float[N] x, float[M] w) => (float[a] y) <{constants}> {{ n = Shape(x) {nodes} y = Gather(z, i) }}"

    def model(at: int) -> ModelProto:
        constants = ", ".join(f"int64[1] {name} = {{{value}}}" for name, value in (numbers | {"i": at}).items())
        return parsed(text.format(constants=constants, nodes=nodes))

    found = checked(tmp_path, model(index))
    wrong = [finding for finding in found.findings if finding.code == "EXP111"]
    assert [(finding.got, finding.expected) for finding in wrong] == [
        (str(index), f"{-most} … {most - 1}, as data has at most size {most} in dimension 0")
    ]
    assert found.nodes[-1].verdict is Verdict.REFUSED
    sizes = [(n, m) for n in range(8) for m in range(8)]
    for at, runs in ((index, False), (most - 1 if index >= 0 else -most, True)):
        given = [ran(model(at), {"x": np.zeros(n, np.float32), "w": np.zeros(m, np.float32)}) for n, m in sizes]
        assert any(each is not None for each in given) is runs


def test_indices_that_are_in_range_only_apart(tmp_path: Path) -> None:
    """x[5, 4] of x[N, 8 - N]: each is in range for some N, but no N has both."""
    constants = "int64[1] one = {1}, int64[1] far = {99}, int64[1,2] i = {5, 4}"
    nodes = "n = Shape<end = 1>(x) z = Slice(x, n, far, one) y = GatherND(z, i)"
    text = f"g (float[N,8] x) => (float[a] y) <{constants}> {{ {nodes} }}"
    found = checked(tmp_path, text)
    (finding,) = found.findings
    assert (finding.code, finding.path) == ("EXP111", "indices[0,0]")
    assert re.fullmatch(r"5 \(with N = \d\)", finding.got)
    model = parsed(text)
    assert all(ran(model, {"x": np.zeros((n, 8), np.float32)}) is None for n in range(10))
    possible = parsed(text.replace("{5, 4}", "{4, 2}"))
    assert checked(tmp_path, possible).nodes[-1].provided == ("N = 5",)
    assert [n for n in range(10) if ran(possible, {"x": np.zeros((n, 8), np.float32)}) is not None] == [5]
