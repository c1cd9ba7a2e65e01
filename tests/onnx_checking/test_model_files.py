"""Files that are no ONNX models, damaged ones, and models that want too much: one problem each, and nothing on standard error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dmlgather.onnx_checking.check import check_model
from dmlgather.onnx_checking.checked_model import Verdict
from dmlgather.onnx_checking.reading import file as model_file
from dmlgather.onnx_checking.reading.inference_process import InferenceLimits
from tests.cli.command import python
from tests.onnx_checking.modelling import checked, only, parsed, saved

GATHER = "agraph (float[4] X, int64[2] i) => (float[2] Z) { Z = Gather(X, i) }"
GOOD = parsed(GATHER).SerializeToString()


def _bytes(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _model(**changes: object) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        model = parsed(GATHER)
        for field in changes:
            model.ClearField(field)
        path.write_bytes(model.SerializeToString())

    return make


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**31)  # sparse: it takes no room


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "does not exist"),
    "empty": (_bytes(b""), "is empty"),
    "text": (_bytes(b"not a model\n"), "cannot be decoded as protobuf"),
    "JSON": (_bytes(b'{"graph": {}}'), "cannot be decoded as protobuf"),
    "cut off": (_bytes(GOOD[:-3]), "cannot be decoded as protobuf"),
    "another protobuf": (
        _bytes(TensorProto(dims=[4], data_type=1).SerializeToString()),
        "is a tensor of ONNX (TensorProto), and no model",
    ),
    "no graph": (_model(graph=None), "holds no graph"),
    "no opset": (_model(opset_import=None), "states no opset"),
    "names that are no text": (_bytes(GOOD.replace(b"\x01X", b"\x01\xff")), "names that are not UTF-8"),
    "a folder": (Path.mkdir, "is a folder"),
    "a pipe": (os.mkfifo, "is a pipe"),
    "a loop of links": (lambda path: path.symlink_to(path), "cannot be used"),
    "more than 2 GiB": (_huge, f"has {2**31} bytes, and a protobuf message at most {2**31 - 1}"),
}


@pytest.mark.parametrize(("make", "says"), BROKEN.values(), ids=BROKEN)
def test_one_problem_each(tmp_path: Path, capfd: pytest.CaptureFixture[str], make: Callable[[Path], object], says: str) -> None:
    path = tmp_path / "model.onnx"
    make(path)
    found = check_model(path)
    (problem,) = found.problems
    assert problem.file == str(path)
    assert says in problem.message
    assert (found.nodes, found.findings) == ((), ())
    assert capfd.readouterr() == ("", "")


def test_a_model_that_does_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "available_memory", lambda: 100)
    (problem,) = check_model(saved(tmp_path, GATHER)).problems
    assert "too many to decode with 100 bytes of memory free" in problem.message


def test_an_unknown_level(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown feature level '9_9'"):
        check_model(tmp_path / "model.onnx", "9_9")


def test_an_opset_newer_than_any(tmp_path: Path) -> None:
    """Operators keep their newest version; ONNX's shape inference may not, and then what the model states is taken."""
    model = parsed(GATHER)
    model.opset_import[0].version = 1000
    found = checked(tmp_path, model)
    assert (only(found).opset, only(found).version, only(found).verdict) == (1000, 13, Verdict.TAKEN)


def test_models_before_operator_sets(tmp_path: Path) -> None:
    """Before IR version 3, models could not state an opset and meant the first."""
    model = parsed(GATHER)
    model.ir_version = 2
    model.ClearField("opset_import")
    node = only(checked(tmp_path, model))
    assert (node.opset, node.version, node.verdict) == (1, 1, Verdict.TAKEN)


def test_an_opset_of_other_operators_alone(tmp_path: Path) -> None:
    model = parsed(GATHER)
    model.opset_import[0].domain = "com.example"
    (problem,) = check_model(saved(tmp_path, model)).problems
    assert "states no opset for ONNX's own operators, one of which is Gather in its main graph" in problem.message
    model.graph.node[0].domain = "com.example"  # it has no need of them now
    found = checked(tmp_path, model)
    assert (found.nodes, found.others, found.opsets) == ((), {"com.example.Gather": 1}, {"com.example": 17})


def test_shapes_that_cannot_be_inferred(tmp_path: Path) -> None:
    """An operator of a domain that is not imported: what the model states is taken, and the report says what is wrong."""
    text = """agraph (float[4] X, int64[2] i) => (float[2] Z) <float[8] W = {1,2,3,4,5,6,7,8}> {
        Y = com.example.Foo(X) V = Gather(W, i) Z = Gather(Y, i) }"""
    found = checked(tmp_path, text)
    assert [node.verdict for node in found.nodes] == [Verdict.TAKEN, Verdict.UNKNOWN]
    remark = found.findings[0]
    assert (remark.code, remark.severity, remark.subject) == ("EXP303", "warning", "")
    assert "No opset import for domain com.example" in remark.got


def test_large_models_are_read_without_their_weights(tmp_path: Path) -> None:
    """What is kept of a model is small, and inferring shapes copies that alone."""
    model = parsed("agraph (int64[5] i) => (float[k,l] Z) { C = Constant<value = float[1] {0}>() Z = Gather(W, i) }")
    weights = numpy_helper.from_array(np.zeros((2000, 100), np.float32), "W")
    model.graph.initializer.append(weights)
    model.graph.node[0].attribute[0].t.CopyFrom(weights)
    model.graph.initializer.append(numpy_helper.from_array(np.arange(9000), "more"))
    model.functions.append(helper.make_function("local", "f", [], ["y"], [model.graph.node[0]], model.opset_import))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    read = model_file.read_model(path)
    assert read.model.ByteSize() < 1000 < path.stat().st_size
    assert (read.limits.memory, read.most_nodes) == (InferenceLimits.of_file(0).memory, model_file.MOST_FAMILY_NODES)
    assert only(checked(tmp_path, model)).inputs[0].shape == (2000, 100)


def test_only_what_is_kept_must_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "available_memory", lambda: 10_000)
    model = parsed("agraph (int64[5] i) => (float[5] Z) { Z = Gather(W, i) }")
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(200_000, np.float32), "W"))
    assert only(checked(tmp_path, model)).verdict is Verdict.TAKEN


@pytest.mark.parametrize("dims", [[-1], [-3, 2], [0, 2**40, 2**40]])
@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.INT64])
def test_constants_of_shapes_that_no_array_has(tmp_path: Path, dims: list[int], kind: int) -> None:
    """onnx runs out of memory at some, and takes -1 for the size that fits."""
    model = parsed("agraph (float[4] X) => (float Z) { Z = Slice(X, s, s) }")
    model.graph.initializer.append(TensorProto(name="s", dims=dims, data_type=kind, raw_data=bytes(8)))
    found = checked(tmp_path, model)
    assert only(found).verdict is not Verdict.TAKEN


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_models(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever bytes of a model are changed, there is a report, and what it says can be written down."""
    raw = bytearray(RICH)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    path = tmp_path / "model.onnx"
    path.write_bytes(raw)
    found = check_model(path)
    assert len(found.problems) <= 1
    for node in found.nodes:
        assert node.model_dump_json()
    for finding in found.findings:
        assert "\n" not in str(finding)


def test_a_line_break_in_the_name_of_an_attribute_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(RICH.replace(b"else_branch", b"e\nse_branch"))
    findings = check_model(path).findings
    assert any("If_1.e\\nse_branch" in str(finding) for finding in findings)
    assert not any("\n" in str(finding) for finding in findings)


RICH_TEXT = """<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
agraph (float[N,128] X, bool c, int64 five) => (float[M,128] Z) <int64[1] s = {1}, int64[1] e = {3}> {
  Y = local.f<ax = 1>(X)
  Z = If(c) <
    then_branch = t () => (float[a,128] o) { o = Slice(X, s, e) },
    else_branch = f () => (float[a,128] p) { z = Constant<value_ints = [0]>() u = Unsqueeze(five, z) p = Slice(X, s, u) }
  >
}
<opset_import: ["" : 17], domain: "local">
f<ax>(x) => (y) { i = Constant<value_int = 0>() y = Gather<axis: int = @ax>(x, i) }"""
RICH = parsed(RICH_TEXT).SerializeToString()


def test_names_of_graphs_around_and_of_functions_are_defined(tmp_path: Path) -> None:
    assert "EXP304" not in {finding.code for finding in checked(tmp_path, RICH_TEXT).findings}


def test_without_onnx(tmp_path: Path) -> None:
    """Where the package is missing, the message says how to get it; JSON files are checked all the same."""
    script = (
        "import sys; sys.modules['onnx'] = None\n"
        "from pathlib import Path\n"
        "from dmlgather.report.settings import check_paths\n"
        f"report = check_paths([Path({str(saved(tmp_path, GATHER))!r})])\n"
        "print(report.exit_code, report.files[0].problems[0])"
    )
    ended = python(script, check=True)
    assert ended.stdout.startswith(f"2 {tmp_path}/model.onnx: an ONNX model needs the package onnx, which is not installed")
    assert ended.stdout.endswith("(dmlgather's extra onnx)\n")
    assert ended.stderr == ""


def test_a_name_that_is_defined_nowhere(tmp_path: Path) -> None:
    found = checked(tmp_path, "agraph (float[4] X) => (float Z) { Z = Gather(X, nope) }")
    assert only(found).verdict is Verdict.REFUSED
    (finding,) = found.findings
    assert (finding.code, finding.severity, finding.path) == ("EXP304", "error", "indices")
    assert finding.got == "'nope', which is defined nowhere"
    assert finding.remedy == "correct the name"


def test_nodes_that_are_not_sorted(tmp_path: Path) -> None:
    """Found at each node that reads what is defined later, whether it is of the family or not."""
    text = """agraph (float[3,4] X, int64[2] i, bool c) => (float[a] Z) {
      [early] T = Reshape(X, r)
      [gather] Z = Gather(X, j)
      [branch] W = If(c) <then_branch = t () => (float o) { o = Gather(X, k) }, else_branch = e () => (float o) { o = Abs(Y) }>
      r = Constant<value_ints = [7]>()
      j = Identity(i)
      k = Identity(i)
      Y = Abs(X)
    }"""
    found = checked(tmp_path, text)
    errors = {finding.subject: finding for finding in found.findings}
    assert list(errors) == ["early", "branch.else_branch/Abs_0", "gather", "branch.then_branch/Gather_0"]
    assert {(finding.code, finding.severity) for finding in errors.values()} == {("EXP304", "error")}
    assert {node.verdict for node in found.nodes} == {Verdict.REFUSED}
    assert errors["gather"].got == "'j', which is defined only by a later node of the main graph"
    assert "sort the nodes" in errors["gather"].remedy


def test_shapes_that_inference_passes_over(tmp_path: Path) -> None:
    """A MatMul of tensors that do not fit: only where a node needs what it leaves unknown."""
    text = "agraph (float[3,4] X, float[5,6] Y, int64[2] i) => (float Z) { T = MatMul(X, Y) Z = Gather(DATA, i) }"
    found = checked(tmp_path, text.replace("DATA", "T"))
    assert [(finding.code, finding.subject) for finding in found.findings] == [("EXP303", ""), ("EXP301", "Gather_1")]
    assert "Incompatible dimensions for matrix multiplication" in found.findings[0].got
    assert checked(tmp_path, text.replace("DATA", "X")).findings == ()
