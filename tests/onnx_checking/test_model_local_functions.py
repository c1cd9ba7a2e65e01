"""Local functions: judged once each, with what all their calls have in common."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import Verdict
from tests.onnx_checking.modelling import by_place, checked, findings_of, only, parsed, saved

HEAD = '<ir_version: 9, opset_import: ["" : 17, "local" : 1]>'
TAKE = """
<opset_import: ["" : 11], domain: "local">
take<ax>(x, e) => (y) {
  s = Constant<value = int64[1] {0}>()
  cut = Slice(x, s, e)
  first = Constant<value = int64 {0}>()
  y = Gather<axis: int = @ax>(cut, first)
}"""


def _model(main: str) -> str:
    return f"{HEAD} {main} {TAKE}"


ALIKE = _model("""agraph (float[N,8] X, float[M,8] Y) => (float[a] Z) <int64[1] two = {2}> {
  A = local.take<ax = 1>(X, two)
  Z = local.take<ax = 1>(Y, two)
}""")


def test_calls_that_agree(tmp_path: Path) -> None:
    found = checked(tmp_path, ALIKE)
    nodes = by_place(found)
    assert list(nodes) == ["local:take/Slice_1", "local:take/Gather_3"]
    cut, first = nodes.values()
    assert (cut.opset, cut.version, cut.inputs[0].shape, cut.inputs[2].values) == (11, 11, ("x[0]", 8), (2,))
    assert (cut.verdict, cut.provided) == (Verdict.TAKEN, ("x[0] >= 1",))
    assert (first.graph, first.attributes, first.verdict) == ("local:take", {"axis": 1}, Verdict.TAKEN)
    assert found.others == {"Constant": 2, "local.take": 2}


CALLS = "agraph (float[N,8] X, int32[M,8] Y, int64[1] n) => (float[a] Z) <int64[1] two = {2}>"


def test_calls_that_do_not(tmp_path: Path) -> None:
    found = checked(tmp_path, _model(f"{CALLS} {{ A = local.take<ax = 1>(X, two) Z = local.take<ax = 0>(Y, n) }}"))
    cut, first = by_place(found).values()
    assert (cut.verdict, cut.missing) == (Verdict.UNKNOWN, ("data", "ends"))
    assert (first.verdict, first.missing) == (Verdict.UNKNOWN, ("data",))
    assert "an input of the graph" in findings_of(found, cut.place)[1].got


def test_attributes_that_differ(tmp_path: Path) -> None:
    found = checked(tmp_path, _model(f"{CALLS} {{ A = local.take<ax = 1>(X, two) Z = local.take<ax = 0>(X, two) }}"))
    _, first = by_place(found).values()
    assert (first.verdict, first.missing, first.attributes) == (Verdict.UNKNOWN, ("axis",), {})
    (finding,) = found.findings
    assert (finding.code, "'ax'" in finding.got) == ("EXP302", True)


def test_a_function_that_nothing_calls(tmp_path: Path) -> None:
    found = checked(tmp_path, _model("agraph (float[3] X) => (float[3] Z) { Z = Identity(X) }"))
    assert [node.verdict for node in found.nodes] == [Verdict.UNREACHED, Verdict.UNREACHED]
    assert {node.reason for node in found.nodes} == {"nothing calls the function"}
    assert not found.findings


def test_an_attribute_that_no_call_gives(tmp_path: Path) -> None:
    """The node then has its operator's default."""
    _, first = by_place(checked(tmp_path, _model(f"{CALLS} {{ Z = local.take(X, two) }}"))).values()
    assert (first.attributes, first.verdict, first.outputs[0].shape) == ({}, Verdict.TAKEN, (8,))


OUTER = """<opset_import: ["" : 17, "local" : 1], domain: "local">
outer (x) => (y) { two = Constant<value_ints = [2]>() y = local.take<ax = 0>(x, two) }"""


@pytest.mark.parametrize("functions", [f"{OUTER} {TAKE}", f"{TAKE} {OUTER}"], ids=["caller first", "caller last"])
def test_functions_that_call_functions(tmp_path: Path, functions: str) -> None:
    text = f"{HEAD} agraph (float[6,8] X) => (float[a] Z) {{ Z = local.outer(X) }} {functions}"
    cut, first = by_place(checked(tmp_path, text)).values()
    assert (cut.inputs[0].shape, cut.inputs[2].values, cut.verdict) == ((6, 8), (2,), Verdict.TAKEN)
    assert (first.inputs[0].shape, first.verdict) == ((2, 8), Verdict.TAKEN)


def test_a_function_instead_of_an_operator(tmp_path: Path) -> None:
    """A local function called Gather hides the operator of that name."""
    model = parsed("agraph (float[6,8] X, int64 i) => (float[6,8] Z) { Z = Gather(X, i) }")
    model.functions.append(
        helper.make_function("", "Gather", ["x", "i"], ["y"], [helper.make_node("Identity", ["x"], ["y"])], model.opset_import)
    )
    found = checked(tmp_path, model)
    assert (found.nodes, found.others) == ((), {"Gather": 1, "Identity": 1})


def _problem(folder: Path, model: str | onnx.ModelProto) -> str:
    (problem,) = check_model(saved(folder, model)).problems
    return problem.message


def test_functions_in_a_circle(tmp_path: Path) -> None:
    text = f"{HEAD} agraph (float[6,8] X) => (float[a] Z) {{ Z = local.a(X) }}"
    for name, other in (("a", "b"), ("b", "a")):
        text += f'<domain: "local", opset_import: ["" : 17, "local" : 1]> {name} (x) => (y) {{ y = local.{other}(x) }}'
    message = _problem(tmp_path, text)
    assert "call each other in a circle" in message
    assert "local:a" in message


def test_a_function_without_its_opset(tmp_path: Path) -> None:
    model = parsed(ALIKE)
    del model.functions[0].opset_import[:]
    message = _problem(tmp_path, model)
    assert "states no opset for ONNX's own operators" in message
    assert "local:take" in message


def test_a_call_with_more_than_the_function_has(tmp_path: Path) -> None:
    model = parsed(ALIKE)
    model.graph.node[1].output.append("more")
    assert _problem(tmp_path, model) == "calls local:take with 2 outputs, but the function has 1"


@pytest.mark.slow
def test_functions_that_stand_for_very_many_nodes(tmp_path: Path) -> None:
    """Each of forty functions calls the next one twice: shapes are not inferred, and nothing takes long."""
    text = f"{HEAD} agraph (float[6,8] X, int64 i) => (float[a] Z) {{ Y = local.f0(X) Z = Gather(X, i) }}"
    bodies = [f"y = local.f{number + 1}(x) z = local.f{number + 1}(x)" for number in range(40)]
    for number, body in enumerate([*bodies, "y = Identity(x)"]):
        text += f'<domain: "local", opset_import: ["" : 17, "local" : 1]> f{number} (x) => (y) {{ {body} }}'
    found = checked(tmp_path, text)
    assert only(found).verdict is Verdict.TAKEN
    remark = found.findings[0]
    assert (remark.code, remark.severity, remark.subject) == ("EXP303", "warning", "")
    assert "stand for" in remark.got


DEFAULTS = f"""{HEAD} agraph (float[3,4] X, int64[2] i) => (float[a,b] Y, float[c,d] Z) {{ CALLS }}
<opset_import: ["" : 17], domain: "local">
pick<ax: int = 1>(a, b) => (c) {{ c = Gather<axis: int = @ax>(a, b) }}
<opset_import: ["" : 17, "local" : 1], domain: "local">
hands<z>(a, b) => (c) {{ c = local.pick<ax: int = @z>(a, b) }}"""


@pytest.mark.parametrize(
    ("calls", "axis"),
    [
        ("Y = local.pick(X, i)", 1),
        ("Y = local.pick(X, i) Z = local.pick<ax = 1>(X, i)", 1),
        ("Y = local.pick<ax = 0>(X, i)", 0),
        ("Y = local.hands(X, i)", 1),
        ("Y = local.hands<z = 0>(X, i)", 0),
        ("Y = local.hands(X, i) Z = local.pick(X, i)", 1),
        ("Y = local.pick(X, i) Z = local.pick<ax = 0>(X, i)", None),
    ],
)
def test_defaults_of_attributes(tmp_path: Path, calls: str, axis: int | None) -> None:
    """A call that gives the default agrees with one that leaves it out."""
    (node,) = by_place(checked(tmp_path, DEFAULTS.replace("CALLS", calls))).values()
    assert node.attributes == ({} if axis is None else {"axis": axis})
    assert node.verdict is (Verdict.UNKNOWN if axis is None else Verdict.TAKEN)
    if axis is not None:
        assert node.outputs[0].shape == ((2, 4), (3, 2))[axis]
