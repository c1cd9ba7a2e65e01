"""Nodes with too few and too many inputs, of every operator of ONNX: what ONNX's own checker refuses, is a finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import AttributeProto, NodeProto, TensorProto, checker, defs, helper

import dmlgather as dg
from dmlgather.onnx.problems.node_reading import FAMILY
from tests.cli.command import Command
from tests.onnx_checking.modelling import checked

OPSETS = (7, 13, 21)
MOST = 6
"""Inputs that an operator of any number of them is given at most."""

_BODY = helper.make_graph(
    [helper.make_node("Constant", [], ["inner"], value=helper.make_tensor("one", TensorProto.FLOAT, [], [1]))],
    "body",
    [],
    [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [])],
)
_VALUES: dict[int, Any] = {
    AttributeProto.INT: 0,
    AttributeProto.INTS: [0],
    AttributeProto.FLOAT: 1.0,
    AttributeProto.FLOATS: [1.0],
    AttributeProto.STRING: "ij->ij",
    AttributeProto.STRINGS: ["x"],
    AttributeProto.TENSOR: helper.make_tensor("t", TensorProto.INT64, [1], [1]),
    AttributeProto.GRAPH: _BODY,
}
"""What the attributes hold that a node must have, by their kind."""


def schemas(opset: int) -> Iterator[Any]:
    """The versions of ONNX's own operators in force."""
    names = {schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == ""}
    for name in sorted(names):
        try:
            schema = defs.get_schema(name, opset, "")
        except defs.SchemaError:  # a later one
            continue
        if not schema.deprecated:
            yield schema


def node(schema: Any, count: int, *, lacks: str = "") -> NodeProto:
    """A node of an operator with so many inputs, and the attributes that it must have, but for one."""
    required = {name: each.type.value for name, each in schema.attributes.items() if each.required and name != lacks}
    given = {name: _VALUES[kind] for name, kind in required.items()}
    inputs, outputs = [f"x{at}" for at in range(count)], [f"y{at}" for at in range(max(schema.min_output, 1))]
    return helper.make_node(schema.name, inputs, outputs, f"{schema.name}_{count}", **given)


def refused_by_onnx(made: NodeProto, opset: int) -> bool:
    """Whether ONNX's checker refuses a node."""
    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {"": opset}
    try:
        checker.check_node(made, context)
    except checker.ValidationError:
        return True
    return False


def model(made: NodeProto, opset: int) -> onnx.ModelProto:
    """A model of one node."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [3]) for name in dict.fromkeys(made.input) if name]
    outputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [3]) for name in made.output]
    graph = helper.make_graph([made], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def counts(schema: Any) -> range:
    """Numbers of inputs: fewer and more than an operator takes."""
    return range(min(schema.max_input + 2, MOST))


@pytest.mark.parametrize("opset", OPSETS)
def test_a_node_that_onnx_refuses_has_a_finding(tmp_path: Path, opset: int) -> None:
    made = [node(schema, count) for schema in schemas(opset) for count in counts(schema)]
    for number, each in enumerate(made):
        each.output[:] = [f"{name}_{number}" for name in each.output]
    inputs = [helper.make_tensor_value_info(f"x{at}", TensorProto.INT64, [3]) for at in range(MOST)]
    graph = helper.make_graph(made, "g", inputs, [])
    every = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = {finding.subject: finding for finding in checked(tmp_path, every).findings if finding.code == "EXP101"}
    refused = [each for each in made if refused_by_onnx(each, opset)]
    for each in refused:
        assert each.name in found, each
        assert f"{each.op_type}-" in found[each.name].got
    assert len(refused) > 100


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Mod()", "the node has 0 inputs (), but Mod-13 takes 2: A, B"),
        ("Where(x)", "the node has 1 input (x), but Where-16 takes 3: condition, X, Y"),
        ("Concat <axis = 0> ()", "the node has 0 inputs (), but Concat-13 takes 1 or more: inputs"),
        ("Neg(x, x)", "the node has 2 inputs (x, x), but Neg-13 takes 1: X"),
        ("Where(x, none, x)", "the node has 2 inputs (x, , x), but Where-16 takes 3: condition, X, Y"),
        ("Cast(x)", "attribute to is missing: Cast-13 requires it"),
        ('Concat <axis = "0"> (x, x)', "attribute axis has type 3, but Concat-13 takes INT (2)"),
    ],
)
def test_a_finding_says_the_operator_and_its_inputs(tmp_path: Path, text: str, says: str) -> None:
    made = onnx.parser.parse_node(f"y = {text}")
    made.input[:] = ["" if name == "none" else name for name in made.input]
    assert refused_by_onnx(made, 17)
    assert says in " ".join(finding.got for finding in checked(tmp_path, model(made, 17)).findings)


@pytest.mark.parametrize("operator", FAMILY)
@pytest.mark.parametrize("outputs", [0, 3])
def test_outputs_are_counted_as_well(tmp_path: Path, operator: str, outputs: int) -> None:
    made = node(defs.get_schema(operator, 21, ""), defs.get_schema(operator, 21, "").min_input)
    made.output[:] = [f"y{number}" for number in range(outputs)]
    assert refused_by_onnx(made, 21)
    assert f"the node has {outputs} outputs, but {operator}-" in " ".join(
        each.got for each in checked(tmp_path, model(made, 21)).findings
    )
    with pytest.raises(ValueError, match=f"the node has {outputs} outputs, but {operator}-.* gives 1"):
        dg.onnx.Backend.prepare(model(made, 21))


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(capfd)


@pytest.mark.parametrize("subcommand", ["check", "explain"])
@pytest.mark.parametrize("operator", ["Mod", "Where", "CumSum"])
def test_commands_name_the_fault_and_no_internal_error(tmp_path: Path, command: Command, subcommand: str, operator: str) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model(node(defs.get_schema(operator, 17, ""), 1), 17), path)
    ended = command(subcommand, path)
    assert ended.code == 1
    assert f"the node has 1 input (x0), but {operator}-" in " ".join((ended.out + ended.err).split())
    assert "internal error" not in ended.err
