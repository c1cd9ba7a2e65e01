"""Read a NodeProto: its attributes and inputs, checked against the operator's version in force, and the problem that it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.node_forms import check_form, form_of
from dmlgather.onnx.problems.operator_versions import DOMAINS, VERSIONS, OperatorVersion, version_of
from dmlgather.onnx.problems.slice import Slice, check_bound_types

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
