"""The form of a node: how many inputs and outputs it has, and which attributes, whatever the types of its inputs are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from dmlgather.onnx.problems.operator_versions import DOMAINS, OperatorVersion
from dmlgather.wording import alternatives, counted

MANY = 2**31 - 1
"""The most inputs or outputs of an operator that takes any number, as ONNX's schemas have it."""


class NodeForm(NamedTuple):
    """The form of an operator's nodes.

    operator: with its version. inputs, attributes: by name, whether a node must have it; the last input stands for all further
    ones. kinds: of the attributes, as AttributeProto.AttributeType. most_inputs, most_outputs: at most MANY.
    """

    operator: str
    inputs: Mapping[str, bool]
    least_inputs: int
    most_inputs: int
    least_outputs: int
    most_outputs: int
    attributes: Mapping[str, bool]
    kinds: Mapping[str, int]


def check_form(form: NodeForm, node: Any) -> None:
    """Refuse a NodeProto of another form; attributes that the form does not have are left alone.

    ValueError for a wrong number of inputs or outputs and for an attribute that is missing, TypeError for one of another kind.
    """
    inputs, roles = list(node.input), [*form.inputs.values()] or [False]
    omitted = any(not name and roles[min(at, len(roles) - 1)] for at, name in enumerate(inputs[: form.most_inputs]))
    if omitted or not form.least_inputs <= len(inputs) <= form.most_inputs:
        names = f": {', '.join(form.inputs)}" if form.inputs else ""
        raise ValueError(
            f"the node has {counted(sum(map(bool, inputs)), 'input')} ({', '.join(inputs)}), but {form.operator} takes "
            f"{_numbers(form.least_inputs, form.most_inputs)}{names}"
        )
    if not form.least_outputs <= len(node.output) <= form.most_outputs:
        gives = _numbers(form.least_outputs, form.most_outputs)
        raise ValueError(f"the node has {counted(len(node.output), 'output')}, but {form.operator} gives {gives}")
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, required in form.attributes.items():
        if required and name not in given:
            raise ValueError(f"attribute {name} is missing: {form.operator} requires it")
    for name, attribute in given.items():
        kind = form.kinds.get(name, attribute.type)
        if attribute.type != kind and not attribute.ref_attr_name:
            taken = f"{type(attribute).AttributeType.Name(kind)} ({kind})"
            raise TypeError(f"attribute {name} has type {attribute.type}, but {form.operator} takes {taken}")


def check_by_schema(node: Any, opset: int) -> None:
    """Refuse a NodeProto of ONNX's own domain that does not have the form of its operator in this opset, as ONNX states it.

    TypeError and ValueError as `check_form`. An operator that the installed onnx does not know is left alone.
    """
    form = _schema_form(node.op_type, opset) if node.domain in DOMAINS else None
    if form is not None:
        check_form(form, node)


def same_version(operator: str, opset: int, other: int) -> bool:
    """Whether an operator of ONNX's own domain has one definition in two opsets, as far as the installed onnx knows it."""
    forms = [_schema_form(operator, each) for each in (opset, other)]
    return len({form and form.operator for form in forms}) == 1


@lru_cache(maxsize=256)
def form_of(version: OperatorVersion) -> NodeForm:
    """The form of the nodes of an operator's version."""
    inputs = {name: name in version.required for name in version.inputs}
    attributes = {name: name in version.required for name in version.attributes}
    return NodeForm(str(version), inputs, sum(inputs.values()), len(inputs), 1, 1, attributes, version.attributes)


@lru_cache(maxsize=1024)
def _schema_form(operator: str, opset: int) -> NodeForm | None:
    from onnx import defs

    try:
        schema = defs.get_schema(operator, opset, "")
    except defs.SchemaError:
        return None
    known = opset <= defs.onnx_opset_version()  # later versions may take more
    optional = defs.OpSchema.FormalParameterOption.Optional
    return NodeForm(
        f"{operator}-{schema.since_version}",
        {each.name: each.option != optional for each in schema.inputs},
        schema.min_input,
        schema.max_input if known else MANY,
        schema.min_output,
        schema.max_output if known else MANY,
        {name: each.required for name, each in schema.attributes.items()},
        {name: int(each.type.value) for name, each in schema.attributes.items()},  # type: ignore[attr-defined] # an enum of pybind11
    )


def _numbers(least: int, most: int) -> str:
    """Numbers of inputs or outputs in words: "2", "1, 2 or 3", "1 or more"."""
    if most == MANY:
        return f"{least} or more"
    return alternatives(range(least, most + 1)) if most - least < 8 else f"{least} to {most}"
