"""Turns NodeProtos into problems, and checks their inputs, outputs and attributes against the operator's version."""

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
"""ONNX's schemas write this number as the largest number of inputs or outputs if there is no limit."""


class NodeForm(NamedTuple):
    """Which inputs, outputs and attributes a version of an operator allows.

    `operator`: name and version for messages, such as "Gather-13". `inputs`, `attributes`: dicts from names to True if a node
    must have the input or attribute. A node with more inputs than names repeats the last one. `least_inputs`, `most_inputs`,
    `least_outputs`, `most_outputs`: the allowed numbers. A maximum of MANY means no limit. `kinds`: the
    AttributeProto.AttributeType of each attribute, by name.
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
    """Check the inputs, outputs and attributes of a NodeProto against a form. Ignore attributes that the form does not list.

    Raises ValueError for a wrong number of inputs or outputs, and for a missing input or attribute; TypeError if an attribute
    has another kind of value.
    """
    inputs, required_inputs = list(node.input), [*form.inputs.values()] or [False]
    last = len(required_inputs) - 1
    omitted = any(not name and required_inputs[min(number, last)] for number, name in enumerate(inputs[: form.most_inputs]))
    if omitted or not form.least_inputs <= len(inputs) <= form.most_inputs:
        names = f": {', '.join(form.inputs)}" if form.inputs else ""
        raise ValueError(
            f"the node has {counted(sum(map(bool, inputs)), 'input')} ({', '.join(inputs)}), but {form.operator} takes "
            f"{_numbers(form.least_inputs, form.most_inputs)}{names}"
        )
    if not form.least_outputs <= len(node.output) <= form.most_outputs:
        outputs = _numbers(form.least_outputs, form.most_outputs)
        raise ValueError(f"the node has {counted(len(node.output), 'output')}, but {form.operator} gives {outputs}")
    attributes = {attribute.name: attribute for attribute in node.attribute}
    for name, required in form.attributes.items():
        if required and name not in attributes:
            raise ValueError(f"attribute {name} is missing: {form.operator} requires it")
    for name, attribute in attributes.items():
        kind = form.kinds.get(name, attribute.type)
        if attribute.type != kind and not attribute.ref_attr_name:
            expected = f"{type(attribute).AttributeType.Name(kind)} ({kind})"
            raise TypeError(f"attribute {name} has type {attribute.type}, but {form.operator} takes {expected}")


def check_by_schema(node: Any, opset: int) -> None:
    """Check the inputs, outputs and attributes of a NodeProto against ONNX's schema for this opset.

    Does nothing for operators of other domains, and for operators that the installed package onnx does not know. Raises the
    errors of `check_form`.
    """
    form = _schema_form(node.op_type, opset) if node.domain in DOMAINS else None
    if form is not None:
        check_form(form, node)


@lru_cache(maxsize=256)
def form_of(version: OperatorVersion) -> NodeForm:
    """Return the NodeForm for a row of the table of operator versions."""
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
    current = opset <= defs.onnx_opset_version()  # in newer opsets, the operator may have more inputs and outputs
    optional = defs.OpSchema.FormalParameterOption.Optional
    attributes = schema.attributes.items()
    return NodeForm(
        f"{operator}-{schema.since_version}",
        {parameter.name: parameter.option != optional for parameter in schema.inputs},
        schema.min_input,
        schema.max_input if current else MANY,
        schema.min_output,
        schema.max_output if current else MANY,
        {name: attribute.required for name, attribute in attributes},
        {name: int(attribute.type.value) for name, attribute in attributes},  # type: ignore[attr-defined] # an enum of pybind11
    )


def _numbers(least: int, most: int) -> str:
    """Return the allowed numbers from `least` to `most` in words: "2", "1, 2 or 3", "1 or more"."""
    if most == MANY:
        return f"{least} or more"
    return alternatives(range(least, most + 1)) if most - least < 8 else f"{least} to {most}"


PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem for problem in (Gather, GatherElements, GatherND, Slice, DepthToSpace, SpaceToDepth)
}
"""The problem class of each gather and slice operator. A class's fields have the names of the node's inputs and attributes."""

FAMILY = tuple(PROBLEMS)
"""The names of ONNX's gather and slice operators, which this package runs and checks."""

ARRAYS: Mapping[str, tuple[str, ...]] = {name: problem.inputs for name, problem in PROBLEMS.items()}
"""Inputs of each operator that a problem knows only by shape and type.

Other inputs, such as a Slice's starts, must have values.
"""

INPUTS = {name: VERSIONS[name][-1].inputs for name in FAMILY}
"""The names of each operator's inputs in its newest version, in order."""


class UnknownValueError(ValueError):
    """Error: a problem needs a value that is unknown until the model runs, such as a Slice's starts.

    `input`: ONNX's name of the input or attribute. `value`: the model's name of the tensor or function attribute that gives the
    value.
    """

    def __init__(self, name: str, value: str, message: str) -> None:
        self.input, self.value = name, value
        super().__init__(message)


class UnknownTypeError(ValueError):
    """Error: a problem needs the shape and type of an input, but one of them is unknown until the model runs.

    `input`: ONNX's name of the input. `value`: the model's name of the tensor.
    """

    def __init__(self, version: OperatorVersion, name: str, value: str) -> None:
        self.input, self.value = name, value
        super().__init__(f"shape or type of {name} ({value!r}) is not known, but a descriptor of {version} needs both")


@dataclass(frozen=True)
class StatedNode:
    """A NodeProto, its opset, and its attributes as Python values by name. Tensors stay TensorProtos."""

    node: Any
    opset: int
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class ParsedNode(StatedNode):
    """A node that passed the checks of `parse_node`. `version`: the version of its operator."""

    version: OperatorVersion


def stated_node(node: Any, opset: int) -> StatedNode:
    """Return a node of any operator with its attributes as Python values, without checks.

    Raises UnknownValueError if an attribute refers to an attribute of the function that contains the node.
    """
    return StatedNode(node, opset, {attribute.name: _value(attribute) for attribute in node.attribute})


def parse_node(node: Any, opset: int) -> ParsedNode:
    """Check the inputs and attributes of a node. Return the node with its attributes and its operator's version.

    The operator must be in VERSIONS. Raises ValueError for a wrong number of inputs or outputs, and for missing or unknown
    attributes; TypeError if an attribute has another kind of value; UnknownValueError if an attribute refers to an attribute of
    the function that contains the node.
    """
    version = version_of(node.op_type, opset)
    for name in (attribute.name for attribute in node.attribute):
        if name not in version.attributes:
            allowed = f"only {', '.join(version.attributes)}" if version.attributes else "none"
            remark = f"; it takes {name} as an input" if name in version.inputs else ""
            raise ValueError(f"attribute {name!r} is not one of {version}, which has {allowed}{remark}")
    check_form(form_of(version), node)
    return ParsedNode(node, opset, stated_node(node, opset).attributes, version)


def _value(attribute: Any) -> Any:
    from onnx.helper import get_attribute_value

    name, reference = attribute.name, attribute.ref_attr_name
    if reference:
        raise UnknownValueError(
            name, reference, f"attribute {name} refers to attribute {reference!r} of a function: inline the function first"
        )
    value = get_attribute_value(attribute)
    if isinstance(value, list):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    return value.decode() if isinstance(value, bytes) else value


def in_family(node: Any) -> bool:
    """Return True if a NodeProto's operator is one of ONNX's gather and slice operators."""
    return node.op_type in PROBLEMS and node.domain in DOMAINS


def problem_of(node: Any, opset: int, types: Sequence[TensorType | None], values: Sequence[Any | None]) -> Problem:
    """Return the problem of a gather or slice node: its operator's rules are checked, and its output type is known.

    `types`: the shape and data type of each input, in the order of the inputs; None if unknown. `values`: one entry per input.
    Only the starts, ends, axes and steps of Slice need an array in host memory. The entry is None for other inputs, and for a
    value that is unknown.

    Raises UnknownTypeError or UnknownValueError (both ValueErrors) if an unknown type or value is needed; TypeError and
    ValueError for a node that breaks a rule of the operator's version.
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
                message = f"{role} ({name!r}) is computed when the model runs, but a descriptor of {version} needs its values"
                raise UnknownValueError(role, name, message)
            bounds[role] = value
    check_bound_types(version, bounds)
    problem: Problem = PROBLEMS[node.op_type](**arrays, **parsed.attributes, **bounds, opset=opset)
    return problem
