"""The tables of operators' versions and of data types, against those of the onnx package."""

from __future__ import annotations

import onnx.defs
import pytest
from onnx import TensorProto, helper

from dmlgather.onnx.problems.data_types import TYPES, data_type, type_number
from dmlgather.onnx.problems.node_reading import FAMILY
from dmlgather.onnx.problems.operator_versions import NEWEST_OPSET, VERSIONS
from dmlgather.onnx_checking.following.operators import OPERATORS

REQUIRED_HERE = {("Reshape-1", "shape")}
"""Attributes that ONNX's schemas do not require, although nothing says what the operator does without them."""


def test_every_operator_has_versions() -> None:
    assert {*FAMILY} <= set(VERSIONS)
    assert all(OPERATORS[name].run is not None for name in set(VERSIONS) - {*FAMILY})


@pytest.mark.parametrize("operator", VERSIONS)
def test_versions_are_those_of_onnx(operator: str) -> None:
    history = [schema for schema in onnx.defs.get_all_schemas_with_history() if (schema.domain, schema.name) == ("", operator)]
    theirs = {schema.since_version: schema for schema in history if schema.since_version <= NEWEST_OPSET}
    ours = {version.since: version for version in VERSIONS[operator]}
    assert list(ours) == sorted(theirs)
    for since, schema in theirs.items():
        version = ours[since]
        assert version.inputs[1:] == tuple(entry.name for entry in schema.inputs[1:])
        required = {name for name in version.required if (str(version), name) not in REQUIRED_HERE}
        assert [name in required for name in version.inputs] == [at < schema.min_input for at in range(schema.max_input)]
        assert required - {*version.inputs} == {name for name, attribute in schema.attributes.items() if attribute.required}
        theirs_by_name = schema.attributes.items()
        kinds = {name: int(attribute.type.value) for name, attribute in theirs_by_name}  # type: ignore[attr-defined] # pybind11
        assert version.attributes == kinds
        (types, *_) = (constraint.allowed_type_strs for constraint in schema.type_constraints)
        assert set(version.types) == {name[len("tensor(") : -1] for name in types if name.startswith("tensor(")}
        for entry in schema.inputs[1:]:
            assert entry.types == {f"tensor({name})" for name in version.index_types}


def test_data_types_are_those_of_onnx() -> None:
    theirs = {number: name for name, number in TensorProto.DataType.items() if name != "UNDEFINED"}
    assert dict(enumerate(map(str.upper, TYPES.names), 1)) == theirs
    for number, name in theirs.items():
        dtype = helper.tensor_dtype_to_np_dtype(number)
        assert data_type(number) == data_type(name) == dtype
        assert (TYPES.name_of(dtype), type_number(dtype)) == (name.lower(), number)
    for unknown in (TensorProto.UNDEFINED, -1, len(theirs) + 1, "UNDEFINED", "REAL", "float"):
        assert data_type(unknown) is None
