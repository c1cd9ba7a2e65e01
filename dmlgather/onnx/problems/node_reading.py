"""Read a NodeProto: the form that nodes of its operator have, whatever the types of its inputs are; its attributes and inputs,
checked against the operator's version in force; and the problem that it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.operator_versions import DOMAINS, VERSIONS, OperatorVersion, version_of
from dmlgather.onnx.problems.slice import Slice, check_bound_types
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


PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem for problem in (Gather, GatherElements, GatherND, Slice, DepthToSpace, SpaceToDepth)
}
"""The operators of the family. The fields of a problem have the names of the node's inputs and attributes."""

FAMILY = tuple(PROBLEMS)

ARRAYS: Mapping[str, tuple[str, ...]] = {name: problem.inputs for name, problem in PROBLEMS.items()}
"""The inputs of each operator of which only shape and type are needed."""

INPUTS = {name: VERSIONS[name][-1].inputs for name in FAMILY}
"""All inputs of each operator, in order."""


class UnknownValueError(ValueError):
    """A value that decides the result's shape is not known before the model runs.

    input: the operator's name of the input or attribute. value: the model's name of what it reads.
    """

    def __init__(self, name: str, value: str, message: str) -> None:
        self.input, self.value = name, value
        super().__init__(message)


class UnknownTypeError(ValueError):
    """Shape or type of an array input is not known before the model runs. Attributes as in UnknownValueError."""

    def __init__(self, version: OperatorVersion, name: str, value: str) -> None:
        self.input, self.value = name, value
        super().__init__(f"shape or type of {name} ({value!r}) is not known, but {version} needs them to be described")


@dataclass(frozen=True)
class StatedNode:
    """A NodeProto with its attributes as Python values (tensors as protos)."""

    node: Any
    opset: int
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class ParsedNode(StatedNode):
    """A node that has the inputs and attributes of its operator's version."""

    version: OperatorVersion


def stated_node(node: Any, opset: int) -> StatedNode:
    """A NodeProto of any operator. UnknownValueError for an attribute that refers to one of a function."""
    return StatedNode(node, opset, {attribute.name: _value(attribute) for attribute in node.attribute})


def parse_node(node: Any, opset: int) -> ParsedNode:
    """Check the inputs and attributes of a NodeProto of any operator in VERSIONS.

    ValueError for a wrong number of inputs or outputs, and for attributes that are missing or that the version does not have;
    TypeError for an attribute of another kind; UnknownValueError for one that refers to an attribute of a function.
    """
    version = version_of(node.op_type, opset)
    for name in (attribute.name for attribute in node.attribute):
        if name not in version.attributes:
            known = f"only {', '.join(version.attributes)}" if version.attributes else "none"
            where = f"; it takes {name} as an input" if name in version.inputs else ""
            raise ValueError(f"attribute {name!r} is not one of {version}, which has {known}{where}")
    check_form(form_of(version), node)
    return ParsedNode(node, opset, stated_node(node, opset).attributes, version)


def _value(attribute: Any) -> Any:
    from onnx.helper import get_attribute_value

    name, reference = attribute.name, attribute.ref_attr_name
    if reference:
        raise UnknownValueError(
            name, reference, f"attribute {name} refers to {reference!r} of a function: inline the function first"
        )
    value = get_attribute_value(attribute)
    if isinstance(value, list):
        return tuple(each.decode() if isinstance(each, bytes) else each for each in value)
    return value.decode() if isinstance(value, bytes) else value


def in_family(node: Any) -> bool:
    """Whether a NodeProto is one of ONNX's own operators in PROBLEMS."""
    return node.op_type in PROBLEMS and node.domain in DOMAINS


def problem_of(node: Any, opset: int, types: Sequence[TensorType | None], values: Sequence[Any | None]) -> Problem:
    """The problem that a NodeProto of the family is.

    types: shape and data type of each of the node's inputs, None where they are not known. values: the host array of each input
    whose values decide the result's shape (starts, ends, axes and steps of Slice), None where it is not known or not needed.

    Raises UnknownTypeError and UnknownValueError (both ValueErrors) for what is needed and None; TypeError and ValueError for a
    node that breaks a rule of the operator's version.
    """
    parsed = parse_node(node, opset)
    version, arrays, bounds = parsed.version, {}, {}
    for role, name, tensor, value in zip(version.inputs, node.input, types, values, strict=False):
        if role in ARRAYS[node.op_type]:
            if tensor is None:
                raise UnknownTypeError(version, role, name)
            arrays[role] = tensor
        elif name:
            if value is None:
                message = f"{role} ({name!r}) is computed when the model runs, but {version} needs its values to be described"
                raise UnknownValueError(role, name, message)
            bounds[role] = value
    check_bound_types(version, bounds)
    problem: Problem = PROBLEMS[node.op_type](**arrays, **parsed.attributes, **bounds, opset=opset)
    return problem
