"""Judging nodes: the level that takes them, by DirectML's documents; what stands against them; what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from dmlgather.directml import FeatureLevel
from dmlgather.onnx_checking.checked_model import DirectMLForm, Verdict
from tests.onnx_checking.modelling import checked, only, parsed

SINCE = {
    "float": ("1_0", "1_0", "2_1"),
    "float16": ("1_0", "1_0", "2_1"),
    "int32": ("1_0", "2_1", "2_1"),
    "uint16": ("1_0", "2_1", "2_1"),
    "int8": ("2_1", "2_1", "2_1"),
    "uint8": ("2_1", "2_1", "2_1"),
    "bool": ("2_1", "2_1", "2_1"),
    "bfloat16": ("1_0", "2_1", "2_1"),
    "int64": ("4_1", "4_1", "4_1"),
    "uint64": ("4_1", "4_1", "4_1"),
    "double": ("4_1", "4_1", "4_1"),
    "complex64": ("4_1", "4_1", "4_1"),
}
"""DirectML's tensor support, for data of a type in a slice, a gather, and a gather of elements or tuples: the first level.

bool is described as UINT8, bfloat16 as UINT16, complex64 as UINT64.
"""

NODES = {
    "Slice": "Z = Slice(X, s, e)",
    "Gather": "Z = Gather(X, i)",
    "GatherElements": "Z = GatherElements(X, j)",
    "GatherND": "Z = GatherND(X, j)",
}


def _one(operator: str, data: str) -> str:
    inputs, output = f"{data} X, int64[3] i, int64[2,2] j", f"{data.partition('[')[0]} Z"
    return f"agraph ({inputs}) => ({output}) <int64[1] s = {{1}}, int64[1] e = {{3}}> {{ {NODES[operator]} }}"


@pytest.mark.parametrize("operator", NODES)
@pytest.mark.parametrize("kind", SINCE)
def test_the_lowest_level(tmp_path: Path, kind: str, operator: str) -> None:
    column = {"Slice": 0, "Gather": 1}.get(operator, 2)
    since = FeatureLevel.parse(SINCE[kind][column])
    for level in FeatureLevel:
        model = checked(tmp_path, _one(operator, f"{kind}[4,2]"), str(level))
        node = only(model)
        assert node.lowest is not None
        assert node.lowest.level == since
        assert (node.verdict is Verdict.TAKEN) is (level >= since) is (not model.findings)


BLOCKS = {
    "int8": ("2_1", None, "2_1"),
    "bfloat16": ("2_1", None, "2_1"),
    "int64": ("4_1", "SLICE1", "5_0"),
    "complex64": ("4_1", "SLICE1", "5_0"),
    "complex128": ("4_1", "SLICE1", None),
}
"""For data of a type: the first level that takes blocks of it, the operator there where it is not the blocks' own, and the level
from which their own takes it.
"""


@pytest.mark.parametrize(
    ("node", "own"),
    [
        ("DepthToSpace<blocksize = 2>", "DEPTH_TO_SPACE1"),
        ('DepthToSpace<blocksize = 2, mode = "CRD">', "DEPTH_TO_SPACE1"),
        ("SpaceToDepth<blocksize = 2>", "SPACE_TO_DEPTH1"),
    ],
)
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks(tmp_path: Path, kind: str, node: str, own: str) -> None:
    since, first, later = BLOCKS[kind]
    text = f"agraph ({kind}[2,8,4,6] X) => ({kind} Z) {{ Z = {node}(X) }}"
    for level in FeatureLevel:
        found = only(checked(tmp_path, text, str(level)))
        assert found.lowest is not None
        assert (str(found.lowest.level), found.lowest.operators) == (since, (first or own,))
        taken = None if level < FeatureLevel.parse(since) else first
        if later and level >= FeatureLevel.parse(later):
            taken = own
        assert (found.taken and found.taken.operators) == (taken and (taken,))
        assert found.attributes == {"blocksize": 2}


def test_blocks_that_do_not_fit(tmp_path: Path) -> None:
    model = checked(tmp_path, "agraph (float[N,C,5,W] X) => (float Z) { Z = SpaceToDepth<blocksize = 2>(X) }")
    (finding,) = model.findings
    assert (finding.code, only(model).verdict) == ("EXP101", Verdict.REFUSED)
    assert "data has size 5 in dimension 2" in finding.got


@pytest.mark.parametrize(
    ("operator", "lowest"), [("Slice", "SLICE"), ("Gather", "GATHER"), ("GatherElements", "GATHER_ELEMENTS")]
)
def test_the_route_at_the_lowest_level(tmp_path: Path, operator: str, lowest: str) -> None:
    found = only(checked(tmp_path, _one(operator, "float[4,2]"), "2_1"))
    assert found.lowest is not None
    types = {} if operator == "Slice" else {"indices": "UINT32"}  # all that levels before 3_0 take
    assert (found.lowest.operators, found.lowest.types) == ((lowest,), types)
    newer = only(checked(tmp_path, _one(operator, "float[4,2]"), "6_4"))
    route = "SLICE1" if operator == "Slice" else lowest
    assert newer.taken == DirectMLForm(level=FeatureLevel.LEVEL_6_4, operators=(route,), types={})
    carried = only(checked(tmp_path, _one(operator, "bool[4,2]"))).taken
    assert carried is not None
    assert carried.types["data"] == "UINT8"


BACKWARDS = """agraph (float[4,2] X) => (float Z)
    <int64[1] s = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {0}, int64[1] t = {-1}> { Z = Slice(X, s, e, a, t) }"""
ALWAYS_EMPTY = "agraph (float[N] X) => (float Z) <int64[1] s = {3}, int64[1] e = {2}> { Z = Slice(X, s, e) }"
BATCHES = "agraph (float[5,4,2] X, int64[5,7,2] i) => (float Z) { Z = GatherND<batch_dims = 1>(X, i) }"

BELOW: dict[str, tuple[str, str, tuple[str, str] | None, tuple[str, str]]] = {
    "a type, once and not once more for the output": (
        _one("Gather", "int64[4,2]"), "1_0", ("4_1", "GATHER"), ("DML201", "InputTensor.DataType"),
    ),
    "negative steps": (BACKWARDS, "1_0", ("2_1", "SLICE1"), ("EXP106", "steps")),
    "batches of tuples": (BATCHES, "2_1", ("3_0", "GATHER_ND1"), ("EXP106", "batch_dims")),
    "an empty tensor": (_one("Slice", "float[1,2]"), "6_4", None, ("EXP102", "output.shape[0]")),
    "a slice that is always empty": (ALWAYS_EMPTY, "6_4", None, ("EXP102", "output.shape[0]")),
}  # fmt: skip
"""A node, a level that refuses it, the form at the lowest level that takes it, and the code and path of the only finding."""


@pytest.mark.parametrize(("text", "level", "lowest", "said"), BELOW.values(), ids=BELOW)
def test_a_level_refuses(tmp_path: Path, text: str, level: str, lowest: tuple[str, str] | None, said: tuple[str, str]) -> None:
    model = checked(tmp_path, text, level)
    node, form = only(model), None
    if lowest is not None:
        since, operator = lowest
        form = DirectMLForm(level=FeatureLevel.parse(since), operators=(operator,))
        assert only(checked(tmp_path, text, since)).taken == form
    assert (node.verdict, node.lowest, node.provided) == (Verdict.REFUSED, form, ())
    (finding,) = model.findings
    assert (finding.code, finding.path) == said
    assert (finding.file, finding.subject) == (str(tmp_path / "model.onnx"), f"{node.operator}_0")
    assert finding.code != "DML201" or finding.level == FeatureLevel.LEVEL_4_1


def test_strings(tmp_path: Path) -> None:
    model = checked(tmp_path, _one("Gather", "string[4,2]"))
    node = only(model)
    assert (node.verdict, node.lowest, node.inputs[0].type) == (Verdict.REFUSED, None, "string")
    assert [finding.code for finding in model.findings] == ["EXP103"]


def _sliced(data: str, start: int, end: int) -> str:
    return f"agraph ({data} X) => (float Z) <int64[1] s = {{{start}}}, int64[1] e = {{{end}}}> {{ Z = Slice(X, s, e) }}"


def _blocks(operator: str) -> str:
    return f"agraph (float[N,C,?,W] X) => (float Z) {{ Z = {operator}<blocksize = 3>(X) }}"


PROVIDED = {
    "the whole axis": (_sliced("float[N,4]", 0, 2**63 - 1), ("N >= 1",)),
    "from the 66th on": (_sliced("float[N,4]", 65, 2**63 - 1), ("N >= 66",)),
    "a size without a name": (_sliced("float[?,4]", 65, 2**63 - 1), ("X[0] >= 66",)),
    "the last 64": (_sliced("float[N,4]", -64, 2**63 - 1), ("N >= 1",)),
    "between": (_sliced("float[N,M]", 3, -3), ("N >= 7", "M >= 1")),
    "from the back to the front": (_sliced("float[N,4]", -5, 3), ("1 <= N <= 7",)),
    "one name twice": (_sliced("float[N,N]", 3, 2**63 - 1), ("N >= 4",)),
    "elements whose indices are at most as large as data off the axis": (
        "agraph (float[N,4] X, int64[M,2] i) => (float Z) { Z = GatherElements<axis = 1>(X, i) }",
        ("N >= 1", "M >= 1"),
    ),
    "batches that are equal": (
        "agraph (float[A,B,9] X, int64[C,4,2] i) => (float Z) { Z = GatherND<batch_dims = 1>(X, i) }",
        ("A >= 1", "B >= 1", "C >= 1"),
    ),
    "blocks of depth": (_blocks("DepthToSpace"), ("N >= 1", "C >= 9", "X[2] >= 1", "W >= 1")),
    "blocks of space": (_blocks("SpaceToDepth"), ("N >= 1", "C >= 1", "X[2] >= 3", "W >= 3")),
}


@pytest.mark.parametrize(("text", "provided"), PROVIDED.values(), ids=PROVIDED)
def test_sizes_that_are_not_known(tmp_path: Path, text: str, provided: tuple[str, ...]) -> None:
    node = only(checked(tmp_path, text))
    assert (node.verdict, node.provided) == (Verdict.TAKEN, provided)


def test_indices_larger_than_data_of_every_size_break_a_rule(tmp_path: Path) -> None:
    text = "agraph (float[N,4] X, int64[N,2] i) => (float Z) { j = Concat<axis = 0>(i, i) Z = GatherElements<axis = 1>(X, j) }"
    (finding,) = checked(tmp_path, text).findings
    assert finding.code == "EXP101"  # not EXP102, although N = 0 obeys the rule
    assert "indices has size 2 and data has size 1 in dimension 0" in finding.got


def test_a_refusal_says_with_which_sizes(tmp_path: Path) -> None:
    """Six dimensions that are indexed in two places fit into 4 only where some are 1."""
    text = "agraph (float[A,B,C,D,E] X) => (float Z) <int64[5] s = {1,1,1,1,1}, int64[5] e = {3,3,3,3,3}> { Z = Slice(X, s, e) }"
    assert only(checked(tmp_path, text, "1_0")).verdict is Verdict.TAKEN  # five dimensions
    text = "agraph (float[A,2,B] X, int64[2,C,3,D] i) => (float Z) { Z = GatherElements<axis = 1>(X, i) }"
    model = checked(tmp_path, text)
    assert [finding.code for finding in model.findings] == ["EXP101"]  # of another rank
    text = "agraph (float[A,B,C] X, int64[A,D,2] i) => (float Z) { Z = GatherND<batch_dims = 1>(X, i) }"
    model = checked(tmp_path, text, "2_1")
    (finding,) = model.findings
    assert finding.got.endswith("(with A = 2, B = 2, C = 2, D = 2)")
    assert only(model).lowest == DirectMLForm(level=FeatureLevel.LEVEL_3_0, operators=("GATHER_ND1",))


_BOUND = "<int64[1] b = {0}> { Y = com.example.What(X) e = Shape(m) Z = Slice(Y, b, e) }"
UNKNOWN = {
    "rank": ("(float[4] X, int64[1] i) => (float Z) { Y = com.example.What(X) Z = Gather(Y, i) }", "data", "computed"),
    "rank of indices": ("(float[4] X) => (float Z) { Y = com.example.What(X) Z = Gather(X, Y) }", "indices", "com.example"),
    "rank of blocks": (
        "(float X) => (float Z) { Y = com.example.What(X) Z = SpaceToDepth<blocksize = 2>(Y) }",
        "data",
        "computed",
    ),
    "rank beside a bound of a shape": (f"(float[4] X, float[N] m) => (float Z) {_BOUND}", "data", "computed"),
    "type alone beside a bound of a shape": (f"(float[4] X, float[N] m) => (float[A,B] Z) {_BOUND}", "data", "?[Y[0],Y[1]]"),
    "tuple length": ("(float[4] X, int64[3,N] i) => (float Z) { Z = GatherND(X, i) }", "indices", "int64[3,N]"),
}


@pytest.mark.parametrize(("text", "missing", "says"), UNKNOWN.values(), ids=UNKNOWN)
def test_types_that_are_not_known(tmp_path: Path, text: str, missing: str, says: str) -> None:
    model = checked(tmp_path, f'<ir_version: 9, opset_import: ["" : 17, "com.example" : 1]> agraph {text}')
    node = only(model)
    assert (node.verdict, node.missing, node.lowest) == (Verdict.UNKNOWN, (missing,), None)
    (finding,) = model.findings
    code = "EXP302" if "GatherND" in text else "EXP301"
    assert (finding.code, finding.severity, finding.path) == (code, "warning", missing)
    assert says in finding.got


def test_everything_that_is_missing_is_said(tmp_path: Path) -> None:
    text = "agraph (float[4] X, int64[1] s, int64[1] e, int64[1] t) => (float Z) { Y = Foo(X) Z = Slice(Y, s, e, , t) }"
    model = checked(tmp_path, text)
    assert only(model).missing == ("data", "starts", "ends", "steps")


ILL_FORMED = {
    "axis": ("Z = Gather<axis = 2>(X, i)", "axis is 2, but data has rank 2: expected -2 … 1"),
    "axis of elements": ("Z = GatherElements<axis = -3>(X, j)", "axis is -3"),
    "attribute": ("Z = Gather<batch_dims = 1>(X, i)", "'batch_dims'"),
    "attribute type": ('Z = Gather<axis = "one">(X, i)', "axis"),
    "inputs": ("Z = Gather(X)", "1 input"),
    "index type": ("Z = Gather(X, X)", "indices has type float, but Gather-13 takes int32, int64"),
    "repeated axes": ("a = Constant<value_ints = [0, 0]>() Z = Slice(X, p, p, a)", "more than once"),
    "step": ("z = Constant<value_ints = [0]>() Z = Slice(X, s, e, z, z)", "a step cannot be 0"),
    "lengths": ("Z = Slice(X, s, p)", "expected equally many"),
    "scalar bounds": ("n = Constant<value_int = 3>() Z = Slice(X, n, n)", "takes one dimension"),
    "types of bounds": ("q = Cast<to = 6>(e) Z = Slice(X, s, q)", "different types"),
    "batch": ("Z = GatherND<batch_dims = 3>(X, j)", "batch_dims"),
    "batch sizes": ("Z = GatherND<batch_dims = 1>(X, k)", "batch"),
    "rank": ("Z = GatherElements(X, i)", "rank"),
    "sizes": ("Z = GatherElements(X, k)", "indices"),
}


@pytest.mark.parametrize(("node", "says"), ILL_FORMED.values(), ids=ILL_FORMED)
def test_ill_formed_nodes(tmp_path: Path, node: str, says: str) -> None:
    inputs = "float[4,2] X, int64[3] i, int64[2,2] j, int64[3,3] k"
    constants = "int64[1] s = {1}, int64[1] e = {3}, int64[2] p = {1,1}"
    model = checked(tmp_path, f"agraph ({inputs}) => (float Z) <{constants}> {{ {node} }}")
    assert (only(model).verdict, only(model).lowest, only(model).taken) == (Verdict.REFUSED, None, None)
    (finding,) = model.findings
    assert (finding.code, finding.severity) == ("EXP101", "error")
    assert says in finding.got


def test_unknown_sizes_do_not_make_a_node_ill_formed(tmp_path: Path) -> None:
    """Any of these sizes alone could be one that the operator takes; all together none are."""
    fine = "agraph (float[4,N] X, int64[M,9] k) => (float Z) { Z = GatherElements(X, k) }"
    assert only(checked(tmp_path, fine)).verdict is Verdict.TAKEN
    wrong = "agraph (float[4,8] X, int64[M,9] k) => (float Z) { Z = GatherElements(X, k) }"
    model = checked(tmp_path, wrong)
    assert [finding.code for finding in model.findings] == ["EXP101"]


def test_data_that_is_no_tensor(tmp_path: Path) -> None:
    model = parsed("agraph (float[4] X, int64[1] i) => (float Z) { Z = Gather(X, i) }")
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [4])
    model.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(tensor))
    found = checked(tmp_path, model)
    assert [finding.code for finding in found.findings] == ["EXP101"]
    assert "data is a sequence, not a tensor" in found.findings[0].got


def test_types_that_the_version_does_not_list(tmp_path: Path) -> None:
    head = '<ir_version: 9, opset_import: ["" : 12]>'
    model = checked(tmp_path, f"{head} agraph (bfloat16[4] X, int64[1] i) => (bfloat16 Z) {{ Z = Gather(X, i) }}")
    (finding,) = model.findings
    assert finding.code == "EXP101"
    assert "bfloat16" in finding.got
