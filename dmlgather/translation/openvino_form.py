"""An OpenVINO model of a graph whose problems are OpenVINO's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.openvino.problems.data_types import TYPES
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice
from dmlgather.translation.targets import UntranslatableError

OPERATIONS = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "negative": "negative",
    "remainder": "floor_mod",
    "minimum": "minimum",
    "maximum": "maximum",
    "less": "less",
    "less_equal": "less_equal",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "equal": "equal",
    "not_equal": "not_equal",
    "and": "logical_and",
    "or": "logical_or",
    "not": "logical_not",
    "where": "select",
}
"""The operations of opset1 for integer arithmetic, by NumPy's names."""

Nodes = Sequence[Any]


def openvino_model(graph: IndexGraph, outputs: Sequence[str]) -> Any:
    """The openvino.Model. outputs: what the graph's outputs are called.

    UntranslatableError for a type that OpenVINO lacks; ModuleNotFoundError without the package openvino.
    """
    openvino: Any = import_module("openvino")
    values: dict[str, Any] = {}
    for name in graph.inputs:
        tensor = graph.types[name]
        values[name] = openvino.op.Parameter(_type(openvino, tensor), openvino.PartialShape(list(tensor.shape)))
        _name(values[name], name)
    parameters = [values[name] for name in graph.inputs]
    for name, array in graph.constants.items():
        values[name] = _constant(openvino, array)
    for step in graph.steps:
        values[step.outputs[0]] = _node(openvino, step, [values[name] for name in step.inputs])
    results = []
    for name, value in zip(outputs, graph.outputs, strict=True):
        results.append(openvino.opset1.result(values[value]))
        _name(results[-1], name)
    return openvino.Model(results, parameters, "translated")


def _node(openvino: Any, step: Step, inputs: Nodes) -> Any:
    work = step.work
    match work:
        case Elementwise():
            if work.operator == "cast":
                return openvino.opset1.convert(inputs[0], TYPES.name_of(work.dtype))
            return getattr(openvino.opset1, OPERATIONS[work.operator])(*inputs)
        case Concatenation():
            return openvino.opset1.concat(list(inputs), work.axis)
    assert isinstance(work, Problem), "no other is restated"
    return _OPERATIONS[type(work)](openvino, work, inputs)


def _type(openvino: Any, tensor: TensorType) -> Any:
    name = TYPES.name_of(tensor.dtype)
    if name not in TYPES.names:
        raise UntranslatableError(f"OpenVINO has no type for {name}: convert the data first")
    return getattr(openvino.Type, name)


def _constant(openvino: Any, array: NDArray[Any]) -> Any:
    tensor = TensorType(array.shape, array.dtype)
    if array.dtype.isbuiltin:
        return openvino.op.Constant(np.ascontiguousarray(array).reshape(array.shape))
    made = openvino.Tensor(_type(openvino, tensor), openvino.Shape(list(array.shape)))
    made.data[...] = array.view(made.data.dtype)
    return openvino.op.Constant(made)


def _name(node: Any, name: str) -> None:
    node.set_friendly_name(name)
    node.output(0).get_tensor().set_names({name})


def _numbers(openvino: Any, values: Sequence[int]) -> Any:
    return openvino.op.Constant(np.array(values, np.int64))


def _reshape(openvino: Any, view: ReshapeView, inputs: Nodes) -> Any:
    return openvino.opset1.reshape(inputs[0], _numbers(openvino, view.shape), special_zero=False)


def _transpose(openvino: Any, view: TransposeView, inputs: Nodes) -> Any:
    return openvino.opset1.transpose(inputs[0], _numbers(openvino, view.order))


def _expand(openvino: Any, view: ExpandView, inputs: Nodes) -> Any:
    return openvino.opset3.broadcast(inputs[0], _numbers(openvino, view.shape))


def _gather(openvino: Any, problem: OpenVINOGather, inputs: Nodes) -> Any:
    gather = getattr(openvino, f"opset{problem.version}").gather
    batch = {} if problem.version == 1 else {"batch_dims": problem.batch_dims}
    return gather(*inputs, openvino.op.Constant(np.array(problem.axis, np.int64)), **batch)


def _gather_elements(openvino: Any, problem: OpenVINOGatherElements, inputs: Nodes) -> Any:
    return openvino.opset6.gather_elements(*inputs, problem.axis)


def _gather_nd(openvino: Any, problem: OpenVINOGatherND, inputs: Nodes) -> Any:
    return getattr(openvino, f"opset{problem.version}").gather_nd(*inputs, problem.batch_dims)


def _slice(openvino: Any, problem: OpenVINOSlice, inputs: Nodes) -> Any:
    bounds = (problem.start, problem.stop, problem.step, problem.axes or ())
    return openvino.opset8.slice(inputs[0], *(_numbers(openvino, values) for values in bounds))


def _strided_slice(openvino: Any, problem: OpenVINOStridedSlice, inputs: Nodes) -> Any:
    bounds = (problem.begin, problem.end, problem.strides or ())
    masks = (problem.begin_mask, problem.end_mask, problem.new_axis_mask, problem.shrink_axis_mask, problem.ellipsis_mask)
    return openvino.opset1.strided_slice(inputs[0], *(_numbers(openvino, values) for values in bounds), *map(list, masks))


_OPERATIONS: Mapping[type[Problem], Callable[[Any, Any, Nodes], Any]] = {
    ReshapeView: _reshape,
    TransposeView: _transpose,
    ExpandView: _expand,
    OpenVINOGather: _gather,
    OpenVINOGatherElements: _gather_elements,
    OpenVINOGatherND: _gather_nd,
    OpenVINOSlice: _slice,
    OpenVINOStridedSlice: _strided_slice,
}
"""The node of each kind of problem that `OpenVINOTarget` states."""
