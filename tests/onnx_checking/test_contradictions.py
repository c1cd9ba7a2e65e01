"""Models that state another type of a tensor than follows. Judge: onnxruntime, which loads or refuses them, and runs them without
what is stated.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from dmlgather.directml.findings import LocatedFinding
from dmlgather.onnx.problems.partial_types import PartialType, type_of_value
from dmlgather.onnx_checking.checked_model import CheckedModel, Verdict
from dmlgather.onnx_checking.reading.shape_inference import graphs_in
from tests.onnx_checking.following import contents_of
from tests.onnx_checking.modelling import checked, only, parsed
from tests.onnx_checking.sessions import OFF, session

CODES = ("EXP306", "EXP307", "EXP308")
"""Of sizes, of types, and of numbers for sizes with names."""

CONSTANTS = """int64[2] ends = {0,3}, int64[1] zero = {0}, int64[1] two = {2}, int64[1] five = {5}, int64[1] eight = {8},
int64[1] last = {-1}, int64[2] flat = {2,-1}, int64[2,1] rows = {3,0}"""


COMPUTED = "s = Shape(x) k = Gather(s, zero) m = Mul(k, two) d = Div(m, two) q = Concat <axis = 0> (d, last) z = Reshape(x, q)"
"""Nodes that give z the shape of x, as exporters write them."""


class Case(NamedTuple):
    """A model and what is found in it. text: its inputs and outputs, statements beside the outputs, and nodes. tensor: that is
    stated wrongly.
    """

    text: str
    tensor: str
    follows: str
    says: str

    @property
    def model(self) -> onnx.ModelProto:
        """The model."""
        given = re.fullmatch(r"(.*) => (.*?)(?: <(float.*?|double.*?|int.*?)>)? \| (.*)", self.text)
        assert given is not None
        inputs, outputs, stated, nodes = given.groups()
        return stating(f"agraph ({inputs}) => ({outputs}) <{stated + ', ' if stated else ''}{CONSTANTS}> {{ {nodes} }}")


SCAN = "y = Scan <num_scan_inputs = 1,"
BODY = "body = g (r) => (t) { t = Relu(r) }> (z)"


SIZES = {
    "an index beyond a stated size": Case(
        "float[4,3] x => y <float[1,3] a> | a = Relu(x) y = Gather(a, ends)", "a", "float[4,3]", "float[1,3]"
    ),
    "indices beyond a stated size": Case(
        "float[4,3] x => y <float[2,3] a> | a = Neg(x) y = GatherND(a, rows)", "a", "float[4,3]", "float[2,3]"
    ),
    "an index beyond a stated size of another axis": Case(
        "float[3,4] x => y <float[3,2] a> | a = Abs(x) y = Gather<axis = 1>(a, ends)", "a", "float[3,4]", "float[3,2]"
    ),
    "a stated rank": Case("float[4,3] x => y <float[12] a> | a = Relu(x) y = Gather(a, ends)", "a", "float[4,3]", "float[12]"),
    "a stated rank behind Unsqueeze": Case(
        "float[4] x => y <float[4] a> | a = Unsqueeze(x, zero) y = Slice(a, zero, two)", "a", "float[1,4]", "float[4]"
    ),
    "a stated rank of an output": Case("float[4,3] x => float[2] y | y = Gather(x, ends)", "y", "float[2,3]", "float[2]"),
    "rows of an output": Case("float[32,3] x => float[64,3] y | y = Slice(x, zero, eight)", "y", "float[8,3]", "float[64,3]"),
    "rows behind Reshape": Case("float[4,3] x => float[6,2] y | y = Reshape(x, flat)", "y", "float[2,6]", "float[6,2]"),
    "rows behind computed constants": Case(
        "float[32,3] x => float[64,3] y | k = Mul(two, five) y = Slice(x, zero, k)", "y", "float[10,3]", "float[64,3]"
    ),
    "what is stated behind what is stated wrongly": Case(
        "float[4,3] x => float[4,3] y <float[1,3] a, float[4,3] b> | a = Relu(x) b = Neg(a) y = Abs(b)",
        *("a", "float[4,3]", "float[1,3]"),
    ),
    "more than a size may ever be": Case(
        "float[N,3] x => float[64,3] y | y = Slice(x, zero, eight)", "y", "float[min(8, N),3]", "float[64,3]"
    ),
    "an odd number for an even one": Case(
        "float[N,3] x => float[7,3] y | y = Concat <axis = 0>(x, x)", "y", "float[2*N,3]", "float[7,3]"
    ),
    "two numbers for one name": Case("float[N,N] x => float[3,7] y | y = Relu(x)", "y", "float[N,N]", "float[3,7]"),
    "what a scan gives behind a computed shape": Case(
        f"float[4,3] x => float[3,5] y | {COMPUTED} {SCAN} scan_input_axes = [1], {BODY}", "y", "float[3,4]", "float[3,5]"
    ),
    "rows that a scan gives along the last axis": Case(
        f"float[4,3] x => float[4,3] y | {COMPUTED} {SCAN} scan_output_axes = [-1], {BODY}", "y", "float[3,4]", "float[4,3]"
    ),
}
"""What onnxruntime loads."""

NUMBERS = {
    "a number for a name": Case(
        "float[N,3] x => y <float[1,3] a> | a = Relu(x) y = Gather(a, ends)", "a", "float[N,3]", "N = 1 only"
    ),
    "a number for a size without a name": Case(
        "float[?,3] x => y <float[1,3] a> | a = Relu(x) y = Gather(a, ends)", "a", "float[x[0],3]", "x[0] = 1 only"
    ),
    "a number for an expression": Case(
        "float[N,3] x => float[8,3] y | y = Concat<axis = 0>(x, x)", "y", "float[2*N,3]", "2*N = 8 only"
    ),
    "a number for a minimum": Case(
        "float[N,3] x => float[4,3] y | y = Slice(x, zero, eight)", "y", "float[min(8, N),3]", "min(8, N) = 4 only"
    ),
}
"""What onnxruntime loads. N is 7."""

TYPES = {
    "doubles as floats": Case(
        "double[4,3] x => y <float[4,3] a> | a = Relu(x) y = Gather(a, ends)", "a", "double[4,3]", "float[4,3]"
    ),
    "integers as floats": Case(
        "int64[4,3] x => y <float[4,3] a> | a = Neg(x) y = Slice(a, zero, two)", "a", "int64[4,3]", "float[4,3]"
    ),
    "integers as doubles of unknown shape": Case(
        "int64[4,3] x => y <double[] a> | a = Neg(x) y = Gather(a, ends)", "a", "int64[4,3]", "double[...]"
    ),
    "a gather of floats as integers": Case("float[4,3] x => int64[2,3] y | y = Gather(x, ends)", "y", "float[2,3]", "int64[2,3]"),
    "a slice of floats as integers": Case(
        "float[N,3] x => int32[2,3] y | y = Slice(x, zero, two)", "y", "float[min(2, N),3]", "int32[2,3]"
    ),
    "a shape as 32 bits": Case("float[4,3] x => y <int32[2] s> | s = Shape(x) y = Gather(s, zero)", "s", "int64[2]", "int32[2]"),
}
"""What onnxruntime refuses to load."""

CASES = {name: (code, case) for code, cases in zip(CODES, (SIZES, TYPES, NUMBERS), strict=True) for name, case in cases.items()}
"""By what is stated: the code of its finding, and the case."""

SIZE_OF_N = 7


def stating(text: str) -> onnx.ModelProto:
    """The model of a text, in which a value without a type states none, as onnxruntime requires."""
    model = parsed(text)
    for graph in graphs_in(model.graph):
        for value in (*graph.input, *graph.output):
            if not value.type.tensor_type.elem_type:
                value.ClearField("type")
    return model


def contradicting(model: CheckedModel) -> list[LocatedFinding]:
    """The findings about what a model states of its tensors."""
    return [finding for finding in model.findings if finding.code in CODES]


def unstated(model: onnx.ModelProto, tensor: str) -> onnx.ModelProto:
    """The model with that tensor as its only output, and nothing stated."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.graph.value_info[:], plain.graph.output[:]
    plain.graph.output.append(onnx.ValueInfoProto(name=tensor))
    return plain


def fed(model: onnx.ModelProto) -> dict[str, Any]:
    """Inputs of a model."""
    found = {}
    for value in model.graph.input:
        known = type_of_value(value)
        sizes = [size if isinstance(size, int) else SIZE_OF_N for size in known.shape or ()]
        found[value.name] = np.ones(sizes, known.dtype)
    return found


def judge(model: onnx.ModelProto, refused: bool, why: str | None = None) -> None:
    """Assert that onnxruntime refuses a model, or that it loads it."""
    with pytest.raises(Fail, match=why) if refused else nullcontext():
        session(model, OFF)


@pytest.mark.parametrize(("code", "case"), CASES.values(), ids=CASES)
def test_a_statement_that_is_wrong_is_found(tmp_path: Path, code: str, case: Case) -> None:
    model = case.model
    judge(model, code == "EXP307", "Type Error")
    (finding,) = contradicting(checked(tmp_path, model))
    assert (finding.code, finding.severity) == (code, "error" if code == "EXP307" else "warning")
    assert finding.expected.startswith(f"{case.tensor!r} of type {case.follows}, ")
    assert case.says in finding.got
    giver = next(node for node in model.graph.node if case.tensor in node.output)
    assert finding.subject.startswith(giver.op_type)
    for value in (*model.graph.value_info, *model.graph.output):
        if value.name == case.tensor:
            value.ClearField("type")
    assert not contradicting(checked(tmp_path, model))


@pytest.mark.parametrize(("code", "case"), CASES.values(), ids=CASES)
def test_the_type_that_follows_is_the_one_onnxruntime_gives(tmp_path: Path, code: str, case: Case) -> None:
    (found,) = contents_of(case.model, tmp_path).contradictions
    (value,) = session(unstated(case.model, case.tensor), OFF).run(None, fed(case.model))
    names = {"N": SIZE_OF_N, "x": [SIZE_OF_N]}
    sizes = [eval(str(size), {"min": min}, names) for size in found.inferred.shape or ()]
    assert (value.dtype, list(value.shape)) == (found.inferred.dtype, sizes)
    assert PartialType(value.dtype, value.shape) != found.declared


def test_the_type_that_follows_decides(tmp_path: Path) -> None:
    node = only(checked(tmp_path, SIZES["an index beyond a stated size"].model))
    assert (node.verdict, node.inputs[0].shape) == (Verdict.TAKEN, (4, 3))
    node = only(checked(tmp_path, NUMBERS["a number for a name"].model))
    assert (node.verdict, node.provided) == (Verdict.TAKEN, ("N >= 4",))
    node = only(checked(tmp_path, SIZES["rows behind computed constants"].model))
    assert node.outputs[0].shape == (10, 3)


def test_an_empty_slice_of_what_is_stated_larger(tmp_path: Path) -> None:
    for stated in ("float[9,3] a", "float[9] a", "float[M,3] a"):
        text = f"agraph (float[4,3] x) => (y) <{stated}, {CONSTANTS}> {{ a = Relu(x) y = Slice(a, five, eight) }}"
        found = checked(tmp_path, text)
        assert only(found).verdict is Verdict.REFUSED
        assert "EXP102" in {finding.code for finding in found.findings}


def test_data_that_a_level_does_not_take_behind_a_stated_type(tmp_path: Path) -> None:
    """The levels below 3_0 take no INT64 or FLOAT64 as data."""
    for dtype in ("double", "int64", "uint64"):
        text = f"agraph ({dtype}[4,3] x) => (y) <float[4,3] a, {CONSTANTS}> {{ a = Identity(x) y = Gather(a, ends) }}"
        found = checked(tmp_path, text, "2_1")
        assert (only(found).verdict, only(found).inputs[0].type) == (Verdict.REFUSED, dtype)


UNKNOWN = "<ir_version: 9, opset_import: ['' : 17, 'own' : 1]>".replace("'", '"')


def test_a_statement_holds_where_nothing_follows(tmp_path: Path) -> None:
    nodes = "a = own.Unknown(x) b = Relu(a) y = Gather(b, ends)"
    for stated, tensor in (("float[4,3] a, float[1,3] b", "b"), ("float[5,3] a, float[5,3] b, float[2,4] y", "y")):
        found = checked(tmp_path, f"{UNKNOWN} agraph (float[8] x) => (y) <{stated}, {CONSTANTS}> {{ {nodes} }}")
        (finding,) = contradicting(found)
        assert finding.expected.startswith(f"{tensor!r} of type ")
        assert only(found).verdict is Verdict.TAKEN
    assert not contradicting(checked(tmp_path, f"{UNKNOWN} agraph (float[8] x) => (y) <float[5,3] a, {CONSTANTS}> {{ {nodes} }}"))


def test_a_count_that_only_a_run_shows_may_be_stated(tmp_path: Path) -> None:
    text = f"agraph (float[4,3] x) => (y) <int64[2,9] a, {CONSTANTS}> {{ a = NonZero(x) y = Gather<axis = 1>(a, ends) }}"
    found = checked(tmp_path, text)
    assert not contradicting(found)
    assert only(found).inputs[0].shape == (2, 9)


BODIES = {
    "a branch": (
        "y = If (c) <then_branch = g () => (float[1,3] t) { t = Relu(x) }, else_branch = h () => (e) { e = Neg(x) }>",
        {("If_0.then_branch/Relu_0", "t", "EXP306")},
    ),
    "a type in a branch": (
        "y = If (c) <then_branch = g () => (int64[4,3] t) { t = Relu(x) }, else_branch = h () => (e) { e = Neg(x) }>",
        {("If_0.then_branch/Relu_0", "t", "EXP307")},
    ),
    "both branches": (
        "a = If (c) <then_branch = g () => (t) { t = Relu(x) }, else_branch = h () => (e) { e = Neg(x) }> y = Identity(a)",
        {("If_0", "a", "EXP306")},
    ),
    "what a loop carries": (
        "y = Loop (n, c, x) <body = g (int64 i, bool k, float[1,3] s) => (bool l, float[4,3] t) { l = Identity(k) t = Relu(s) }>",
        {("Loop_0", "s", "EXP306")},
    ),
    "what a loop gives": (
        "y = Loop (n, c, x) <body = g (int64 i, bool k, s) => (bool l, float[2,3] t) { l = Identity(k) t = Relu(s) }>",
        {("Loop_0.body/Relu_1", "t", "EXP306")},
    ),
    "what a loop carries of another type": (
        "y = Loop (n, c, x) <body = g (int64 i, bool k, int64[4,3] s) => (bool l, t) { l = Identity(k) t = Relu(s) }>",
        {("Loop_0", "s", "EXP307")},
    ),
    "rows that are scanned": (
        "y = Scan <num_scan_inputs = 1, body = g (float[5] r) => (t) { t = Relu(r) }> (x)",
        {("Scan_0", "r", "EXP307")},
    ),
    "rows that a scan gives": (
        "y = Scan <num_scan_inputs = 1, body = g (r) => (float[5] t) { t = Relu(r) }> (x)",
        {("Scan_0.body/Relu_0", "t", "EXP306")},
    ),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_graphs_inside_nodes(tmp_path: Path, body: tuple[str, set[tuple[str, str, str]]]) -> None:
    nodes, expected = body
    model = stating(f"agraph (float[4,3] x, bool c, int64 n) => (y) <float[2,3] a, {CONSTANTS}> {{ {nodes} }}")
    found = {(each.subject, each.expected.split("'")[1], each.code) for each in contradicting(checked(tmp_path, model))}
    assert found == expected
    judge(model, any(code == "EXP307" for _, _, code in expected))


def test_local_functions(tmp_path: Path) -> None:
    """onnxruntime does not read what they state of their own values, but what their graphs inside nodes do."""
    branch = (
        "t = If (c) <then_branch = g () => (float[1,3] u) { u = Neg(x) }, else_branch = h () => (float[4,3] e) { e = Neg(x) }>"
    )
    loop = "n = Constant <value = int64 {2}> () t = Loop (n, c, x) <body = g (int64 i, bool k, float[4,64] s) => (l, u) {"
    for body, place, code in (
        ("t = Neg(x)", "own:Twice/Neg_0", "EXP306"),
        (branch, "own:Twice/If_0.then_branch/Neg_0", "EXP307"),
        (f"{loop} l = Identity(k) u = Identity(s) }}>", "own:Twice/Loop_1", "EXP306"),
    ):
        model = stating(
            f"{UNKNOWN} agraph (float[4,3] x, bool c) => (float[4,3] y) {{ y = own.Twice(x, c) }} "
            f'<domain: "own", opset_import: ["" : 17]> '
            f"Twice (x, c) => (y) {{ {body} y = Neg(t) }}"
        )
        if body == "t = Neg(x)":
            model.functions[0].value_info.append(helper.make_tensor_value_info("t", onnx.TensorProto.INT64, (1, 3)))
        (finding,) = contradicting(checked(tmp_path, model))
        assert (finding.subject, finding.code) == (place, code)
        judge(model, code == "EXP307")


def test_a_call_gives_the_branch_that_it_chooses(tmp_path: Path) -> None:
    """Of two branches of other shapes, the function always chooses one."""
    model = stating(
        f'{UNKNOWN} agraph (float[4,3] x) => (float[4,3] y) {{ y = own.Turned(x) }} <domain: "own", opset_import: ["" : 17]> '
        "Turned (x) => (y) { c = Constant <value = bool {1}> () y = If (c) "
        "<then_branch = g () => (t) { t = Transpose(x) }, else_branch = h () => (e) { e = Neg(x) }> }"
    )
    (found,) = contents_of(model, tmp_path).contradictions
    (value,) = session(unstated(model, "y"), OFF).run(None, fed(model))
    assert (found.tensor, found.inferred.shape) == ("y", value.shape)


@pytest.mark.parametrize("perm", ["0", "1, 0"])
def test_a_type_that_is_not_noticed_may_be_refused_later(tmp_path: Path, perm: str) -> None:
    """onnxruntime infers no shape of what a Loop carries, and refuses what does not fit the one that is stated."""
    loop = "<body = g (int64 i, bool k, s) => (l, t) { l = Identity(k) t = Relu(s) }>"
    nodes = f"a = Loop (n, c, x) {loop} y = Transpose <perm = [{perm}]> (a)"
    model = stating(f"agraph (float[4,3] x, bool c, int64 n) => (y) <float[12] a> {{ {nodes} }}")
    (finding,) = contradicting(checked(tmp_path, model))
    assert "does not notice, and goes on with float[12]: what follows from it may be refused" in finding.got
    judge(model, perm != "0", "perm")


@pytest.mark.parametrize("sizes", ["2,2", "7,7", "4,6", "5,8"])
@pytest.mark.parametrize("window", [(1, 2, 0), (2, 3, 0), (2, 3, 1), (3, 4, 1), (1, 4, 0)])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
def test_pooling_that_rounds_sizes_up(tmp_path: Path, operator: str, window: tuple[int, int, int], sizes: str) -> None:
    """No window begins behind the data. Of a chain, each gets what the one before gives."""
    length, step, pad = window
    pool = f"{operator} <kernel_shape = [{length}, {length}], strides = [{step}, {step}], pads = [{', '.join([str(pad)] * 4)}], "
    text = f"agraph (float[1,1,{sizes}] x) => (y) {{ a = {pool} ceil_mode = 1> (x) y = {pool} ceil_mode = 1> (a) }}"
    (value,) = session(stating(text), OFF).run(None, fed(stating(text)))
    for shape, holds in ((value.shape, True), ((1, 1, *(size + 1 for size in value.shape[2:])), False)):
        model = stating(text.replace("(y)", f"(float[{','.join(map(str, shape))}] y)"))
        found = contents_of(model, tmp_path).contradictions
        assert [each.inferred.shape for each in found] == ([] if holds else [value.shape])


@pytest.mark.parametrize("size", ["4", "N"])
@pytest.mark.parametrize("stated", [(1, 1, 1, 1, 1), (10, 11, 12, 13, 14), (1, 1, 4, 1, 1), (4, 1, 2, 3, 4), (1, 4, 4, 4, 1)])
@pytest.mark.parametrize("last", range(5))
def test_onnxruntime_keeps_stated_types_in_a_chain(tmp_path: Path, size: str, stated: tuple[int, ...], last: int) -> None:
    """Of a chain, each value as the output of the model in turn."""
    values = ", ".join(f"float[{number},3] v{at}" for at, number in enumerate(stated[:last]))
    nodes = " ".join(f"v{at} = Relu({f'v{at - 1}' if at else 'x'})" for at in range(last + 1))
    model = parsed(f"agraph (float[{size},3] x) => (float[{stated[last]},3] v{last}) <{values}> {{ {nodes} }}")
    contents = contents_of(model, tmp_path)
    kept = contents.runtime_types.get(("", f"v{last}"), PartialType(np.dtype(np.float32), (None if size == "N" else 4, 3)))
    (shape,) = (output.shape for output in session(model, OFF).get_outputs())
    numbers = ([each if isinstance(each, int) else None for each in sizes] for sizes in (kept.shape or (), shape))
    assert next(numbers) == next(numbers)


FIXED = {
    "a number of an output": "g (float[N,300,4] x, int64[5] i) => (float[1,5,4] y) { y = Gather<axis = 1>(x, i) }",
    "a wrong number of an output": "g (float[5,4] x, int64[3] i) => (float[3,9] y) { y = Gather(x, i) }",
    "a rank of an output": "g (float[5,4] x, int64[3] i) => (float[3] y) { y = Gather(x, i) }",
    "a number inside": "g (float[N,4] x, int64[3] i) => (float[A,B] y) <float[2,4] a> { a = Relu(x) y = Gather(a, i) }",
    "a number of an output whose size is computed": """g (float[N,4] x, int64[3] i) => (float[4,4] a, float[3,4] y) {
        a = Concat<axis = 0>(x, x) y = Gather(a, i)
    }""",
    "an output of a branch": """g (float[N,4] x, int64[3] i, bool c) => (float[A,B] y) {
        y = If(c) <then_branch = t () => (float[3,9] u) { u = Gather(x, i) },
                   else_branch = e () => (float[C,D] v) { v = Relu(x) }>
    }""",
}


@pytest.mark.parametrize("case", FIXED)
def test_the_fix_leaves_a_model_that_the_checker_takes(tmp_path: Path, case: str) -> None:
    """Judges: ONNX's checker and onnxruntime."""
    model = parsed(FIXED[case])
    (finding,) = (each for each in checked(tmp_path, model).findings if each.code in ("EXP306", "EXP308"))
    advice = re.fullmatch(
        r"(?:remove the type of '(\w+)' from the model's value_info|state (\w+)\[(.*)\] for '(\w+)' in the outputs of the graph)"
        r"( \(any name does for 2\*N\))?, or mend the exporter that wrote it",
        finding.remedy,
    )
    assert advice is not None
    removed, kind, sizes, name, any_name = advice.groups()
    assert bool(any_name) is ("computed" in case)
    sizes = sizes and sizes.replace("2*N", "rows")
    for graph in graphs_in(model.graph):
        if removed:
            (stated,) = (value for value in graph.value_info if value.name == removed)
            graph.value_info.remove(stated)
        for value in graph.output:
            if value.name == name:
                shape = [int(size) if size.isdecimal() else size for size in sizes.split(",")]
                element = {"float": onnx.TensorProto.FLOAT}[kind]
                value.CopyFrom(helper.make_tensor_value_info(name, element, shape))
    onnx.checker.check_model(model, full_check=True)
    session(model, OFF)
    assert not checked(tmp_path, model).findings
