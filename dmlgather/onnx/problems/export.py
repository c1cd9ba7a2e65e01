"""Descriptors of DirectML for ONNX's problems and nodes, or the reasons why there are none; constant indices out of range."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects import descriptors
from dmlgather.dialects.element_types import numpy_type
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import (
    Descriptors,
    Exporter,
    first_out_of_range,
    gather_elements_form,
    gather_nd_form,
    needed_by_tuples,
    slice_form,
    views,
)
from dmlgather.dialects.problem import UNEQUAL_BATCH, Problem, TensorType, whole
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.directml.types import ONNX_ORDERS
from dmlgather.onnx.problems.data_types import data_type
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND, GatherProblem
from dmlgather.onnx.problems.node_reading import FAMILY, UnknownTypeError, UnknownValueError, in_family, problem_of
from dmlgather.onnx.problems.operator_versions import version_of
from dmlgather.onnx.problems.slice import Slice
from dmlgather.wording import alternatives

ByInput = Mapping[str, Any] | Sequence[Any]
"""One value per input: by the name that the node has for it, or in the order of its inputs."""


class NodeInput(NamedTuple):
    """One input. type: None where shape or data type is not known. value: the constant, on the host.

    description: shape and data type as the caller wrote them, for messages.
    """

    type: TensorType | None
    value: Any | None
    description: str


def node_inputs(node: Any, shapes: ByInput, dtypes: ByInput, constants: Mapping[str, Any]) -> list[NodeInput]:
    """The inputs of a node, in order.

    TypeError for what is no node or no data type; ValueError for more shapes or types than inputs, and for a constant that
    contradicts its shape or type.
    """
    if not hasattr(node, "input") or not hasattr(node, "op_type"):
        raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
    names = list(node.input)
    pairs = zip(names, _by_input("shapes", shapes, names), _by_input("dtypes", dtypes, names), strict=True)
    return [_input(name, shape, dtype, constants.get(name)) for name, shape, dtype in pairs]


def _by_input(what: str, given: ByInput, names: Sequence[str]) -> list[Any]:
    if isinstance(given, Mapping):
        return [given.get(name) for name in names]
    if len(given) > len(names):
        raise ValueError(f"{what} has {len(given)} entries, but the node has {len(names)} inputs ({', '.join(names)})")
    return [*given, *[None] * (len(names) - len(given))]


def _input(name: str, shape: Any, dtype: Any, constant: Any) -> NodeInput:
    description = f"shape {'not stated' if shape is None else shape}, type {'not stated' if dtype is None else dtype}"
    kind = None if dtype is None else _dtype(name, dtype)
    sizes = None if shape is None else _sizes(shape)
    if constant is not None:
        value = constant if hasattr(constant, "dtype") else np.asarray(constant, kind)
        own = TensorType(tuple(value.shape), numpy_type(value.dtype))
        if sizes is not None and sizes != own.shape:
            raise ValueError(f"{name!r} has shape {sizes} in shapes, but the constant has {own.shape}")
        if kind is not None and kind != own.dtype:
            raise ValueError(f"{name!r} has type {kind} in dtypes, but the constant has {own.dtype}")
        return NodeInput(own, tuple(constant) if isinstance(constant, list | tuple) else value, description)
    return NodeInput(None if kind is None or sizes is None else TensorType(sizes, kind), None, description)


def _dtype(name: str, given: Any) -> np.dtype[Any] | None:
    """The NumPy type of a type, a name, or a number of TensorProto.DataType; None for UNDEFINED."""
    if not isinstance(given, int):
        try:
            return numpy_type(given)
        except TypeError as error:
            raise TypeError(f"{name!r} has type {given!r} in dtypes: {error}") from None
    dtype = data_type(given)
    if dtype is None and given != 0:
        raise TypeError(f"{name!r} has type {given} in dtypes, which is no data type of ONNX")
    return dtype


def _sizes(given: Any) -> tuple[int, ...] | None:
    """The sizes; None where one is symbolic, missing, or negative, as some exporters write what is not known."""
    try:
        sizes = tuple(operator.index(size) for size in given)
    except TypeError:
        return None
    return sizes if all(size >= 0 for size in sizes) else None


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
    remark = UNEQUAL_BATCHES if message.startswith(UNEQUAL_BATCH) else "ONNX itself refuses it"
    return CODES["EXP101"].finding(
        "",
        expected=f"a node that {_operator(node, opset)} allows",
        got=message,
        remedy=f"correct the node, or the types and shapes of its inputs; {remark}",
    )


UNEQUAL_BATCHES = (
    "ONNX does not allow it; onnxruntime's CPU runs it where the number of index tuples is a multiple of that of the batches in "
    "data, and then looks up equally many tuples in each batch, in their order"
)
"""What onnxruntime makes of batch sizes that are not equal."""


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

TO_THE_FRONT = (2**31 - 1, 2**63 - 1)
"""Ends of a slice backwards that onnxruntime's CPU takes for the front of the axis. By ONNX, they are behind its last element."""

FRONT = -(2**31 - 1)
"""End of a slice backwards that ONNX and all of onnxruntime's providers take for the front of the axis."""


def _emptied(problem: Problem, axis: int) -> str | None:
    """What is to be done about a slice that is empty by ONNX, but not in onnxruntime; None for others."""
    if not isinstance(problem, Slice) or not problem.data.shape[axis]:
        return None
    assert problem.axes is not None
    assert problem.steps is not None
    end, step = dict(zip(problem.axes, zip(problem.ends, problem.steps, strict=True), strict=True)).get(axis, (0, 1))
    if step > 0 or end not in TO_THE_FRONT:
        return None
    return (
        f"write {FRONT} as the end if the front of the axis is meant: onnxruntime's CPU takes {end} for it where the step is "
        "negative, but by ONNX no elements are left, and then the node can be left out"
    )


EXPORTER = Exporter(_FORMS, lambda problem: f"ONNX {problem.version}", needed_by_tuples, emptied=_emptied)
express = EXPORTER.express


def index_out_of_range(problem: Problem, indices: Any, most: Mapping[int, int | None] | None = None) -> Finding | None:
    """A finding about the first index that is out of range; None where there is none. Arguments as of `first_out_of_range`."""
    wrong = first_out_of_range(problem, indices, most) if isinstance(problem, GatherProblem) else None
    if wrong is None:
        return None
    return CODES["EXP111"].finding(
        wrong.place,
        expected=wrong.valid,
        got=str(wrong.value),
        remedy="correct the constant: ONNX refuses such an index when the node runs, and a descriptor would clamp it",
    )
