"""Nodes that are refused by ONNX's rules and run in onnxruntime: the remedy says what that gives. Judges: onnxruntime and ONNX's
reference evaluator.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.checker import check_model
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import dmlgather as dg
from dmlgather.onnx.problems.operator_versions import NEWEST_OPSET
from dmlgather.onnx_checking.checked_model import Verdict
from tests.onnx_checking.following import ran
from tests.onnx_checking.modelling import checked, only, parsed
from tests.onnx_checking.provider.asking import asked
from tests.onnx_checking.sessions import OFF, loads, session
from tests.seeds import numpy_rng

X = np.arange(7, dtype=np.float32)


def _by_onnxruntime(model: ModelProto, feeds: dict[str, Any]) -> list[float] | None:
    found = ran(model, feeds)
    return None if found is None else found["y"].tolist()


def _reversed(start: int, end: int, step: int, size: str = "N", dtype: str = "int64") -> ModelProto:
    bounds = ", ".join(f"{dtype}[1] {name} = {{{value}}}" for name, value in zip("seat", (start, end, 0, step), strict=True))
    return parsed(f"g (float[{size}] x) => (float[M] y) <{bounds}> {{ y = Slice(x, s, e, a, t) }}")


@pytest.mark.parametrize(("end", "dtype"), [(2**31 - 1, "int64"), (2**63 - 1, "int64"), (2**31 - 1, "int32")])
@pytest.mark.parametrize("sliced", [(-1, -1, "N"), (4, -1, "N"), (-2, -3, "7"), (-1, -1, "7")])
def test_a_slice_backwards_to_the_greatest_integer(tmp_path: Path, end: int, dtype: str, sliced: tuple[int, int, str]) -> None:
    start, step, size = sliced
    model = _reversed(start, end, step, size, dtype)
    found = checked(tmp_path, model)
    (finding,) = found.findings
    assert (only(found).verdict, finding.code, finding.path) == (Verdict.REFUSED, "EXP102", "output.shape[0]")
    assert f"onnxruntime's CPU takes {end} for it" in finding.remedy
    assert not finding.remedy.startswith("leave the node out")
    (by_onnx,) = ReferenceEvaluator(model).run(None, {"x": X})
    assert isinstance(by_onnx, np.ndarray)
    assert by_onnx.tolist() == []
    (wanted,) = re.findall(r"^write (-\d+) as the end", finding.remedy)
    to_the_front = _reversed(start, int(wanted), step, size, dtype)
    assert _by_onnxruntime(model, {"x": X}) == _by_onnxruntime(to_the_front, {"x": X}) == X[start::step].tolist()
    assert only(checked(tmp_path, to_the_front)).verdict is Verdict.TAKEN
    (of_provider,) = (each for each in asked(tmp_path, model).findings if each.code == "ORT203")
    assert of_provider.remedy.startswith(f"write {wanted} for the end")
    assert not asked(tmp_path, to_the_front).findings


@pytest.mark.parametrize(("end", "step"), [(2**31 - 2, -1), (2**31, -1), (2**63 - 2, -2), (6, -1), (0, 1)])
def test_other_empty_slices_are_empty_in_onnxruntime(tmp_path: Path, end: int, step: int) -> None:
    model = _reversed(-1, end, step, "7")
    (finding,) = checked(tmp_path, model).findings
    assert finding.remedy.startswith("leave the node out")
    assert "onnxruntime" not in finding.remedy
    assert _by_onnxruntime(model, {"x": X}) == []


IF = """g ({condition}float[4] x, int64[2] i) => (float[2] z) {constant} {{
    [either] y = If(c) <then_branch = t () => (float[4] u) {{ u = Neg(x) }},
                        else_branch = e () => ({kind}[4] v) {{ v = Cast<to = {to}>(x) }}>
    z = Gather(y, i) }}"""


@pytest.mark.parametrize(("to", "kind"), [(1, "float"), (7, "int64")])
@pytest.mark.parametrize(("condition", "constant"), [("bool c, ", ""), ("", "<bool c = {1}>")], ids=["open", "constant"])
def test_branches_of_other_data_types(tmp_path: Path, to: int, kind: str, condition: str, constant: str) -> None:
    """onnxruntime refuses the model, also where one branch never runs."""
    model = parsed(IF.format(condition=condition, constant=constant, to=to, kind=kind))
    found = [finding for finding in checked(tmp_path, model).findings if finding.code == "EXP101"]
    if to == 1:
        assert loads(model)
        assert not found
        return
    with pytest.raises(Fail, match="Mismatched tensor element type"):
        session(model)
    got = "output 'y' is int64 in else_branch and float in then_branch"
    assert [(each.subject, each.got) for each in found] == [("either", got)]


@pytest.mark.parametrize("nodes", ["y = Add(x, y) z = Gather(y, i)", "z = Gather(z, i)"])
def test_a_node_that_reads_its_own_output(tmp_path: Path, nodes: str) -> None:
    """No order of the nodes helps."""
    model = parsed(f"g (float[4] x, int64[2] i) => (float[2] z) {{ {nodes} }}")
    with pytest.raises(Fail, match="not acyclic"):
        session(model)
    (finding,) = (each for each in checked(tmp_path, model).findings if each.code == "EXP304")
    assert finding.got.endswith(", which is an output of the same node")
    assert finding.remedy == "correct the name"


def test_strings_are_no_error_where_the_cpu_runs_them(tmp_path: Path) -> None:
    model = parsed("g (string[4] x, int64[2] i) => (string[2] y) { y = Gather(x, i) }")
    feeds = {"x": np.array(list("abcd"), object), "i": np.array([3, 0])}
    found = ran(model, feeds)
    assert found is not None
    assert found["y"].tolist() == ["d", "a"]
    assert [(each.code, str(each.severity)) for each in checked(tmp_path, model).findings] == [("EXP103", "error")]
    assert [(each.code, str(each.severity)) for each in asked(tmp_path, model).findings] == [("EXP103", "note")]
    wrong = parsed("g (string[4] x) => (string[1] y) <int64[1] i = {4}> { y = Gather(x, i) }")
    assert "error" in [str(each.severity) for each in asked(tmp_path, wrong).findings if each.code == "EXP111"]


@pytest.mark.parametrize("opset", [NEWEST_OPSET, NEWEST_OPSET + 1, 99])
def test_an_operator_set_that_is_not_released(tmp_path: Path, opset: int) -> None:
    model = parsed(
        f'<ir_version: 9, opset_import: ["" : {opset}]> g (float[4] x, int64[2] i) => (float[2] y) {{ y = Gather(x, i) }}'
    )
    found = checked(tmp_path, model)
    assert only(found).verdict is Verdict.TAKEN
    check_model(model)  # onnx takes any
    if opset == NEWEST_OPSET:
        assert loads(model)
        assert not found.findings
        return
    with pytest.raises(Fail, match="released onnx opset versions"):
        session(model)
    (finding,) = found.findings
    assert (finding.code, finding.path, str(finding.severity)) == ("EXP309", "opset_import", "warning")


def test_the_same_is_said_of_a_node() -> None:
    node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    constants = {"s": [-1, 0], "e": [2**63 - 1, 3], "a": [1, 0], "t": [-1, 1]}
    report = dg.onnx.to_directml(node, [(4, 7)], ["float32"], constants=constants)
    assert isinstance(report, dg.Report)
    (finding,) = report.findings
    assert finding.path == "output.shape[1]"
    assert f"takes {2**63 - 1} for it" in finding.remedy


@pytest.mark.parametrize(
    ("of_data", "of_indices"),
    [((2,), (4,)), ((2,), (6,)), ((1,), (3,)), ((2,), (3, 2)), ((4,), (2, 2)), ((2,), (3,)), ((4,), (2,))],
)
def test_unequal_batches(tmp_path: Path, of_data: tuple[int, ...], of_indices: tuple[int, ...]) -> None:
    data, indices = (",".join(map(str, each)) for each in (of_data, of_indices))
    model = parsed(f"g (float[{data},3] x, int64[{indices},1] i) => (float y) {{ y = GatherND<batch_dims = 1>(x, i) }}")
    found = checked(tmp_path, model)
    (finding,) = found.findings
    assert (only(found).verdict, finding.code) == (Verdict.REFUSED, "EXP101")
    assert "ONNX does not allow it; onnxruntime's CPU runs it if the number of index tuples is a multiple" in finding.remedy
    batches, tuples = int(np.prod(of_data)), int(np.prod(of_indices))
    x = np.arange(3.0 * batches, dtype=np.float32).reshape(*of_data, 3)
    i = (np.arange(tuples) * 2 % 3).reshape(*of_indices, 1)
    with pytest.raises(ValueError, match="reshape"):
        ReferenceEvaluator(model).run(None, {"x": x, "i": i})
    given = ran(model, {"x": x, "i": i})
    if tuples % batches:
        assert given is None
    else:
        in_each = tuples // batches
        expected = [x.reshape(batches, 3)[number // in_each, at] for number, at in enumerate(i.reshape(-1))]
        assert given is not None
        assert given["y"].reshape(-1).tolist() == expected


def test_unequal_batches_of_sizes_that_depend_on_each_other(tmp_path: Path) -> None:
    nodes = "j = Concat<axis = 0>(x, x) y = GatherND<batch_dims = 1>(j, i)"
    (finding,) = checked(tmp_path, f"g (float[2,3] x, int64[2,1] i) => (float y) {{ {nodes} }}").findings
    assert "size 4 in data and 2 in indices" in finding.got
    assert "onnxruntime's CPU" in finding.remedy


def test_other_rules_are_onnxs_own(tmp_path: Path) -> None:
    (finding,) = checked(tmp_path, "g (float[2,3] x, int64[2] i) => (float y) { y = GatherND<batch_dims = 5>(x, i) }").findings
    assert (finding.code, finding.remedy.split("; ")[-1]) == ("EXP101", "ONNX itself refuses it")


SLICED = "g (float[N,4] x, int64[1] s, int64[1] e) => (float[A,4] y) <int64[1] a = {0}> { y = Slice(x, s, e, a) }"
GATHERED = """g (float[N,4] x, int64[1] s, int64[1] e) => (float[A,4] y) <int64[1] a = {0}, int64 one = {1}> {
    n = Shape<end = 1>(x) f = Min(s, n) t = Min(e, n) first = Squeeze(f, a) end = Squeeze(t, a) r = Range(first, end, one)
    y = Gather(x, r) }"""


def test_the_remedy_for_a_computed_bound(tmp_path: Path) -> None:
    """Judge: onnxruntime without optimisations, which checks each position. EXP302 is a note where the provider reads bounds."""
    sliced, gathered = parsed(SLICED), parsed(GATHERED)
    assert {(each.code, str(each.severity)) for each in checked(tmp_path, sliced).findings} == {("EXP302", "warning")}
    notes = asked(tmp_path, sliced).findings
    assert {(each.code, str(each.severity), each.path) for each in notes} == {
        ("EXP302", "note", "starts"),
        ("EXP302", "note", "ends"),
    }
    assert all(each.remedy.startswith("none is needed for onnxruntime-directml") for each in notes)
    for level in ("1_0", "6_4"):
        assert only(checked(tmp_path, gathered, level)).verdict is Verdict.TAKEN
    sessions = [session(model, OFF) for model in (sliced, gathered)]
    data = np.arange(24, dtype=np.float32).reshape(6, 4)
    for start, end in product(range(8), range(10)):
        feeds = {"x": data, "s": np.array([start]), "e": np.array([end])}
        (one,), (two,) = (each.run(None, feeds) for each in sessions)
        assert one.tolist() == two.tolist(), (start, end)


REWRITTEN = {
    "GatherElements": (
        "g (float[4,3] x, int64[5,3] i) => (float[5,3] y) { y = GatherElements(x, i) }",
        """g (float[4,3] x, int64[5,3] i) => (float[5,3] y)
        <int64[1] flat = {-1}, int64 rows = {4}, int64 row = {3}, int64[3] column = {0, 1, 2}> {
            k = Mod(i, rows) m = Mul(k, row) p = Add(m, column) f = Reshape(x, flat) y = Gather(f, p) }""",
    ),
    "GatherND": (
        "g (float[4,3,2] x, int64[5,2] i) => (float[5,2] y) { y = GatherND(x, i) }",
        """g (float[4,3,2] x, int64[5,2] i) => (float[5,2] y)
        <int64[2] flat = {-1, 2}, int64[2] sizes = {4, 3}, int64[2] strides = {3, 1}, int64[1] last = {1}> {
            k = Mod(i, sizes) m = Mul(k, strides) p = ReduceSum<keepdims = 0>(m, last) f = Reshape(x, flat) y = Gather(f, p) }""",
    ),
}


@pytest.mark.parametrize("operator", REWRITTEN)
def test_the_remedy_for_a_gather_below_its_level(tmp_path: Path, operator: str) -> None:
    """Judge: onnxruntime, which gives the same elements for both models."""
    before, after = map(parsed, REWRITTEN[operator])
    (finding,) = (each for each in checked(tmp_path, before, "1_0").findings if each.code == "EXP106")
    assert finding.remedy.startswith("use feature level 2_1 or newer, or reshape ")
    (gather,) = (node for node in checked(tmp_path, after, "1_0").nodes if node.operator == "Gather")
    assert gather.verdict is Verdict.TAKEN
    shapes = [[size.dim_value for size in value.type.tensor_type.shape.dim] for value in before.graph.input]
    data = np.arange(np.prod(shapes[0]), dtype=np.float32).reshape(shapes[0])
    indices = numpy_rng().integers(-3, 3, shapes[1])
    one, two = (_by_onnxruntime(model, {"x": data, "i": indices}) for model in (before, after))
    assert one == two is not None


OLD = """<ir_version: 3, opset_import: ["" : {opset}]> g (float[{size},4] x) => (float[A,4] y)
    <int64[{count}] i = {{{indices}}}> {{ y = Gather(x, i) }}"""


@pytest.mark.parametrize("opset", [1, 7, 9, 10])
@pytest.mark.parametrize("size", ["5", "N"])
def test_a_negative_index_before_opset_11(tmp_path: Path, opset: int, size: str) -> None:
    """ONNX's Gather-1 has none; onnxruntime counts it from the end. The provider does so, too, so nothing differs."""
    model = parsed(OLD.format(opset=opset, size=size, count=3, indices="-1, 0, -5"))
    data = np.arange(20, dtype=np.float32).reshape(5, 4)
    assert _by_onnxruntime(model, {"x": data}) == data[[-1, 0, -5]].tolist()
    (finding,) = asked(tmp_path, model).findings
    assert (finding.code, str(finding.severity), finding.got) == ("EXP111", "error", "-1")
    assert finding.remedy.endswith("and onnxruntime does so in every opset")
    assert finding.remedy.startswith("write 4, " if size == "5" else "count it from the front, ")
    counted = parsed(OLD.format(opset=opset, size=size, count=3, indices="4, 0, 0"))
    assert _by_onnxruntime(counted, {"x": data}) == _by_onnxruntime(model, {"x": data})
    assert not asked(tmp_path, counted).findings
    newer = parsed(OLD.format(opset=11, size=size, count=3, indices="-1, 0, -5"))
    assert not asked(tmp_path, newer).findings


@pytest.mark.parametrize(("indices", "wrong"), [("-1, 9", "9"), ("-6, 0", "-6"), ("0, 5", "5")])
def test_an_index_out_of_range_before_opset_11(tmp_path: Path, indices: str, wrong: str) -> None:
    model = parsed(OLD.format(opset=9, size="5", count=2, indices=indices))
    assert _by_onnxruntime(model, {"x": np.zeros((5, 4), np.float32)}) is None
    (finding,) = (each for each in asked(tmp_path, model).findings if each.code == "ORT201")
    assert finding.got.startswith(f"{wrong}, ")
    assert finding.expected.startswith("-5 … 4")
