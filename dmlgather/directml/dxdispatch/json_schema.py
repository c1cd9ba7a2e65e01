"""JSON Schemas of descriptors and models, made from the classes that read these files."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Literal, cast

from pydantic import Field, TypeAdapter, create_model

from dmlgather.directml.dxdispatch import wire
from dmlgather.directml.dxdispatch.reading import DISPATCHABLES
from dmlgather.directml.operator_types import ALIASES, NUMBERS, PREFIX
from dmlgather.directml.operators import OPERATORS
from dmlgather.directml.operators.operator import Operator
from dmlgather.directml.tensor import BufferTensorDesc

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def descriptor_schema() -> dict[str, Any]:
    """Return the schema of a single descriptor: {"type": "DML_OPERATOR_GATHER", "desc": {…}}."""
    return _finished(TypeAdapter(_any_operator() | _foreign()).json_schema(), "DirectML operator descriptor")


def model_schema() -> dict[str, Any]:
    """Return the schema of a DxDispatch model."""
    named: Any = dict  # mypy rejects classes that are made at run time as type arguments
    model = create_model(
        "Model",
        __base__=wire.WirePart,
        resources=(dict[str, wire.ResourcePart], Field(description="Buffers, by name.")),
        dispatchables=(named[str, _any_operator() | _foreign()], Field(description="Operators, by name.")),
        commands=(list[wire.CommandPart], Field(description="Commands, in the order of execution.")),
    )
    return _finished(model.model_json_schema(), "DxDispatch model with indexing operators")


def _any_operator() -> Any:
    return reduce(or_, map(_operator_class, OPERATORS.values()))


def _foreign() -> Any:
    """Return a Pydantic class for unsupported dispatchables, which the schema allows."""
    operators = [name for name in (*NUMBERS, *ALIASES) if name not in OPERATORS]
    names = cast("Any", Literal)[*operators, *(name.removeprefix(PREFIX) for name in operators), *DISPATCHABLES]
    return create_model(
        "OtherDispatchable",
        __base__=wire.WirePart,
        __config__=None,
        __doc__="A dispatchable that dmlgather leaves out.",
        type=(names, Field(description="An operator that dmlgather does not support, or a dispatchable that is no operator.")),
    )


def _operator_class(operator: Operator) -> Any:
    names = cast("Any", Literal)[operator.type, operator.type.removeprefix(PREFIX)]
    return create_model(
        f"{operator.desc.__name__.removesuffix('OperatorDesc')}Operator",
        __base__=wire.Envelope,
        __config__=None,
        __doc__=operator.desc.__doc__,
        type=(names, Field(description="DML_OPERATOR_TYPE, with or without its prefix.")),
        desc=(operator.desc, Field(description='The operator\'s structure; the key may also be spelt "Desc".')),
    )


def _finished(schema: dict[str, Any], title: str) -> dict[str, Any]:
    """Add to a JSON schema: the title, the schema dialect, and the alternative spellings that the reader accepts."""
    definitions = schema["$defs"]
    for definition in definitions.values():
        properties = definition["properties"]
        if {"type", "desc"} <= properties.keys():
            properties["Desc"] = properties["desc"]
            definition["required"].remove("desc")
            definition["oneOf"] = [{"required": ["desc"]}, {"required": ["Desc"]}]
    tensor = BufferTensorDesc.__name__
    fields = definitions.pop(tensor)
    kind = {"enum": ["BUFFER", "DML_TENSOR_TYPE_BUFFER"], "description": "DML_TENSOR_TYPE. BUFFER is the only type."}
    fields_name = f"{tensor}Fields"
    definitions[fields_name] = fields
    definitions[tensor] = {
        "description": fields["description"],
        "anyOf": [
            {**fields, "properties": {"Type": kind, **fields["properties"]}},
            {
                "type": "object",
                "properties": {"Type": kind, "Desc": {"$ref": f"#/$defs/{fields_name}"}},
                "required": ["Type", "Desc"],
                "additionalProperties": False,
            },
        ],
    }
    return {"$schema": DIALECT, **schema, "title": title}
