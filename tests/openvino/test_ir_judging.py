"""IR files: every Gather is found and judged with what the file says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.dialects.checked_model import CheckedNode, Verdict
from tests.openvino.ir import (
    CONST,
    DATA,
    EDGES,
    GATHER,
    GOOD,
    INDICES,
    PAGE,
    checked,
    edge,
    layer,
    net,
    one_gather,
    only,
    opset8,
    parameter,
    save,
    three_gathers,
    write,
)
from tests.openvino.runtime import openvino


def routes(node: CheckedNode) -> tuple[Any, ...]:
    return node.verdict, node.taken and node.taken.operators, node.lowest and str(node.lowest.level)


def test_three_gathers_as_openvino_writes_them(tmp_path: Path) -> None:
    found = checked(three_gathers(tmp_path))
    newest, middle, oldest = sorted(found.nodes, key=lambda node: -(node.version or 0))
    assert [(node.name, node.opset, node.version) for node in (newest, middle, oldest)] == [
        ("newest", 8, 8),
        ("middle", 7, 7),
        ("oldest", 1, 1),
    ]
    assert [(one.role, one.name, one.type, one.shape, one.values) for one in newest.inputs] == [
        ("data", "table", "f32", (2, 3, 5, 4), None),
        ("indices", "tokens", "i64", (2, None), None),
        ("axis", newest.inputs[2].name, "i64", (), (2,)),
    ]
    assert (newest.attributes, newest.outputs[0].shape) == ({"batch_dims": 1}, (2, 3, None, 4))
    assert (middle.inputs[2].values, oldest.inputs[2].values) == ((1,), (-2,))
    assert routes(newest) == (Verdict.TAKEN, ("GATHER_ELEMENTS",), "2_1")
    assert newest.provided == ("tokens[1] >= 1",)
    assert routes(middle) == routes(oldest) == (Verdict.TAKEN, ("GATHER",), "1_0")
    assert found.others == {"Const": 3, "Convert": 1, "Parameter": 4, "Result": 2}
    assert (found.format, found.opsets) == (11, {})
    codes = {name: [one.code for one in found.findings if one.subject == name] for name in ("newest", "middle", "oldest")}
    assert codes == {"newest": ["EXP201"], "middle": ["EXP201", "EXP202"], "oldest": ["EXP201", "EXP202"]}
    lines = (tmp_path / "model.xml").read_text().splitlines()
    for finding in found.findings:
        assert finding.line is not None
        assert f'name="{finding.subject}" type="Gather"' in lines[finding.line - 1]


@pytest.mark.parametrize(
    ("level", "verdicts"),
    [("1_0", "rtt"), ("2_0", "rtt"), ("2_1", "ttt"), ("3_0", "ttt"), ("6_4", "ttt")],
)
def test_levels(tmp_path: Path, level: str, verdicts: str) -> None:
    found = checked(three_gathers(tmp_path), level)
    newest_first = sorted(found.nodes, key=lambda node: -(node.version or 0))
    assert "".join(node.verdict[0] for node in newest_first) == verdicts
    assert [finding.code for finding in found.findings if finding.severity == "error"] == ["EXP106"] * verdicts.count("r")


def test_the_page_s_layer_is_read_and_its_axis_is_unknown(tmp_path: Path) -> None:
    for text in (PAGE, PAGE.replace("...", 'id="7" name="rows"')):
        found = checked(write(tmp_path, text, None))
        (node,) = found.nodes
        assert node.verdict is Verdict.UNKNOWN
        assert node.missing == ("data", "indices", "axis")
        assert [finding.code for finding in found.findings] == ["EXP301", "EXP301", "EXP302"]
        assert found.findings[2].got == "'axis', connected to no layer"
        assert (node.version, node.attributes) == (8, {"batch_dims": 1})
        assert [one.shape for one in node.inputs] == [(2, 64, 128), (2, 32, 21), None]
        assert node.place == ("rows" if "rows" in text else "Gather_0")


def test_a_layer_with_precisions_lacks_its_axis_alone(tmp_path: Path) -> None:
    node = only(write(tmp_path, GATHER, None))
    assert (node.verdict, node.missing) == (Verdict.UNKNOWN, ("axis",))


def test_an_axis_that_is_a_parameter_is_unknown(tmp_path: Path) -> None:
    data, indices = parameter("data", [5, 2], np.float32), parameter("indices", [3], np.int64)
    axis = parameter("axis", [], np.int64)
    found = checked(save(tmp_path, [opset8.gather(data, indices, axis)], [data, indices, axis]))
    assert [(finding.code, finding.path, finding.got) for finding in found.findings] == [
        ("EXP302", "axis", "'axis', an input of the graph")
    ]


def test_an_axis_that_is_computed_is_unknown(tmp_path: Path) -> None:
    data, indices = parameter("data", [5, 2], np.float32), parameter("indices", [3], np.int64)
    number = parameter("number", [], np.int64)
    axis = opset8.negative(number)
    found = checked(save(tmp_path, [opset8.gather(data, indices, axis)], [data, indices, number]))
    assert found.findings[0].got.endswith("computed from 'number', an input of the graph")


def test_an_axis_that_a_layer_outside_of_arithmetic_computes_is_unknown(tmp_path: Path) -> None:
    data, indices = parameter("data", [5, 2], np.float32), parameter("indices", [3], np.int64)
    axis = opset8.convert(opset8.relu(opset8.reduce_max(data, opset8.constant(np.array([0, 1])))), "i64")
    found = checked(save(tmp_path, [opset8.gather(data, indices, axis)], [data, indices]))
    assert "computed when the model runs, by layer " in found.findings[0].got
    assert "(ReLU)" in found.findings[0].got


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"])
def test_axes_of_every_type_that_is_read(tmp_path: Path, kind: str) -> None:
    data, indices = parameter("data", [4, 5, 2], np.float32), parameter("indices", [3], np.int64)
    constant = opset8.constant(np.array([1]), dtype=getattr(openvino.Type, kind))
    axis = constant if kind[0] in "iu" else opset8.convert(constant, "i32")
    node = only(save(tmp_path, [opset8.gather(data, indices, axis)], [data, indices]))
    assert (node.verdict, node.inputs[2].values) == (Verdict.TAKEN, (1,))


def test_bodies_are_walked(tmp_path: Path) -> None:
    bodies = []
    inner = []
    for name in ("then", "else"):
        data, indices = parameter(f"{name}_data", [4, 3], np.float32), parameter(f"{name}_indices", [2], np.int32)
        gather = opset8.gather(data, indices, opset8.constant(0))
        gather.set_friendly_name("same")
        bodies.append(openvino.Model([gather], [data, indices], name))
        inner.append((data, indices))
    outer = [parameter("cond", [], bool), parameter("data", [4, 3], np.float32), parameter("indices", [2], np.int32)]
    branch = opset8.if_op(outer[0])
    branch.set_friendly_name("branch")
    branch.set_then_body(bodies[0])
    branch.set_else_body(bodies[1])
    for at in range(2):
        branch.set_input(outer[at + 1].output(0), inner[0][at], inner[1][at])
    branch.set_output(bodies[0].results[0], bodies[1].results[0])
    found = checked(save(tmp_path, [branch], outer))
    assert {(node.place, node.graph) for node in found.nodes} == {
        ("branch.then_body/same", "branch.then_body"),
        ("branch.else_body/same", "branch.else_body"),
    }
    assert {node.verdict for node in found.nodes} == {Verdict.TAKEN}
    assert found.others["If"] == 1


def test_names_that_are_not_unique_have_places_that_are(tmp_path: Path) -> None:
    twin = GATHER.replace('id="3" name', 'id="4" name', 1)
    edges = EDGES + edge(0, 0, 4, 0) + edge(1, 0, 4, 1) + edge(2, 0, 4, 2)
    found = checked(write(tmp_path, net(DATA + INDICES + CONST + GATHER + twin, edges)))
    assert [node.place for node in found.nodes] == ["Gather_3", "Gather_3#4"]


def test_names_are_printable(tmp_path: Path) -> None:
    node = only(write(tmp_path, GOOD.replace('name="Gather_3"', 'name="a&#10;b&#9;ü"')))
    assert node.place == r"a\nb\tü"


SCALARS: dict[str, tuple[str, str, str, tuple[Any, ...]]] = {
    "a parameter that is a scalar": ('shape=""', "FP32 5,2", "FP32 2", (Verdict.TAKEN, (), ())),
    "a parameter of unknown rank": ('shape="..."', "FP32 5", "FP32 ", (Verdict.TAKEN, (), ("indices are a scalar",))),
    "an output of known rank": ('shape="..."', "FP32 5,2", "FP32 2", (Verdict.TAKEN, (), ())),
    "nothing that tells": ('shape="..."', "FP32 5,2", "FP32 ", (Verdict.UNKNOWN, None, ())),
}


@pytest.mark.parametrize("case", SCALARS)
def test_ports_without_sizes_are_scalars_or_of_unknown_rank(tmp_path: Path, case: str) -> None:
    stated, data, output, expected = SCALARS[case]
    gather = layer(3, "Gather", {0: data, 1: "I64 ", 2: "I64 "}, {3: output}, 'batch_dims="0"')
    source = layer(0, "Parameter", None, {0: data}, f'shape="{data.split(" ")[1]}" element_type="f32"')
    indices = layer(1, "Parameter", None, {0: "I64 "}, f'{stated} element_type="i64"')
    node = only(write(tmp_path, net(source + indices + CONST + gather, EDGES)))
    assert (node.verdict, node.inputs[1].shape, node.provided) == expected


def test_types_come_from_the_producer_where_the_port_has_none(tmp_path: Path) -> None:
    without = GATHER.replace(' precision="FP32"', "").replace(' precision="I64"', "")
    bare = (DATA + INDICES).replace(' precision="FP32"', "")
    node = only(write(tmp_path, net(bare + CONST + without, EDGES)))
    assert [one.type for one in node.inputs] == ["f32", "i64", "i64"]


@pytest.mark.parametrize(
    ("precision", "got"), [("STRING", "strings"), ("U4", "u4, of which several share a byte"), ("NF4", "nf4, ")]
)
def test_elements_that_no_gather_moves(tmp_path: Path, precision: str, got: str) -> None:
    found = checked(write(tmp_path, GOOD.replace("FP32", precision).replace('"f32"', f'"{precision.lower()}"')))
    assert found.nodes[0].verdict is Verdict.REFUSED
    assert [(finding.code, finding.path) for finding in found.findings] == [("EXP103", "data")]
    assert found.findings[0].got.startswith(got)


@pytest.mark.parametrize("kind", ["BF16", "BOOL", "F8E4M3", "F8E5M2", "F8E8M0", "FP16", "FP64", "I8", "U16", "U64"])
def test_types_that_directml_holds_by_their_bits(tmp_path: Path, kind: str) -> None:
    assert only(write(tmp_path, one_gather(f"{kind} 5,2", "I64 3", f"{kind} 3,2"))).verdict is Verdict.TAKEN


@pytest.mark.parametrize("kind", ["UNSPECIFIED", "DYNAMIC"])
def test_types_that_are_not_known(tmp_path: Path, kind: str) -> None:
    found = checked(write(tmp_path, GOOD.replace("FP32", kind).replace('element_type="f32"', 'element_type="dynamic"')))
    assert (found.nodes[0].verdict, found.nodes[0].missing) == (Verdict.UNKNOWN, ("data",))


ILL_FORMED = {
    "an axis that data do not have": (GOOD, (2).to_bytes(8, "little"), "axis is 2, but data has rank 2: expected -2 … 1"),
    "batches beyond the axis": (GOOD.replace('batch_dims="0"', 'batch_dims="1"'), bytes(8), "batch_dims is 1, but axis"),
    "indices of floats": (one_gather("FP32 5,2", "FP16 3", "FP32 3,2"), bytes(8), "indices has type f16"),
    "a type that nobody knows": (one_gather("F99 5,2", "I64 3", "F99 3,2"), bytes(8), "data has type f99"),
    "an axis of two": (
        GOOD.replace('shape="" offset="0" size="8"', 'shape="2" offset="0" size="16"'),
        bytes(16),
        "axis has shape (2,)",
    ),
}


@pytest.mark.parametrize("case", ILL_FORMED)
def test_layers_that_openvino_refuses(tmp_path: Path, case: str) -> None:
    text, content, message = ILL_FORMED[case]
    found = checked(write(tmp_path, text, content))
    assert found.nodes[0].verdict is Verdict.REFUSED
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("EXP101", "error")
    assert message in finding.got


def test_unknown_batches_are_equal(tmp_path: Path) -> None:
    """-1 in one tensor and 3 in the other is 3; -1 in both is one size that is not known."""
    for sizes, provided in (("-1", ("Parameter_0[0] >= 1", "Parameter_1[0] >= 1")), ("3", ("Parameter_1[0] >= 1",))):
        text = one_gather(f"FP32 {sizes},7,2", "I64 -1,4", f"FP32 {sizes},4,2", 'batch_dims="1"')
        node = only(write(tmp_path, text, (1).to_bytes(8, "little")))
        assert (node.verdict, node.provided) == (Verdict.TAKEN, provided)
        assert node.taken is not None
        assert node.taken.operators == ("GATHER_ND1",)
        assert node.lowest is not None
        assert (str(node.lowest.level), node.lowest.operators) == ("2_1", ("GATHER_ELEMENTS",))


def test_an_axis_of_unknown_size_is_named_in_the_warning(tmp_path: Path) -> None:
    found = checked(write(tmp_path, one_gather("FP32 -1,2", "I64 3", "FP32 3,2")))
    assert found.findings[0].expected == "indices from -n to n - 1, n being the size of the axis"


def test_later_opsets_have_the_newest_gather_before_them(tmp_path: Path) -> None:
    for opset, version in ((1, 1), (3, 1), (7, 7), (8, 8), (16, 8)):
        text = GOOD.replace('type="Gather" version="opset8"', f'type="Gather" version="opset{opset}"')
        node = only(write(tmp_path, text))
        assert (node.opset, node.version) == (opset, version)
