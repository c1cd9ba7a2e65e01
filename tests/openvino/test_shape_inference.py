"""IR files: what ports state beside what follows from the layers before them, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlgather.dialects.checked_model import Verdict
from tests.openvino.ir import (
    CONST,
    DATA,
    EDGES,
    GATHER,
    INDICES,
    PAGE,
    checked,
    inferred,
    layer,
    net,
    one_gather,
    only,
    write,
)


def stated(role: str, port: str) -> str:
    """The one Gather of GOOD with another text at one of its own ports."""
    ports = {"data": "FP32 5,2", "indices": "I64 3", "axis": "I64 ", "output": "FP32 3,2"} | {role: port}
    data, indices, axis, output = ports.values()
    gather = layer(3, "Gather", {0: data, 1: indices, 2: axis}, {3: output}, 'batch_dims="0"')
    return net(DATA + INDICES + CONST + gather, EDGES)


PORTS = {
    "another size": ("data", "FP32 9,2", "expected f32[5,2], the type of 'Parameter_0'", "got f32[9,2]"),
    "another type": ("data", "STRING 5,2", "expected f32[5,2], the type of 'Parameter_0'", "got string[5,2]"),
    "another rank": ("indices", "I64 3,1", "expected i64[3], the type of 'Parameter_1'", "got i64[3,1]"),
    "a vector for a scalar": ("axis", "I64 2", "expected i64[], the type of 'Const_2'", "got i64[2]"),
}


@pytest.mark.parametrize("case", PORTS)
def test_what_is_joined_to_a_port_counts_for_more(tmp_path: Path, case: str) -> None:
    role, port, expected, got = PORTS[case]
    path = write(tmp_path, stated(role, port))
    found = checked(path)
    assert found.nodes[0].verdict is Verdict.TAKEN
    contradiction, difference = found.findings
    assert (contradiction.code, contradiction.severity, contradiction.path) == ("EXP303", "warning", role)
    assert expected in str(contradiction)
    assert got in str(contradiction)
    assert difference.code == "EXP201"
    gather = inferred(path)
    shapes = [tuple(gather.input_value(at).get_partial_shape().get_shape()) for at in range(3)]
    assert [one.shape for one in found.nodes[0].inputs] == shapes
    assert found.nodes[0].outputs[0].shape == tuple(gather.output(0).get_shape())


@pytest.mark.parametrize("port", ["FP32 5,2", "FP32 -1,2", "FP32 ", " 5,2", " "])
def test_ports_that_state_less_contradict_nothing(tmp_path: Path, port: str) -> None:
    found = checked(write(tmp_path, stated("data", port)))
    assert [finding.code for finding in found.findings] == ["EXP201"]
    assert found.nodes[0].inputs[0].shape == (5, 2)


@pytest.mark.parametrize("port", ["FP32 4,2", "FP32 3,2,1", "FP16 3,2", "FP32 5"])
def test_an_output_port_that_the_inputs_contradict_is_an_error(tmp_path: Path, port: str) -> None:
    path = write(tmp_path, stated("output", port))
    found = checked(path)
    (node,), (finding,) = found.nodes, found.findings
    assert (finding.code, finding.severity, finding.path) == ("EXP101", "error", "output")
    assert finding.expected.startswith("f32[3,2], which follows from the inputs")
    names = {"FP32": "f32", "FP16": "f16"}
    assert finding.got.startswith(f"{names[port[:4]]}[{port[5:]}], which the output port has")
    gather = inferred(path)
    assert (node.verdict, node.outputs[0].type, node.outputs[0].shape) == (Verdict.REFUSED, "f32", tuple(gather.output(0).shape))


@pytest.mark.parametrize("port", ["FP32 -1,2", "FP32 ", " 3,2", " "])
def test_an_output_is_what_follows_from_the_inputs(tmp_path: Path, port: str) -> None:
    node = only(write(tmp_path, stated("output", port)))
    assert (node.verdict, node.outputs[0].type, node.outputs[0].shape) == (Verdict.TAKEN, "f32", (3, 2))


def test_a_scalar_output_is_known_where_the_inputs_are(tmp_path: Path) -> None:
    assert only(write(tmp_path, one_gather("FP32 5", "I64 ", "FP32 "))).outputs[0].shape == ()


def test_batches_are_as_large_as_either_input_says(tmp_path: Path) -> None:
    text = one_gather("FP32 -1,7,2", "I64 3,4", "FP32 ", 'batch_dims="-1"')
    assert only(write(tmp_path, text, (1).to_bytes(8, "little"))).outputs[0].shape == (3, 4, 2)
    wrong = one_gather("FP32 -1,7,2", "I64 3,4", "FP32 2,4,2", 'batch_dims="1"')
    assert checked(write(tmp_path, wrong, (1).to_bytes(8, "little"))).findings[0].got.startswith("f32[2,4,2]")


def test_a_gather_of_an_extension_is_counted(tmp_path: Path) -> None:
    other = GATHER.replace('id="3" name', 'id="4" name', 1).replace('version="opset8"', 'version="extension"')
    found = checked(write(tmp_path, net(DATA + INDICES + CONST + GATHER + other, EDGES)))
    assert [node.verdict for node in found.nodes] == [Verdict.TAKEN]
    assert found.others == {"Const": 1, "Parameter": 2, "extension.Gather": 1}


@pytest.mark.parametrize("stated_batches", ["1", "-9", "junk"])
def test_gather_1_has_no_batch_dims(tmp_path: Path, stated_batches: str) -> None:
    """OpenVINO reads such a file and looks at no attribute there."""
    path = write(tmp_path, one_gather("FP32 5,2", "I64 3", "FP32 3,2", f'batch_dims="{stated_batches}"', version="opset1"))
    node = only(path)
    gather = inferred(path)
    assert (node.verdict, node.attributes, node.outputs[0].shape) == (Verdict.TAKEN, {}, tuple(gather.output(0).shape))


def test_sizes_that_play_no_part_are_not_told(tmp_path: Path) -> None:
    found = checked(write(tmp_path, one_gather("FP32 -1,2", "I64 -1", "FP32 -1,2"), (7).to_bytes(8, "little")))
    assert found.findings[0].got == "axis is 7, but data has rank 2: expected -2 … 1"


def test_remedies_ask_for_what_is_missing_alone(tmp_path: Path) -> None:
    data, _, axis = checked(write(tmp_path, PAGE, None)).findings
    assert (data.expected, data.remedy) == ("a data type", "add its precision")
    assert axis.remedy == "check the whole IR, or make it a constant of the model"
    found = checked(write(tmp_path, one_gather("FP32 5,2", "I64 ...", "FP32 ").replace("<dim>...</dim>", "")))
    assert (found.findings[0].expected, "precision" in found.findings[0].remedy) == ("a number of dimensions", False)
