"""What belongs to what, which libraries run a model, what limits the check, and what is said of a difference."""

from __future__ import annotations

import json
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import dmlgather as dg
from dmlgather import limits
from dmlgather.cli.schema import Schema, schema_of
from dmlgather.dialects.programs import read_program
from dmlgather.differential import Agreement, Counterexample, check_agreement, judges, trials
from dmlgather.files import FileError
from tests.dxdispatch.models import GATHER as LINE
from tests.dxdispatch.models import MODEL, changed

GATHER = dg.onnx.gather.problem(((5, 4), "float32"), ((3,), "int64"))
CLAMPED = dg.onnx.gather.problem(((5, 4), "float32"), ((3,), "int64"), out_of_bounds="clamp")
SLICE = dg.onnx.slice.problem(((5, 4), "float32"), [1], [3])
DESC = dg.SliceOperatorDesc.of(((5, 4), "FLOAT32"), offsets=(1, 0), sizes=(2, 4))
TYPES = "(float[5,4] data, int64[3] indices) => (float[3,4] output)"


def parsed(text: str, opset: int = 13, more: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}{more}]> g {text}')


def gather(types: str = TYPES, nodes: str = "output = Gather(data, indices)") -> onnx.ModelProto:
    return parsed(f"{types} {{ {nodes} }}")


# Names, types and shapes.


@pytest.mark.parametrize(
    ("what", "model"),
    [
        (GATHER, gather()),
        (GATHER, gather("(int64[3] indices, float[5,4] data) => (float[3,4] output)")),
        (GATHER, gather("(float[5,4] a, int64[3] b) => (float[3,4] c)", "c = Gather(a, b)")),  # in order
        (GATHER, gather("(float[5,4] data, int64[3] indices) => (float[3,4] other)", "other = Gather(data, indices)")),
        (GATHER, gather("(float[N,4] data, int64[M] indices) => (float[M,4] output)")),
        ([DESC], dg.translate(DESC).form),
    ],
)
def test_a_model_of_the_same_meaning_is_equal(what: Any, model: onnx.ModelProto) -> None:
    found = dg.compare(what, model)
    assert (found.verdict, found.remarks, bool(found)) == ("equal", (), True), str(found)
    assert len(found.judges) == 2
    assert found.elements > 0


NOT_COMPARED: dict[str, tuple[Any, onnx.ModelProto, str]] = {
    "an input": (
        GATHER,
        gather("(float[5,4] data, int64[3] ids) => (float[3,4] output)", "output = Gather(data, ids)"),
        "no input 'indices': its inputs are 'data', 'ids'. Rename the matching input to 'indices'",
    ),
    "an input more": (
        SLICE,
        parsed(
            "(float[5,4] data, float[1] z) => (float[2,4] output) <int64[1] a={1}, int64[1] b={3}> {output = Slice(data, a, b)}"
        ),
        "the model has the input 'z', which the other program does not have",
    ),
    "a shape": (
        GATHER,
        gather("(float[4,5] data, int64[3] indices) => (float[3,5] output)"),
        r"input 'data' is float32 \[5, 4\] in the program and float32 \[4, 5\] in the model",
    ),
    "a rank": (
        SLICE,
        parsed("(float[20] data) => (float[20] output) { output = Identity(data) }"),
        r"float32 \[20\] in the model",
    ),
    "a type": (GATHER, gather("(double[5,4] data, int64[3] indices) => (double[3,4] output)"), "and float64 in the model"),
    "outputs": (
        GATHER,
        gather(
            "(float[5,4] data, int64[3] indices) => (float[3,4] output, float[5,4] more)",
            "output = Gather(data, indices) more = Identity(data)",
        ),
        "the model has 2 outputs, the other program 1",
    ),
    "an illegal model": (
        GATHER,
        gather(TYPES, "output = Gather(data, nothing)"),
        "onnx's checker refuses the model: Nodes in a graph",
    ),
}


@pytest.mark.parametrize("name", NOT_COMPARED)
def test_programs_that_do_not_fit_are_not_checked(name: str) -> None:
    what, model, words = NOT_COMPARED[name]
    found = dg.compare(what, model)
    assert (found.verdict, found.judges, found.difference) == ("not checked", (), None)
    assert not found
    (remark,) = found.remarks
    assert re.search(words, remark), remark


DIFFERENT: dict[str, tuple[Any, onnx.ModelProto, str]] = {
    "an output's type": (
        GATHER,
        gather(TYPES.replace("(float[3,4]", "(double[3,4]"), "a = Gather(data, indices) output = Cast <to = 11> (a)"),
        r"output must be float32 \[3, 4\]; the model gives float64 \[3, 4\]",
    ),
    "an output's shape": (
        GATHER,
        gather(TYPES.replace("float[3,4] output", "float[4,3] output"), "a = Gather(data, indices) output = Transpose(a)"),
        r"output must be float32 \[3, 4\]; the model gives float32 \[4, 3\]",
    ),
    "names exchanged": (
        dg.onnx.gather.problem(((9,), "int64"), ((9,), "int64")),
        gather("(int64[9] indices, int64[9] data) => (int64[9] output)", "output = Gather(indices, data)"),
        "the program",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_model_of_another_meaning_is_different(name: str) -> None:
    what, model, words = DIFFERENT[name]
    found = dg.compare(what, model)
    assert found.verdict == "different"
    assert not found
    assert re.search(words, str(found)), str(found)


DESCRIBED = dg.onnx.to_directml(helper.make_node("Gather", ["data", "indices"], ["output"]), [(5, 4), (3,)], ["float32", "int64"])


@pytest.mark.parametrize(
    ("node", "in_range"),
    [("output = Gather(data, indices)", True), ("b = Add(indices, indices) output = Gather(data, b)", False)],
    ids=["out of range alone", "in range too"],
)
def test_a_difference_out_of_range_alone_has_a_remark(node: str, in_range: bool) -> None:
    """DirectML clamps an index for which ONNX has an error; the remark says if this is all."""
    found = dg.compare(DESCRIBED, gather(nodes=node))
    assert (found.verdict, len(found.remarks)) == ("different", int(in_range)), str(found)
    assert [re.sub(r"\d+", "N", each) for each in found.remarks] == [
        "here an index is out of range; N index values in range were tried as well, and no difference was found"
    ] * in_range


@pytest.mark.parametrize("one", [gather(), Path("one.onnx")], ids=["proto", "path"])
def test_two_onnx_models_are_not_compared(one: Any, tmp_path: Path) -> None:
    """No program here runs the first one; what does is named."""
    if isinstance(one, Path):
        onnx.save(gather(), one := tmp_path / one)
    with pytest.raises(
        (TypeError, FileError),
        match=r"an ONNX model: check and explain take it, .* to compare two ONNX models, .*\.run\(None, INPUTS\)",
    ):
        dg.compare(one, gather())


def test_another_type_of_indices_is_no_difference() -> None:
    """What both can hold is compared."""
    found = dg.compare(GATHER, gather("(float[5,4] data, int32[3] indices) => (float[3,4] output)"))
    said = "input 'indices' is int64 in the program and int32 in the model: compared for -2147483648 … 2147483647"
    assert (found.verdict, found.remarks) == ("equal", (said,))


def folded(values: list[float], *, as_input: bool) -> onnx.ModelProto:
    """A model that holds its data, as a constant or as the default of an input."""
    model = gather("(int64[3] indices) => (float[3,4] output)") if not as_input else gather()
    model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.float32).reshape(5, 4), "data"))
    return model


def test_initial_values_may_be_constants_or_defaults() -> None:
    """And these may not be others."""
    graph, values = read_program(GATHER).graph, [*map(float, range(20))]
    initial = {"data": np.arange(20, dtype=np.float32).reshape(5, 4)}
    wrong = [*values[:-1], 7.0]
    assert check_agreement(graph, folded(values, as_input=True), initial=initial).remarks == ()
    assert check_agreement(graph, folded(wrong, as_input=True))  # no values are known
    assert check_agreement(graph, folded(values, as_input=False)).verdict == "not checked"
    found = check_agreement(graph, folded(values, as_input=False), initial=initial)
    assert (found.verdict, found.remarks) == (
        "equal",
        ("the model holds 'data' as a constant: compared for its initial values alone",),
    )
    assert check_agreement(graph, folded(wrong, as_input=False), initial=initial).verdict == "different"
    found = check_agreement(graph, folded(wrong, as_input=True), initial=initial)
    assert found.difference == "the model's initial values of its input 'data' differ from those of the other program"


# Libraries.


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)  # importing it then fails


def test_without_onnxruntime_the_evaluator_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "onnxruntime")
    found = dg.compare(GATHER, gather())
    assert (found.verdict, [name.partition(" of")[0] for name in found.judges]) == ("equal", ["the reference evaluator"])
    elements = dg.onnx.gather_elements.problem(((5, 4), "float32"), ((5, 4), "int64"), 1)
    found = dg.compare(elements, dg.translate(elements).form)
    assert found.verdict == "equal"
    assert [remark.partition(",")[0].partition(":")[0] for remark in found.remarks] == [
        "indices beyond 65536 were not tried",
        "errors for indices out of range were not compared",
    ]
    other = dg.translate(elements).form
    other.graph.node[0].attribute[0].i = 0
    assert dg.compare(elements, other).verdict == "different"


@pytest.mark.parametrize("kind", ["bfloat16", "complex64"])
def test_a_type_that_onnxruntime_lacks_is_left_to_the_other(kind: str) -> None:
    problem = dg.onnx.gather.problem(((5, 4), kind), ((3,), "int64"))
    found = dg.compare(problem, dg.translate(problem).form)
    assert (found.verdict, len(found.judges), len(found.remarks)) == ("equal", 1, 1)
    assert found.remarks[0].startswith("onnxruntime ")


def test_a_model_that_nothing_can_run_is_not_checked() -> None:
    model = parsed(f"{TYPES} {{ output = my.Gather(data, indices) }}", more=', "my" : 1')
    found = dg.compare(GATHER, model)
    assert (found.verdict, found.judges, bool(found), len(found.remarks)) == ("not checked", (), False, 2)
    assert str(found).startswith("not checked\n  onnxruntime does not load it: ")


def test_an_older_onnxruntime_gets_no_wide_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not clamp them."""
    wrong = judges._clamps_wrongly
    assert [wrong(version) for version in ("1.23.2", "1.31.0", "1.32.0", "2.0")] == [True, True, False, False]
    monkeypatch.setattr(judges, "_clamps_wrongly", lambda _: True)
    found = dg.compare(CLAMPED, dg.translate(CLAMPED).form)
    assert found.remarks[0].startswith("indices beyond 2147483647 were not tried: onnxruntime ")
    assert dg.compare(GATHER, gather()).remarks == ()


def test_nodes_inside_functions_and_branches_are_known() -> None:
    """onnx's evaluator may count an index of GatherElements back for ever."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> '
        "g (float[5,4] data, int64[5,4] indices, bool b) => (float[5,4] output) "
        "{ output = If (b) <then_branch = t () => (float[5,4] y) { y = own.elements(data, indices) },"
        " else_branch = e () => (float[5,4] z) { z = Identity(data) }> }"
        '<domain: "own", opset_import: ["" : 17]> elements (d, i) => (o) { o = GatherElements <axis = 1> (d, i) }'
    )
    model = onnx.parser.parse_model(text)
    found, _ = judges.judges(model, model.SerializeToString())
    assert [judge.name.split()[0] for judge in found] == ["onnxruntime"]


def test_memory_that_is_lacking_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", full)
    with pytest.raises(MemoryError):
        dg.compare(GATHER, gather())


# Limits.


def test_a_large_program_is_not_run() -> None:
    problem = dg.onnx.slice.problem(((2**20, 2**8), "uint8"), [0], [2**20], [0])
    found = dg.compare(problem, parsed("(uint8[1048576,256] data) => (uint8[1048576,256] output) { output = Identity(data) }"))
    said = "one run has 536870912 elements, and at most 268435456 are tried: run it on your own inputs"
    assert (found.verdict, found.remarks) == ("not checked", (said,))


def test_a_large_program_has_few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_MAX_WORK", 1)
    found = dg.compare(GATHER, gather())
    assert found.verdict == "equal"
    assert [remark.split(" of indices")[0][:6] for remark in found.remarks] == ["3 of 4"]
    assert found.remarks[0].endswith("draws of indices were tried: one run has 35 elements")
    assert found.index_values == 9


# What is said.


def counterexample(what: Any, model: onnx.ModelProto, **more: Any) -> Counterexample:
    found = check_agreement(read_program(what).graph, model, **more).difference
    assert isinstance(found, Counterexample)
    return found


def test_both_origins_are_told() -> None:
    bounds = "<int64[1] a = {2}, int64[1] b = {4}>"
    found = dg.compare(SLICE, parsed(f"(float[5,4] data) => (float[2,4] output) {bounds} {{ output = Slice(data, a, b) }}"))
    said = "output[0, 0] must be 5.0, which is data[1, 0]; the model gives 9.0, which is data[2, 0]"
    assert str(found).partition(": ")[2] == said
    assert str(found).startswith("differs in onnxruntime ")


def test_only_the_indices_of_an_output_are_told(tmp_path: Path) -> None:
    """Of a dump of many descriptors."""
    lines = [
        changed((("desc", "IndicesTensor", "Sizes"), [1, n]), (("desc", "OutputTensor", "Sizes"), [n, 2]), start=LINE)
        for n in range(1, 7)
    ]
    (tmp_path / "dump.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    model = dg.translate(tmp_path / "dump.jsonl").form
    next(node for node in model.graph.node if "InputTensor 4" in node.input).input[0] = "InputTensor 5"
    found = dg.compare(tmp_path / "dump.jsonl", model).difference
    assert isinstance(found, Counterexample)
    assert (found.output, found.indices) == ("OutputTensor 4", ("IndicesTensor 4",))
    assert "InputTensor 5[" in str(found)
    assert str(replace(found, output=None, indices=tuple(f"IndicesTensor {n}" for n in range(1, 7)))).endswith("]] and others")


def test_an_error_on_one_side_is_told() -> None:
    said = "the program raises (index 5 in 'indices' is out of range), and the model raises nothing, for indices = ["
    assert said in str(dg.compare(GATHER, dg.translate(CLAMPED).form))
    assert "the program raises nothing, and the model raises: " in str(dg.compare(CLAMPED, gather()))


@pytest.mark.parametrize("seed", range(4))
def test_a_counterexample_is_one(seed: int) -> None:
    """Its inputs give what it says, in NumPy and in onnxruntime; a seed gives the same one again."""
    import onnxruntime

    model = parsed(f"{TYPES} <int64 zero = {{0}}> {{ more = Max(indices, zero) output = Gather(data, more) }}")
    found = counterexample(GATHER, model, seed=seed)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    data, indices = found.inputs["data"], found.inputs["indices"]
    (theirs,) = session.run(None, dict(found.inputs))
    assert (str(data[indices][found.position]), str(theirs[found.position])) == found.values
    assert str(counterexample(GATHER, model, seed=seed)) == str(found)
    assert found.sources[0] == f"data[{indices[found.position[0]] % 5}, {found.position[1]}]"


def test_bits_are_shown_where_values_read_alike() -> None:
    signature = "(float[5,4] data, int64[3] indices) => (float[3,4] output) <float zero = {0}>"
    found = counterexample(GATHER, parsed(signature + "{ s = Add(data, zero) output = Gather(s, indices) }"))
    assert found.sources == (None, None)
    assert found.values == ("-0.0", "0.0") or all("nan (bits " in value for value in found.values)


@pytest.mark.parametrize(
    "model", [gather(), dg.translate(CLAMPED).form, gather("(float[4,5] data, int64[3] indices) => (float[3,5] output)")]
)
def test_json_fits_its_schema(model: onnx.ModelProto) -> None:
    found = dg.compare(GATHER, model)
    data = json.loads(json.dumps({"file": "f", "against": "m", "left_out": 0, **found.to_json()}))
    jsonschema.Draft202012Validator(schema_of(Schema.AGREEMENT)).validate(data)
    assert (data["verdict"], data["text"]) == (found.verdict, str(found))


def test_an_agreement_is_shown_as_text() -> None:
    assert (
        str(Agreement(("a 1", "b 2"), 412, 9, ("but not all",)))
        == "checked in a 1 and b 2: 412 index values, equal\n  but not all"
    )
    assert str(Agreement(("a 1",), 0, 1)) == "checked in a 1: 1 output element, equal"


# Files and arguments.


def test_files_are_compared(tmp_path: Path) -> None:
    """A DxDispatch model has its initial values; of lines, each is compared."""
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    (tmp_path / "dump.jsonl").write_text(f"{json.dumps(LINE)}\n" * 2)
    for name in ("model.json", "dump.jsonl"):
        made = dg.translate(tmp_path / name)
        made.write(tmp_path / "m.onnx")
        assert dg.compare(tmp_path / name, tmp_path / "m.onnx")
        gathering = next(node for node in made.form.graph.node if node.op_type == "Gather")
        gathering.attribute[0].i = 1
        assert not dg.compare(tmp_path / name, made.form)


def test_a_model_may_be_given_by_its_path(tmp_path: Path) -> None:
    onnx.save(gather(), tmp_path / "m.onnx")
    assert dg.compare(GATHER, tmp_path / "m.onnx")
    assert dg.compare(GATHER, str(tmp_path / "m.onnx")).verdict == "equal"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "m.onnx does not exist"),
        (b"", "holds no graph"),
        (b"<html>", "no ONNX model"),
        (gather().SerializeToString()[:-9], "no ONNX model|holds no graph"),
    ],
)
def test_a_file_that_is_no_model_is_refused(content: bytes | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(FileError, match=words):
        dg.compare(GATHER, tmp_path / "m.onnx")


def test_arguments_that_do_not_go_together_are_refused() -> None:
    for more in ({"devices": ("cpu", "reference")}, {"against": np.zeros((3, 4), np.float32)}):
        with pytest.raises(TypeError, match="a comparison with an ONNX model takes no devices"):
            dg.compare(GATHER, gather(), **more)
    with pytest.raises(TypeError, match="what is compared is of type int, not a program"):
        dg.compare(3, gather())


# What an enemy writes.


def rows(nodes: str, output: str = "float[6,4] OutputTensor") -> onnx.ModelProto:
    """A model of Gather-13, and of nodes that make the output of what it finds."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[10,4] InputTensor, int64[1,6] IndicesTensor) => '
    constants = "<int64[1] n = {6}, int64 low = {-10}, int64 high = {9}>"
    clamped = "flat = Reshape(IndicesTensor, n) index = Clip(flat, low, high) found = Gather(InputTensor, index)"
    model: onnx.ModelProto = onnx.parser.parse_model(f"{text} ({output}) {constants} {{ {clamped} {nodes} }}")
    return model


ROWS = dg.GatherOperatorDesc(
    input_tensor=dg.BufferTensorDesc(data_type="FLOAT32", sizes=(10, 4)),
    indices_tensor=dg.BufferTensorDesc(data_type="INT64", sizes=(1, 6)),
    output_tensor=dg.BufferTensorDesc(data_type="FLOAT32", sizes=(6, 4)),
    axis=0,
    index_dimensions=1,
)


@pytest.mark.parametrize(
    ("nodes", "output", "verdict"),
    [
        ("OutputTensor = Identity(found)", "float[6,4] OutputTensor", "equal"),
        ("wide = Cast<to = 11>(found) OutputTensor = Cast<to = 1>(wide)", "float[6,4] OutputTensor", "different"),  # quiet NaNs
        (
            "size = Shape(found) OutputTensor = SequenceConstruct(found)",
            "seq(float[6,4]) OutputTensor",
            "not checked, and a line",
        ),
        (
            "n2 = Constant<value_ints = [4, 6]>() OutputTensor = Reshape(found, n2)",
            "float[4,6] OutputTensor",
            "equal, and a line",
        ),
        ("two = Constant<value_ints = [1, 6, 4]>() OutputTensor = Reshape(found, two)", "float[1,6,4] OutputTensor", "equal"),
    ],
)
def test_a_model_that_is_nearly_right_has_its_own_verdict(nodes: str, output: str, verdict: str) -> None:
    found = dg.compare(ROWS, rows(nodes, output))
    remarks = [remark for remark in found.remarks if not remark.startswith("indices beyond")]  # of onnxruntime before 1.32
    assert found.verdict + ", and a line" * len(remarks) == verdict


def test_a_flat_model_of_buffers_is_equal() -> None:
    found = dg.compare(DESC, parsed("(float[20] x) => (float[8] y) <int64[1] a = {4}, int64[1] b = {12}> { y = Slice(x, a, b) }"))
    shapes = ("'InputTensor' is [5, 4] in the program and [20]", "'OutputTensor' is [2, 4] in the program and [8]")
    said = [
        f"{what} {each} in the model: compared in row-major order" for what, each in zip(("input", "output"), shapes, strict=True)
    ]
    assert (found.verdict, [*found.remarks]) == ("equal", said)


def test_a_loop_without_an_end_is_ended() -> None:
    """onnxruntime runs it in native code, which no signal interrupts."""
    found = rows("OutputTensor = Identity(found)")
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Identity", ["held"], ["kept"])],
        "body",
        [
            helper.make_tensor_value_info("turn", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("held", onnx.TensorProto.FLOAT, [6, 4]),
        ],
        [
            helper.make_tensor_value_info("more", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("kept", onnx.TensorProto.FLOAT, [6, 4]),
        ],
    )
    del found.graph.node[-1]
    found.graph.initializer.append(numpy_helper.from_array(np.array(True), "ever"))
    found.graph.node.append(helper.make_node("Loop", ["", "ever", "found"], ["OutputTensor"], body=body))
    before = threading.active_count()
    with (
        pytest.raises(limits.LimitError, match=r"takes more than its limit of 0\.5 s of CPU time"),
        limits.Limits(0.5, 2**40).over(),
    ):
        dg.compare(ROWS, found)
    assert threading.active_count() == before
