"""Descriptors of DirectML for ONNX's problems and nodes, or the reasons why there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dmlgather.dialects import descriptors
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import (
    Descriptors,
    Exporter,
    gather_elements_form,
    gather_nd_form,
    needed_by_tuples,
    slice_form,
    views,
)
from dmlgather.dialects.problem import Problem, whole
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.directml.types import ONNX_ORDERS
from dmlgather.onnx.problems.constant_indices import index_out_of_range
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.node_inputs import ByInput, NodeInput, node_inputs
from dmlgather.onnx.problems.node_reading import FAMILY, UnknownTypeError, UnknownValueError, in_family, problem_of
from dmlgather.onnx.problems.operator_versions import version_of
from dmlgather.onnx.problems.slice import Slice
from dmlgather.wording import alternatives


def to_directml(
    node: Any,
    shapes: ByInput,
    dtypes: ByInput,
    level: str | FeatureLevel = "6_4",
    *,
    opset: int = 13,
    constants: Mapping[str, Any] | None = None,
) -> OperatorDesc | Descriptors | Report:
    """The descriptor a DirectML caller would build for a node of the family; or why there is none.

    node: an onnx.NodeProto. shapes, dtypes: of the node's inputs, by the names that the node has for them or one per input in
    order; types are NumPy's, their names, or numbers of TensorProto.DataType. level: the feature level of the descriptors. opset:
    the opset in force, as in a model. constants: the values of inputs that are known, by name (arrays or lists of integers).
    Slice needs starts, ends, axes and steps; constant indices are checked. Shapes and types of constants may be left out.

    Returns one descriptor; a tuple of them, in the order in which they run, where one cannot do it; or a Report of the reasons
    why there is none, which `docs/expressing.md` lists: an input whose type, size or bounds are not known, a node that breaks a
    rule of its operator, and everything that the level does not take.

    To run it, bind data to InputTensor, indices to IndicesTensor and a fresh buffer to OutputTensor:

    - data: the packed bytes of the array, padded to TotalTensorSizeInBytes. The described type has the same bits: bool is UINT8,
      bfloat16 UINT16, complex64 UINT64, and complex128 a further dimension of 2 UINT64.
    - indices: converted to the described type, packed, padded. Where that is UINT32 (before level 3_0), negative indices have
      the size of their axis added first.
    - of several descriptors, the first takes data, each further one the output of the one before, and the last of them the
      indices; its output is the node's.
    - the output's elements, in order, are those of the node's output, whatever dimensions are described.

    ONNX refuses an index out of range; DirectML clamps it. Check indices that are no constants before they are bound.

    Raises ValueError for an unknown level, for more shapes or types than the node has inputs, and for a constant that
    contradicts shapes or dtypes; TypeError for what is no data type, and for an opset that is no integer.

    >>> from onnx.helper import make_node
    >>> node = make_node("Gather", ["table", "ids"], ["rows"], axis=0)
    >>> desc = dg.onnx.to_directml(node, {"table": (100, 8), "ids": (5,)}, {"table": "float32", "ids": "int64"})
    >>> desc.operator.name, desc.output_tensor.sizes
    ('GATHER', (5, 8))
    """
    at = FeatureLevel.parse(level)
    opset = whole("opset", opset)
    inputs = node_inputs(node, shapes, dtypes, constants or {})
    problem = _problem(node, opset, inputs)
    if isinstance(problem, Finding):
        return Report(subject=f"ONNX {_operator(node, opset)}", level=at, findings=(problem,))
    descs = express(problem, at)
    wrong = index_out_of_range(problem, inputs[1].value) if len(inputs) > 1 and inputs[1].value is not None else None
    if wrong is not None:
        others = descs.findings if isinstance(descs, Report) else ()
        return Report(subject=EXPORTER.title(problem), level=at, findings=(wrong, *others))
    return descs if isinstance(descs, Report) or len(descs) > 1 else descs[0]


def _problem(node: Any, opset: int, inputs: list[NodeInput]) -> Problem | Finding:
    """The problem that a node is, or why it is none."""
    if not in_family(node):
        return CODES["EXP109"].finding(
            "",
            expected=f"{alternatives(FAMILY)} of ONNX's own operators",
            got=f"{node.op_type} of domain {node.domain!r}",
            remedy="describe it with the DirectML operator that does the same; those of this family only gather and slice",
        )
    try:
        return problem_of(node, opset, [each.type for each in inputs], [each.value for each in inputs])
    except UnknownValueError as unknown:
        return _unknown_value(node, unknown)
    except UnknownTypeError as unknown:
        description = next(each.description for name, each in zip(node.input, inputs, strict=True) if name == unknown.value)
        return CODES["EXP108"].finding(
            unknown.input,
            expected="a size of at least 0 for each dimension, and a type",
            got=f"{unknown.value!r} with {description}",
            remedy="state both, with a number for each size; sizes that change from run to run need a descriptor for each",
        )
    except (TypeError, ValueError) as error:
        return broken_rule(node, opset, str(error))


def broken_rule(node: Any, opset: int, message: str) -> Finding:
    """The finding that a node breaks a rule of its operator. message: which rule."""
    return CODES["EXP101"].finding(
        "",
        expected=f"a node that {_operator(node, opset)} allows",
        got=message,
        remedy="correct the node, or the types and shapes of its inputs; ONNX itself refuses it",
    )


def _unknown_value(node: Any, unknown: UnknownValueError) -> Finding:
    if unknown.value in node.input:
        got = "which is none of the constants"
        remedy = (
            f"pass its values as constants={{{unknown.value!r}: …}}; no DirectML slice reads its bounds from a tensor, so bounds "
            "computed at run time need a descriptor for each of their values, or a Gather in the place of the Slice"
        )
    else:
        got = "an attribute of the function around it"
        remedy = "describe the node with the attribute's value in the place of the reference"
    expected = "values that are known when the node is described"
    return CODES["EXP105"].finding(unknown.input, expected=expected, got=f"{unknown.value!r}, {got}", remedy=remedy)


def _operator(node: Any, opset: int) -> str:
    """The operator's version in force, "Slice-13"; its bare name where there is none."""
    try:
        return str(version_of(node.op_type, opset)) if in_family(node) else str(node.op_type)
    except ValueError:  # before the first
        return str(node.op_type)


def _gather(problem: Gather, level: FeatureLevel) -> Descriptors:
    data, indices, output = views(problem)
    return descriptors.gather(data, indices, output, problem.axis, level)


def _depth_to_space(problem: DepthToSpace, level: FeatureLevel) -> Descriptors:
    data, output = views(problem)
    return descriptors.depth_to_space(data, output, problem.blocksize, ONNX_ORDERS[problem.mode], level)


def _space_to_depth(problem: SpaceToDepth, level: FeatureLevel) -> Descriptors:
    data, output = views(problem)
    return descriptors.space_to_depth(data, output, problem.blocksize, ONNX_ORDERS[problem.mode], level)


_FORMS: Mapping[type[Problem], Callable[[Any, FeatureLevel], Descriptors]] = {
    Gather: _gather,
    GatherElements: gather_elements_form,
    GatherND: gather_nd_form,
    Slice: slice_form,
    DepthToSpace: _depth_to_space,
    SpaceToDepth: _space_to_depth,
}

EXPORTER = Exporter(_FORMS, lambda problem: f"ONNX {problem.version}", needed_by_tuples)
express = EXPORTER.express
