"""Exports ONNX's nodes to DirectML's descriptors, and reports constant indices that are out of range."""

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
"""One value for each input of a node, in order or by name."""


class NodeInput(NamedTuple):
    """One input of a node. `type`: None unless shape and data type are known. `value`: None unless the input is a constant."""

    type: TensorType | None
    value: Any | None
    description: str


def node_inputs(node: Any, shapes: ByInput, dtypes: ByInput, constants: Mapping[str, Any]) -> list[NodeInput]:
    """Return the inputs of a node, in order. The parameters are the same as in `to_directml`."""
    if not hasattr(node, "input") or not hasattr(node, "op_type"):
        raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
    names = list(node.input)
    pairs = zip(names, _by_input("shapes", shapes, names), _by_input("dtypes", dtypes, names), strict=True)
    return [_input(name, shape, dtype, constants.get(name)) for name, shape, dtype in pairs]


def _by_input(argument: str, values: ByInput, names: Sequence[str]) -> list[Any]:
    if isinstance(values, Mapping):
        return [values.get(name) for name in names]
    if len(values) > len(names):
        raise ValueError(f"{argument} has {len(values)} entries, but the node has {len(names)} inputs ({', '.join(names)})")
    return [*values, *[None] * (len(names) - len(values))]


def _input(name: str, shape: Any, dtype: Any, constant: Any) -> NodeInput:
    description = f"shape {'not stated' if shape is None else shape}, type {'not stated' if dtype is None else dtype}"
    numpy_dtype = None if dtype is None else _dtype(name, dtype)
    sizes = None if shape is None else _sizes(shape)
    if constant is not None:
        value = constant if hasattr(constant, "dtype") else np.asarray(constant, numpy_dtype)
        tensor = TensorType(tuple(value.shape), numpy_type(value.dtype))
        if sizes is not None and sizes != tensor.shape:
            raise ValueError(f"{name!r} has shape {sizes} in shapes, but the constant has {tensor.shape}")
        if numpy_dtype is not None and numpy_dtype != tensor.dtype:
            raise ValueError(f"{name!r} has type {numpy_dtype} in dtypes, but the constant has {tensor.dtype}")
        return NodeInput(tensor, tuple(constant) if isinstance(constant, list | tuple) else value, description)
    return NodeInput(None if numpy_dtype is None or sizes is None else TensorType(sizes, numpy_dtype), None, description)


def _dtype(name: str, value: Any) -> np.dtype[Any] | None:
    """Return the NumPy type for a type, its name, or its number in TensorProto.DataType. Return None for 0 (UNDEFINED)."""
    if not isinstance(value, int):
        try:
            return numpy_type(value)
        except TypeError as error:
            raise TypeError(f"{name!r} has type {value!r} in dtypes: {error}") from None
    dtype = data_type(value)
    if dtype is None and value != 0:
        raise TypeError(f"{name!r} has type {value} in dtypes, which is no data type of ONNX")
    return dtype


def _sizes(shape: Any) -> tuple[int, ...] | None:
    """Return the sizes of a shape, or None if a size is unknown. Some exporters write unknown sizes as negative numbers."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
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
    """Return the DirectML descriptor of an ONNX node, or a report of why it has none.

    `node`: an onnx.NodeProto of Gather, GatherElements, GatherND, Slice, DepthToSpace or SpaceToDepth. `shapes`, `dtypes`: the
    shape and the data type of each input, by input name or in the order of the inputs. A data type is NumPy's type or its name,
    or a number of TensorProto.DataType. `level`: the feature level. `opset`: the model's opset. `constants`: the elements of
    constant inputs, as arrays or lists of integers, by input name. A constant needs no shape or type. Slice needs starts, ends,
    axes and steps here. Constant indices are checked.

    Returns one descriptor, or a tuple of descriptors in the order of execution if one is not enough. Returns a Report if an
    input has an unknown type, size or bound, if the node breaks a rule of its operator, or if the level cannot express the
    node. `docs/expressing.md` lists the reasons.

    To run a descriptor, bind data to InputTensor, indices to IndicesTensor and a new buffer to OutputTensor:

    - Data: the packed bytes of the array, padded to TotalTensorSizeInBytes. The described type has the same bits: UINT8 for bool,
      UINT16 for bfloat16, UINT64 for complex64, and UINT64 with an extra last dimension of size 2 for complex128.
    - Indices: converted to the described type, packed and padded. Before a conversion to UINT32 (levels before 3_0), add the
      axis's size to negative indices.
    - Several descriptors: the first takes the data. Each further one takes the output of the descriptor before it. The last also
      takes the indices.
    - The output has the node's elements in the node's order; its described dimensions may differ.

    ONNX refuses an index out of range; DirectML clamps it. Check indices that are not constant before you bind them.

    Raises ValueError if the level is unknown, if there are more shapes or types than inputs, or if a constant contradicts
    `shapes` or `dtypes`. Raises TypeError if a data type is unknown, or if the opset is not an integer.

    >>> from onnx.helper import make_node
    >>> node = make_node("Gather", ["table", "ids"], ["rows"], axis=0)
    >>> desc = dg.onnx.to_directml(node, {"table": (100, 8), "ids": (5,)}, {"table": "float32", "ids": "int64"})
    >>> desc.operator.name, desc.output_tensor.sizes
    ('GATHER', (5, 8))
    """
    feature_level = FeatureLevel.parse(level)
    opset = whole("opset", opset)
    inputs = node_inputs(node, shapes, dtypes, constants or {})
    problem = _problem(node, opset, inputs)
    if isinstance(problem, Finding):
        return Report(subject=f"ONNX {_operator(node, opset)}", level=feature_level, findings=(problem,))
    descs = express(problem, feature_level)
    bad_index = index_out_of_range(problem, inputs[1].value) if len(inputs) > 1 and inputs[1].value is not None else None
    if bad_index is not None:
        others = descs.findings if isinstance(descs, Report) else ()
        return Report(subject=EXPORTER.title(problem), level=feature_level, findings=(bad_index, *others))
    return descs if isinstance(descs, Report) or len(descs) > 1 else descs[0]


def _problem(node: Any, opset: int, inputs: list[NodeInput]) -> Problem | Finding:
    if not in_family(node):
        return CODES["EXP109"].finding(
            "",
            expected=f"{alternatives(FAMILY)} of ONNX's own operators",
            got=f"{node.op_type} of domain {node.domain!r}",
            remedy="describe it with the DirectML operator that does the same; those of this family only gather and slice",
        )
    try:
        return problem_of(node, opset, [item.type for item in inputs], [item.value for item in inputs])
    except UnknownValueError as unknown:
        return _unknown_value(node, unknown)
    except UnknownTypeError as unknown:
        description = next(item.description for name, item in zip(node.input, inputs, strict=True) if name == unknown.value)
        return CODES["EXP108"].finding(
            unknown.input,
            expected="a size of at least 0 for each dimension, and a type",
            got=f"{unknown.value!r} with {description}",
            remedy="state both, with a number for each size; sizes that change from run to run need a descriptor for each",
        )
    except (TypeError, ValueError) as error:
        return broken_rule(node, opset, str(error))


def broken_rule(node: Any, opset: int, message: str) -> Finding:
    """Return finding EXP101: the node breaks the rule that `message` states."""
    remark = UNEQUAL_BATCHES if message.startswith(UNEQUAL_BATCH) else "ONNX itself refuses it"
    return CODES["EXP101"].finding(
        "",
        expected=f"a node that {_operator(node, opset)} allows",
        got=message,
        remedy=f"correct the node, or the types and shapes of its inputs; {remark}",
    )


UNEQUAL_BATCHES = (
    "ONNX does not allow it; onnxruntime's CPU runs it if the number of index tuples is a multiple of data's batch count. "
    "It then gives each batch equally many tuples, in order"
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
    """Return the operator with its version, such as "Slice-13". If the opset is too old, return only its name."""
    try:
        return str(version_of(node.op_type, opset)) if in_family(node) else str(node.op_type)
    except ValueError:  # the opset is older than the operator
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
"""Ends of a slice with negative step that ONNX and onnxruntime understand differently.

By ONNX, the slice is empty. onnxruntime's CPU provider takes all elements to the front of the axis.
"""

FRONT = -(2**31 - 1)
"""The end to write instead: ONNX and all of onnxruntime's providers take it as the front of the axis."""


def _empty_output_remedy(problem: Problem, axis: int) -> str | None:
    """Return advice on a slice that is empty by ONNX's rules, but not in onnxruntime. Return None for other problems."""
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


EXPORTER = Exporter(_FORMS, lambda problem: f"ONNX {problem.version}", needed_by_tuples, empty_output_remedy=_empty_output_remedy)
express = EXPORTER.express


def index_out_of_range(problem: Problem, indices: Any, most: Mapping[int, int | None] | None = None) -> Finding | None:
    """Return a finding about the first index out of range, or None.

    `most`: the largest sizes of data's unknown dimensions. None means no limit.
    """
    bad_index = first_out_of_range(problem, indices, most) if isinstance(problem, GatherProblem) else None
    if bad_index is None:
        return None
    remedy = "correct the constant: ONNX refuses such an index when the node runs, and a descriptor would clamp it"
    if isinstance(problem, Gather) and not problem.wraps and bad_index.value < 0:
        remedy = _negative_remedy(problem, bad_index.value, most or {})
    return CODES["EXP111"].finding(
        bad_index.place,
        expected=bad_index.valid,
        got=str(bad_index.value),
        remedy=remedy,
    )


def _negative_remedy(problem: Gather, index: int, most: Mapping[int, int | None]) -> str:
    """Return advice on a negative index of Gather-1. `most`: the largest sizes of data's unknown dimensions."""
    position = index + problem.data.shape[problem.axis]
    if problem.axis in most:
        positive = "count it from the front"
    elif position >= 0:
        positive = f"write {position}"
    else:
        return "correct the constant: no version of Gather and no runtime has such an element"
    return (
        f"{positive}, or use opset 11 or newer: Gather-1 has no negative indices, newer versions count them from the end, and "
        "onnxruntime does so in every opset"
    )
