"""ONNX nodes that DirectML cannot take: each reason with all its facts; and how a caller states a node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import dmlgather as dg
from tests.dialects.binding import facts, only
from tests.onnx.described import array, blocks, check, described, elementwise, gather, nd, positions, sliced, tuples
from tests.onnx.specification import Call

SLICE = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
BYTES = ("uint8", "int64")
BOUNDS = {"s": [1], "e": np.array([3]), "a": [0], "t": (1,)}


def refusal(call: Call, level: str) -> dg.Finding:
    report = described(call, level)
    assert isinstance(report, dg.Report)
    assert report.subject.startswith(f"ONNX {call.operator}-")
    return only(report)


def stated(operator: str, shapes: Any, dtypes: Any, level: str = "6_4", **attributes: Any) -> Any:
    """What `to_directml` returns for a node of two inputs, of which there need not be arrays."""
    return dg.onnx.to_directml(helper.make_node(operator, ["x", "i"], ["y"], **attributes), shapes, dtypes, level)


@pytest.mark.parametrize(
    ("case", "path", "got"),
    [
        (gather(np.zeros((0, 3), "f4"), positions(3, 2), 1), "data.shape[0]", "0 in [0, 3]"),
        (gather(np.zeros((4, 3), "f4"), np.zeros((2, 0), "i8"), 1), "indices.shape[1]", "0 in [2, 0]"),
        (sliced(np.zeros((4, 3), "f4"), starts=[2], ends=[2]), "output.shape[0]", "0 in [0, 3]"),
        (nd(np.zeros((2, 0), "f4"), np.zeros((3, 0), "i8")), "data.shape[1]", "0 in [2, 0]"),
    ],
    ids=["data", "indices", "output", "empty tuples"],
)
def test_an_empty_tensor_is_refused(case: Call, path: str, got: str) -> None:
    assert facts(refusal(case, "6_4")) == ("EXP102", path, "at least 1", got, None)
    assert "leave the node out" in refusal(case, "6_4").remedy


@pytest.mark.parametrize("kind", ["O", "U4", "S4", "T"])
def test_strings_are_refused(kind: str) -> None:
    finding = only(stated("Gather", [(3,), (2,)], [np.dtype(kind), "int64"]))
    assert facts(finding) == ("EXP103", "data", "numbers or bool", "strings", None)


def test_everything_that_stands_against_a_node_is_said_at_once() -> None:
    report = stated("Gather", [(3, 0), (0,)], [TensorProto.STRING, "int64"], "1_0")
    assert isinstance(report, dg.Report)
    found = [(finding.code, finding.path) for finding in report.findings]
    assert found == [("EXP103", "data"), ("EXP102", "data.shape[1]"), ("EXP102", "indices.shape[0]")]


def test_tuples_of_more_components_than_dimensions_are_refused() -> None:
    case = nd(array("float32", *[2] * 9), tuples((3,), *[2] * 9))
    expected = "at most 8 dimensions after merging adjacent dimensions (GATHER_ND1 at level 6_4)"
    assert facts(refusal(case, "6_4")) == ("EXP104", "data.shape", expected, "9: {2,2,2,2,2,2,2,2,2}", None)
    case = nd(array("float32", *[2] * 6), tuples((3,), *[2] * 4))
    expected = "at most 4 dimensions after merging adjacent dimensions (GATHER_ND at level 2_1)"
    assert facts(refusal(case, "2_1")) == ("EXP104", "data.shape", expected, "5: {2,2,2,2,4}", "3_0")
    assert refusal(case, "2_1").remedy.startswith("use feature level 3_0 or newer, or reshape the dimensions")
    check(case, "3_0")


@pytest.mark.parametrize(("missing", "role"), [("s", "starts"), ("e", "ends"), ("a", "axes"), ("t", "steps")])
def test_bounds_computed_at_run_time_are_refused(missing: str, role: str) -> None:
    constants = {name: value for name, value in BOUNDS.items() if name != missing}
    finding = only(dg.onnx.to_directml(SLICE, [(5, 2)], ["float32"], constants=constants))
    got = f"{missing!r}, which is none of the constants"
    assert facts(finding) == ("EXP105", role, "values that are known when the node is described", got, None)
    assert f"constants={{{missing!r}: …}}" in finding.remedy


def test_a_reference_to_a_function_attribute_is_refused() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    node.attribute.add(name="axis", ref_attr_name="where", type=2)
    finding = only(dg.onnx.to_directml(node, [(5, 2), (3,)], ["float32", "int64"]))
    assert facts(finding)[:2] == ("EXP105", "axis")
    assert finding.got == "'where', an attribute of the function around it"


def test_walking_backwards_needs_slice1() -> None:
    case = sliced(array("float32", 4, 5), starts=[-1], ends=[-9], axes=[1], steps=[-2])
    for level in ("1_0", "2_0"):
        expected = f"positive steps, as SLICE takes them at level {level}"
        assert facts(refusal(case, level)) == ("EXP106", "steps", expected, "{1,-2} for the dimensions of data", "2_1")
        assert refusal(case, level).remedy == "use feature level 2_1 or newer, or gather the positions in the order of the steps"
    check(case, "2_1")


@pytest.mark.parametrize(
    ("case", "operator"),
    [
        (elementwise(array("float32", 4), positions(4, 2)), "GATHER_ELEMENTS"),
        (nd(array("float32", 4), tuples((2,), 4)), "GATHER_ND"),
        (blocks("DepthToSpace", array("float32", 1, 4, 2, 2)), "DEPTH_TO_SPACE1"),
        (blocks("SpaceToDepth", array("float32", 1, 4, 2, 2)), "SPACE_TO_DEPTH1"),
    ],
    ids=["GatherElements", "GatherND", "DepthToSpace", "SpaceToDepth"],
)
def test_before_2_1_there_is_no_operator(case: Call, operator: str) -> None:
    for level in ("1_0", "2_0"):
        expected = f"{operator}, which feature level 2_1 introduced"
        assert facts(refusal(case, level)) == ("EXP106", "", expected, f"feature level {level}", "2_1")
    check(case, "2_1")


@pytest.mark.parametrize(
    ("case", "code", "below"),
    [
        (elementwise(array("int64", 4), positions(4, 2)), "EXP106", "2_0"),
        (sliced(array("float64", 4, 5), starts=[-1], ends=[-9], axes=[1], steps=[-2]), "EXP106", "2_0"),
        (blocks("DepthToSpace", array("uint64", 1, 4, 2, 2)), "EXP106", "2_0"),
        (nd(array("int64", 2, 3, 4, 5), tuples((2, 6), 3, 4), 1), "EXP106", "2_1"),
        (nd(array("float64", *[2] * 6), tuples((3,), *[2] * 4)), "EXP104", "2_1"),
    ],
)
def test_the_level_named_is_the_first_that_takes_all_of_a_node(case: Call, code: str, below: str) -> None:
    """The operator came before the levels that take 64 bits with it; what validates at each level is the judge."""
    finding = refusal(case, below)
    assert finding.code == code
    for level in dg.FeatureLevel:
        assert isinstance(described(case, str(level)), dg.Report) == (level < dg.FeatureLevel.LEVEL_4_1)
    check(case, "4_1")
    assert str(finding.level) == "4_1"
    assert finding.remedy.startswith("use feature level 4_1 or newer")


def test_no_level_is_named_where_none_takes_a_node() -> None:
    finding = refusal(nd(array("float32", *[2] * 9), tuples((3,), *[2] * 9)), "1_0")
    assert facts(finding) == ("EXP106", "", "GATHER_ND, which feature level 2_1 introduced", "feature level 1_0", None)
    assert "use feature level" not in finding.remedy
    assert finding.remedy.startswith("reshape the dimensions that a tuple indexes into one dimension")
    assert finding.remedy.endswith("; no feature level takes it as it is")


def test_the_operator_named_is_the_one_that_the_level_named_uses() -> None:
    """Batches of tuples of one component are GATHER_ELEMENTS at 2_1, and no GATHER_ND."""
    case = nd(array("float32", 2, 6, 16), tuples((2, 3), 6), 1)
    finding = refusal(case, "1_0")
    assert facts(finding) == ("EXP106", "", "GATHER_ELEMENTS, which feature level 2_1 introduced", "feature level 1_0", "2_1")
    assert isinstance(described(case, "2_1"), dg.GatherElementsOperatorDesc)


def test_batches_of_tuples_need_gather_nd1() -> None:
    case = nd(array("float32", 2, 3, 4, 5), tuples((2, 6), 3, 4), 1)
    expected = "1 batch, because level 2_1 has no BatchDimensionCount; or tuples of 1 component in 1 dimension"
    got = "2 batches, 2 components, 1 dimension"
    assert facts(refusal(case, "2_1")) == ("EXP106", "batch_dims", expected, got, "3_0")
    check(case, "3_0")


def test_a_tensor_over_the_element_limit_is_refused() -> None:
    for shape, index, path, got in (
        ((2**16, 2**16), (3,), "data.shape", "4294967296 from the first to the last of {65536,65536}"),
        ((2**40,), (3,), "data.shape", "1099511627776 from the first to the last of {1099511627776}"),
        ((4, 2**20), (2**12,), "output.shape", "4294967296 from the first to the last of {4096,1048576}"),
        ((2,) * 33, (1,), "data.shape", "8589934592 from the first to the last of {2,4294967296}"),
    ):
        finding = only(stated("Gather", [shape, index], BYTES))
        assert facts(finding) == ("EXP107", path, "at most 4294967295 elements", got, None)
    assert isinstance(stated("Gather", [(2**16, 2**16 - 1), (1,)], BYTES), dg.GatherOperatorDesc)
    # Only the part within reach is described.
    assert isinstance(stated("GatherElements", [(2**20, 2**13), (1, 5)], BYTES, axis=1), dg.GatherElementsOperatorDesc)


def test_steps_beyond_32_bits_that_reach_two_elements() -> None:
    bounds = {"s": [0], "e": [2**63 - 1], "a": [0], "t": [2**31]}
    found = dg.onnx.to_directml(SLICE, [(2**32 - 1,)], ["uint8"], constants=bounds)
    assert isinstance(found, dg.SliceOperatorDesc)
    assert (found.offsets, found.sizes, found.strides) == ((0,), (2,), (2**31,))
    assert dg.validate(found).ok
    back = {"s": [-1], "e": [-(2**63)], "a": [0], "t": [-(2**31)]}
    found = dg.onnx.to_directml(SLICE, [(2**32 - 1,)], ["uint8"], constants=back)
    assert isinstance(found, dg.Slice1OperatorDesc)
    assert dg.validate(found).ok
    finding = only(dg.onnx.to_directml(SLICE, [(2**32 - 1,)], ["uint8"], constants=back | {"t": [-(2**31) - 1]}))
    expected = "steps of 32 bits, as SLICE1 takes them"
    assert facts(finding) == ("EXP106", "steps", expected, "{-2147483649} for the dimensions of data", None)


@pytest.mark.parametrize("shape", [None, (3, "N"), (3, None), (3, -1), (3, 2.0), 3], ids=str)
def test_a_size_that_is_not_known_is_refused(shape: Any) -> None:
    finding = only(stated("Gather", {"x": shape, "i": (2,)}, {"x": "float32", "i": "int64"}))
    got = f"'x' with shape {'not stated' if shape is None else shape}, type float32"
    expected = "a size of at least 0 for each dimension, and a type"
    assert facts(finding) == ("EXP108", "data", expected, got, None)


@pytest.mark.parametrize("dtype", [None, 0])
def test_a_type_that_is_not_known_is_refused(dtype: Any) -> None:
    finding = only(stated("Gather", [(3,), (2,)], ["float32", dtype]))
    assert (finding.code, finding.path) == ("EXP108", "indices")
    assert f"'i' with shape (2,), type {'not stated' if dtype is None else dtype}" == finding.got


BROKEN: dict[str, tuple[str, Any]] = {
    "axis is 2, but data has rank 2: expected -2 … 1": ("Gather-13", {"axis": 2}),
    "indices has type int16, but Gather-11 takes int32, int64": ("Gather-11", {"dtypes": ["float32", "int16"], "opset": 12}),
    "opset is 10, but GatherND exists from opset 11 on": ("GatherND", {"opset": 10}),
}


@pytest.mark.parametrize("got", BROKEN)
def test_a_node_that_breaks_a_rule_is_a_finding(got: str) -> None:
    subject, changes = BROKEN[got]
    given = {"dtypes": ["float32", "int64"], "opset": 13} | changes
    dtypes, opset = (given.pop(name) for name in ("dtypes", "opset"))
    made = helper.make_node(subject.split("-")[0], ["x", "i"], ["y"], **given)
    report = dg.onnx.to_directml(made, [(3, 2), (2,)], dtypes, "3_0", opset=opset)
    assert isinstance(report, dg.Report)
    assert report.subject == f"ONNX {subject}"
    finding = only(report)
    assert facts(finding)[:3] == ("EXP101", "", f"a node that {subject} allows")
    assert finding.got.startswith(got)


@pytest.mark.parametrize(("operator", "domain"), [("Conv", ""), ("Gather", "com.example")])
def test_a_node_outside_the_family_is_a_finding(operator: str, domain: str) -> None:
    finding = only(stated(operator, [(3, 2), (2,)], ["float32", "int64"], domain=domain))
    expected = "Gather, GatherElements, GatherND, Slice, DepthToSpace or SpaceToDepth of ONNX's own operators"
    assert facts(finding) == ("EXP109", "", expected, f"{operator} of domain {domain!r}", None)


@pytest.mark.parametrize(
    ("kind", "level", "accepting"),
    [
        ("int8", "1_0", "2_1"),
        ("bool", "2_0", "2_1"),
        ("int64", "3_0", "4_1"),
        ("float64", "2_1", "4_1"),
        ("complex64", "3_0", "4_1"),
    ],
)
def test_a_type_that_a_level_lacks_is_the_validators_finding(kind: str, level: str, accepting: str) -> None:
    for case in (gather(array(kind, 3, 2), positions(3, 2), 0), sliced(array(kind, 3, 2), starts=[1], ends=[3])):
        report = described(case, level)
        assert isinstance(report, dg.Report)
        assert report.subject.startswith("DML_OPERATOR_")
        found = [(finding.code, finding.path, str(finding.level)) for finding in report.findings]
        assert found == [("DML201", "InputTensor.DataType", accepting), ("DML201", "OutputTensor.DataType", accepting)]
        check(case, accepting)
