"""Turns NodeProtos into problems, and checks them against the operator's version."""

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
"""The number in ONNX's schemas that means any number of inputs or outputs."""


class NodeForm(NamedTuple):
    """The inputs, outputs and attributes that a version of an operator allows.

    `operator`: the name and version, such as "Gather-13". `inputs`, `attributes`: for each name, True if it is required. If a
    node has more inputs than there are names, the last name stands for the rest. `kinds`: the AttributeProto.AttributeType of
    each attribute.
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
    """Check the inputs, outputs and attributes of a NodeProto. Ignore attributes that the form does not list."""
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
    """Check a NodeProto against ONNX's schema for this opset. Do nothing for operators without a schema."""
    form = _schema_form(node.op_type, opset) if node.domain in DOMAINS else None
    if form is not None:
        check_form(form, node)


@lru_cache(maxsize=256)
def form_of(version: OperatorVersion) -> NodeForm:
    """Return the NodeForm of an operator's version."""
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
    """Return the allowed numbers in words: "2", "1, 2 or 3", "1 or more"."""
    if most == MANY:
        return f"{least} or more"
    return alternatives(range(least, most + 1)) if most - least < 8 else f"{least} to {most}"


PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem for problem in (Gather, GatherElements, GatherND, Slice, DepthToSpace, SpaceToDepth)
}
"""Problem classes by operator. Their fields are named like the node's inputs and attributes."""

FAMILY = tuple(PROBLEMS)
"""The names of ONNX's gather and slice operators."""

ARRAYS: Mapping[str, tuple[str, ...]] = {name: problem.inputs for name, problem in PROBLEMS.items()}
"""The inputs for which a problem needs only shape and type. It needs the values of other inputs, such as starts."""

INPUTS = {name: VERSIONS[name][-1].inputs for name in FAMILY}
"""Input names of each operator's newest version."""


class UnknownValueError(ValueError):
    """Error: a problem needs a value that is unknown until the model runs, such as a Slice's starts.

    `input`: ONNX's name of the input or attribute. `value`: the model's name of the tensor or function attribute.
    """

    def __init__(self, name: str, value: str, message: str) -> None:
        self.input, self.value = name, value
        super().__init__(message)


class UnknownTypeError(ValueError):
    """Error: a problem needs the shape and type of an input, but the shape or the type is unknown until the model runs.

    `input`: ONNX's name of the input. `value`: the model's name of the tensor.
    """

    def __init__(self, version: OperatorVersion, name: str, value: str) -> None:
        self.input, self.value = name, value
        super().__init__(f"shape or type of {name} ({value!r}) is not known, but a descriptor of {version} needs both")


@dataclass(frozen=True)
class StatedNode:
    """A NodeProto with its opset and its attributes as Python values. Tensors stay TensorProtos."""

    node: Any
    opset: int
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class ParsedNode(StatedNode):
    """A node that passed the checks of `parse_node`."""

    version: OperatorVersion


def stated_node(node: Any, opset: int) -> StatedNode:
    """Read the attributes of any node, without checks. Raise UnknownValueError for a reference to a function's attribute."""
    return StatedNode(node, opset, {attribute.name: _value(attribute) for attribute in node.attribute})


def parse_node(node: Any, opset: int) -> ParsedNode:
    """Check a node of an operator in VERSIONS. Raise UnknownValueError for a reference to a function's attribute."""
    version = version_of(node.op_type, opset)
    for name in (attribute.name for attribute in node.attribute):
        if name not in version.attributes:
            allowed = f"only {', '.join(version.attributes)}" if version.attributes else "none"
            remark = f"; it takes {name} as an input" if name in version.inputs else ""
            raise ValueError(f"{version} has no attribute {name!r}: it has {allowed}{remark}")
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
    """Return the problem of a gather or slice node. `types`, `values`: one entry per input, None if unknown.

    Only Slice needs values, as arrays in host memory. Raises UnknownTypeError or UnknownValueError if a needed type or value is
    missing; TypeError and ValueError for a node that breaks a rule of its operator.
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
