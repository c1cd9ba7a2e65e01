"""The table of kernels: onnxruntime's own CPU provider is asked, live, which data types it loads."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from dmlgather.directml.support import TABLE
from dmlgather.onnx.problems.operator_versions import EVERY_TYPE, VERSIONS
from dmlgather.onnx_checking.provider.kernels import ADAPTERS_TYPES, DIRECTML_TYPES, KERNELS, LEAST_LEVEL
from tests.onnx_checking.sessions import loads

TYPES = [name for opset, names in EVERY_TYPE.items() if opset <= 13 for name in names]
"""The types of data of all versions up to opset 13."""


CASES = [(operator, version.since) for operator in KERNELS for version in VERSIONS[operator]]


def _model(operator: str, since: int, type_name: str) -> onnx.ModelProto:
    """A model of one node."""
    number = getattr(TensorProto, type_name.upper())
    inputs, constants = ["x"], []
    attributes: dict[str, Any] = {}
    values = [helper.make_tensor_value_info("x", number, [1, 4, 2, 2])]
    indices = {"Gather": [1], "GatherElements": [1, 4, 2, 2], "GatherND": [1, 2]}
    if operator in indices:
        inputs.append("i")
        values.append(helper.make_tensor_value_info("i", TensorProto.INT64, indices[operator]))
    elif operator == "Slice" and since < 10:
        attributes = {"starts": [0], "ends": [1]}
    elif operator == "Slice":
        inputs += ["s", "e"]
        constants = [helper.make_tensor(name, TensorProto.INT64, [1], [end]) for name, end in (("s", 0), ("e", 1))]
    else:
        attributes = {"blocksize": 2}
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    graph = helper.make_graph([node], "one", values, [helper.make_tensor_value_info("y", number, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", since)], ir_version=8)


@pytest.mark.parametrize(("operator", "since"), CASES)
def test_the_types_of_the_cpu_provider(operator: str, since: int) -> None:
    loaded = {name for name in TYPES if loads(_model(operator, since, name))}
    casts = {"float16"} if operator in ("DepthToSpace", "SpaceToDepth") else set()  # onnxruntime inserts them where that helps
    assert loaded - casts == {*KERNELS[operator].cpu_types[since]} - casts


@pytest.mark.parametrize("operator", KERNELS)
def test_the_versions_are_onnxs(operator: str) -> None:
    versions = [version.since for version in VERSIONS[operator]]
    assert list(KERNELS[operator].since) == [since for since in versions if since <= 13]
    assert list(KERNELS[operator].cpu_types) == versions
    schema = onnx.defs.get_schema(operator, KERNELS[operator].since[-1], "")
    host = {each.name for each in schema.inputs} & {"starts", "ends", "axes", "steps"}
    assert {schema.inputs[at].name for at in KERNELS[operator].host} == host


def test_the_types_are_directmls_at_the_providers_level() -> None:
    described = {"bool": "UINT8", "double": "FLOAT64", "float": "FLOAT32", "float16": "FLOAT16"}
    names = {described.get(name, name.upper()) for name in DIRECTML_TYPES}
    for operator in ("GATHER", "GATHER_ELEMENTS", "GATHER_ND1", "SLICE1", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1"):
        rows = [row for row in TABLE if row.operator == operator and row.tensor == "InputTensor" and row.level <= LEAST_LEVEL]
        assert names <= {each.name for each in rows[-1].data_types}
    assert {*ADAPTERS_TYPES} < {*DIRECTML_TYPES}
