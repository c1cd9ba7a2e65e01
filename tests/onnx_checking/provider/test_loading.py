"""Models that onnxruntime refuses to load. Judges: onnxruntime, which makes a session or not, and ONNX's checker."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from dmlgather.onnx.problems.operator_versions import NEWEST_IR_VERSION, NEWEST_OPSET
from dmlgather.onnx_checking.checked_model import CheckedModel, ProviderVerdict
from dmlgather.onnx_checking.provider.loading import WHEEL_IR_VERSION, WHEEL_OPSET
from tests.onnx_checking.modelling import parsed
from tests.onnx_checking.provider.asking import asked, nodes_of, summary
from tests.onnx_checking.sessions import loads

PICK = "g (float[5,4] x, int64[2] i) => (float[2,4] z) { [pick] z = Gather(x, i) %s }"
FUNCTION = ' <domain: "d", opset_import: ["" : 17]> f (a, b) => (c) { %s }'
WITH_FUNCTION = '<ir_version: 9, opset_import: ["" : 17, "d" : 1]> '
BRANCHES = """g (float[5,4] x, bool c, int64[2] i) => (float[2,4] z) {
    z = If(c) <then_branch = t () => (float[2,4] u) { %s }, else_branch = e () => (float[2,4] v) { %s }> k = Identity(i)
}"""

REFUSED = {
    "a name that is defined nowhere": (PICK % "y = Relu(nowhere)", "EXP304"),
    "a name of its own": (PICK % "y = Relu(y)", "EXP304"),
    "nodes that read each other's outputs": (PICK % "y = Add(x, w) w = Relu(y)", "EXP304"),
    "an output that is defined nowhere": (PICK.replace("z)", "z, float w)") % "", "EXP304"),
    "an output of a branch that is defined nowhere": (BRANCHES % ("w = Gather(x, i)", "v = Gather(x, i)"), "EXP304"),
    "a name that two nodes define": (PICK % "y = Relu(x) y = Neg(x)", "EXP312"),
    "a name that a node and an input define": (PICK % "i = Identity(i)", "EXP312"),
    "a name that a node and an initializer define": (
        PICK.replace("{ [", "<float[2] y = {1, 2}> { [") % "y = Relu(x)",
        "EXP312",
    ),
    "a name that two nodes of a function define": (
        WITH_FUNCTION + PICK % "y = d.f(x, i)" + FUNCTION % "c = Gather(a, b) c = Gather(a, b)",
        "EXP312",
    ),
    "a gather of a name that is defined nowhere": (PICK % "y = Gather(x, nowhere)", "EXP304"),
    "a branch that is not sorted": (BRANCHES % ("u = Gather(x, l) l = Identity(i)", "v = Gather(x, i)"), "EXP304"),
    "a function that is not sorted": (
        WITH_FUNCTION + PICK % "y = d.f(x, i)" + FUNCTION % "c = Gather(a, q) q = Identity(b)",
        "EXP304",
    ),
    "two nodes of one name": (PICK % "[pick] y = Relu(x)", "EXP311"),
    "two nodes of one name in a branch": (BRANCHES % ("[a] w = Neg(x) [a] u = Gather(w, i)", "v = Gather(x, i)"), "EXP311"),
    "two nodes of one name in a function": (
        WITH_FUNCTION + PICK % "y = d.f(x, i)" + FUNCTION % "[a] w = Neg(a) [a] c = Gather(w, b)",
        "EXP311",
    ),
    "a data type that does not follow": (PICK.replace("(float[2,4] z)", "(int64[2,4] z)") % "", "EXP307"),
    "a node with too many inputs": (PICK % "y = Relu(x, x)", "EXP101"),
    "a gather with too few inputs": (PICK % "y = Gather(x)", "EXP101"),
    "an attribute that the operator lacks": (PICK % "y = Gather<batch_dims = 1>(x, i)", "EXP101"),
    "an operator that came later": (
        '<ir_version: 9, opset_import: ["" : 10]> ' + PICK % "y = GatherElements(x, x)",
        "EXP101",
    ),
}

LOADED = {
    "a graph that is not sorted": PICK % "y = Gather(x, k) k = Identity(i)",
    "a branch that reads a later node of the main graph": BRANCHES % ("u = Gather(x, k)", "v = Gather(x, i)"),
    "one name in two branches": BRANCHES % ("[a] u = Gather(x, i)", "[a] v = Gather(x, i)"),
    "one name in two graphs": BRANCHES.replace("z = If", "[a] z = If") % ("[a] u = Gather(x, i)", "v = Gather(x, i)"),
    "one value in two branches": BRANCHES % ("w = Gather(x, i) u = Relu(w)", "w = Gather(x, i) v = Relu(w)"),
    "a name that a function which nothing calls defines twice": (
        WITH_FUNCTION + PICK % "" + FUNCTION % "c = Gather(a, b) c = Gather(a, b)"
    ),
    "an initializer that is an input": PICK.replace("int64[2] i)", "int64[2] i = {0, 1})") % "",
    "an input that is an output": PICK.replace("z)", "z, float[5,4] x)") % "",
    "two constants of one name": PICK % "[a] k = Constant<value_int = 1>() [a] l = Constant<value_int = 2>()",
    "a constant and a node of one name": PICK % "[pick] k = Constant<value_int = 1>()",
    "nodes without names": PICK % "y = Relu(x) w = Relu(y)",
    "one name in a function that nothing calls": (WITH_FUNCTION + PICK % "" + FUNCTION % "[a] w = Neg(a) [a] c = Gather(w, b)"),
    "an undefined name in a function that nothing calls": WITH_FUNCTION + PICK % "" + FUNCTION % "c = Gather(a, q)",
}


def _unloaded(found: CheckedModel, code: str) -> bool:
    """Return True if every node fails because of `code`."""
    nodes = nodes_of(found).values()
    return {(node.verdict, node.codes) for node in nodes} == {(ProviderVerdict.FAILS, (code,))}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_does_not_load(tmp_path: Path, case: str) -> None:
    text, code = REFUSED[case]
    assert not loads(parsed(text))
    found = asked(tmp_path, text)
    assert _unloaded(found, code)
    counts = summary(found)
    assert (counts.directml, counts.either, counts.cpu, counts.fails, counts.unloaded) == (0, 0, 0, *[len(found.nodes)] * 2)
    assert "because the model does not load" in counts.text
    assert "error" in [str(finding.severity) for finding in found.findings if finding.code == code]


@pytest.mark.parametrize("case", LOADED)
def test_a_model_that_loads(tmp_path: Path, case: str) -> None:
    assert loads(parsed(LOADED[case]))
    found = asked(tmp_path, LOADED[case])
    assert summary(found).unloaded == 0
    assert ProviderVerdict.FAILS not in {node.verdict for node in nodes_of(found).values()}
    reached = [node for node in found.nodes if node.reason is None]
    assert nodes_of(found).keys() == {node.place for node in reached}, "each node has a verdict"


@pytest.mark.parametrize("case", [*REFUSED, *LOADED])
def test_a_model_that_the_checker_refuses_has_an_error(tmp_path: Path, case: str) -> None:
    text = REFUSED[case][0] if case in REFUSED else LOADED[case]
    try:
        onnx.checker.check_model(parsed(text))
    except onnx.checker.ValidationError:
        assert "error" in [str(finding.severity) for finding in asked(tmp_path, text).findings]


@pytest.mark.parametrize("ir_version", [0, 3, 9, NEWEST_IR_VERSION, NEWEST_IR_VERSION + 1, 99])
def test_a_version_of_the_file_format(tmp_path: Path, ir_version: int) -> None:
    model = parsed(PICK % "")
    model.ir_version = ir_version
    found = asked(tmp_path, model)
    errors = [finding.code for finding in found.findings if str(finding.severity) == "error"]
    if ir_version > NEWEST_IR_VERSION or onnx.IR_VERSION >= NEWEST_IR_VERSION:  # an older onnx refuses newer versions
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError:
            assert errors == ["EXP310"]
        else:
            assert not errors
    if onnx.IR_VERSION >= NEWEST_IR_VERSION:
        assert loads(model) is not _unloaded(found, "EXP310")


def test_an_operator_set_that_is_not_released(tmp_path: Path) -> None:
    model = parsed(PICK % "")
    model.opset_import[0].version = NEWEST_OPSET + 1
    assert not loads(model)
    found = asked(tmp_path, model)
    assert _unloaded(found, "EXP309")
    assert [str(finding.severity) for finding in found.findings] == ["warning"]


@pytest.mark.parametrize("newer", [0, 1])
def test_versions_of_the_last_wheel(tmp_path: Path, newer: int) -> None:
    """onnxruntime 1.24.4 names both limits when it refuses a model."""
    model = parsed(PICK % "")
    model.opset_import[0].version, model.ir_version = WHEEL_OPSET + newer, WHEEL_IR_VERSION + newer
    found = asked(tmp_path, model)
    paths = ["opset_import", "ir_version"] if newer else []
    assert [(each.code, each.path) for each in found.findings] == [("ORT111", path) for path in paths]
    assert summary(found).unloaded == 0
