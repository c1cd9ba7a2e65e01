"""The libraries that are translated to: their versions, targets and forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem, TensorType, whole
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.directml import FeatureLevel
from dmlgather.onnx.problems.operator_versions import NEWEST_OPSET
from dmlgather.openvino.problems.data_types import INTEGERS, TYPES
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.operation_versions import NEWEST_OPSET as NEWEST_OPERATION_SET
from dmlgather.openvino.problems.operation_versions import OpenVINOProblem, version_in
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice
from dmlgather.plan import OutOfBounds
from dmlgather.translation.directml_target import DirectMLTarget, DispatchSequence
from dmlgather.translation.forms import InBatches, OperatorTarget
from dmlgather.translation.jax_target import JaxTarget, jax_function
from dmlgather.translation.onnx_target import OnnxForm, OnnxTarget
from dmlgather.translation.targets import IndexRule, Target, UntranslatableError

# An OpenVINO model of a graph whose problems are OpenVINO's.

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


# OpenVINO: problems in the operations of one of its operation sets.

LEAST = -(2**63) + 1
"""An end of a slice that lies before every element."""

INDEX_TYPES = tuple(TYPES.names[name] for name in ("i32", "i64", *(name for name in INTEGERS if name not in ("i32", "i64"))))


class OpenVINOTarget(OperatorTarget):
    """A program in OpenVINO's operations."""

    title = "OpenVINO"

    def __init__(self, graph: GraphBuilder, opset: int) -> None:
        super().__init__(graph)
        self.opset = opset
        self.gather_version = version_in("Gather", opset).since

    @property
    def in_batches(self) -> InBatches | None:
        return self._in_batches if self.gather_version > 1 else None

    @property
    def axis_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.FILL, wraps=self.gather_version == 8, types=INDEX_TYPES, only_zero=True)

    @property
    def elements_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.RAISE, wraps=True, types=("int32", "int64"))

    @property
    def tuples_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.RAISE, wraps=True, types=INDEX_TYPES)

    def same(self, problem: Problem) -> Problem | None:
        if not isinstance(problem, OpenVINOProblem):
            return None
        return replace(problem, version=version_in(problem.name, self.opset).since)  # type: ignore[type-var] # all are

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        tensor = self.type_of(value)
        starts = [window.start for window in windows]
        steps = [window.step for window in windows]
        ends = [window.start + window.count * window.step for window in windows]
        ends = [end if end >= 0 else LEAST for end in ends]
        if self.opset >= 8:
            axes = tuple(axis for axis, window in enumerate(windows) if window != Window.whole(tensor.shape[axis]))
            start, stop, step = (tuple(values[axis] for axis in axes) for values in (starts, ends, steps))
            return self.stated_as(OpenVINOSlice(tensor, start, stop, step, axes, version_in("Slice", self.opset).since), value)
        return self.stated_as(OpenVINOStridedSlice(tensor, tuple(starts), tuple(ends), tuple(steps)), value)

    def along_axis(self, data: str, indices: str, axis: int) -> str:
        return self._in_batches(data, indices, axis, 0)

    def _in_batches(self, data: str, indices: str, axis: int, batch: int) -> str:
        own = OpenVINOGather(self.type_of(data), self.type_of(indices), axis, batch, self.gather_version)
        return self.stated_as(own, data, indices)

    def elements(self, data: str, indices: str, axis: int) -> str:
        version = version_in("GatherElements", self.opset).since
        return self.stated_as(OpenVINOGatherElements(self.type_of(data), self.type_of(indices), axis, version), data, indices)

    def tuples(self, data: str, indices: str, batch: int) -> str:
        version = version_in("GatherND", self.opset).since
        own = OpenVINOGatherND(self.type_of(data), self.type_of(indices), batch, version)
        result = self.stated_as(own, data, indices)
        if not own.merges_batches:
            return result
        return (
            self.reshaped(result, (*self.type_of(data).shape[:batch], *own.output.shape[1:]))
            if prod(own.output.shape)
            else result
        )


class TargetRow(NamedTuple):
    """A library that problems are translated to.

    package: what must be installed. option: the argument of `translate` that says which version; empty where there is
    none. default: its value. check: the version that an argument means; ValueError or TypeError for none. target: of a graph and
    the version. form: what runs, of the translated graph, the version and what the outputs are called.
    """

    package: str
    option: str
    default: Any
    check: Callable[[Any], Any]
    target: Callable[[GraphBuilder, Any], Target]
    form: Callable[[IndexGraph, Any, Sequence[str]], Any]


def _opset(value: Any) -> int:
    import onnx

    opset, known = _between("opset", value, 1, NEWEST_OPSET), onnx.defs.onnx_opset_version()
    if opset > known:
        raise ValueError(
            f"opset is {opset}, but onnx {onnx.__version__}, which is installed, knows opsets up to {known}: use one of these, "
            "or a newer onnx (pip install --upgrade onnx)"
        )
    return opset


def _operation_set(value: Any) -> int:
    return _between("version", value, 1, NEWEST_OPERATION_SET)


def _between(name: str, value: Any, first: int, last: int) -> int:
    number = whole(name, value)
    if not first <= number <= last:
        raise ValueError(f"{name} is {number}, expected {first} … {last}")
    return number


def _onnx(graph: IndexGraph, opset: int, outputs: Sequence[str]) -> Any:
    return OnnxForm(graph, opset).model({}, outputs)


def _openvino(graph: IndexGraph, _: int, outputs: Sequence[str]) -> Any:
    return openvino_model(graph, outputs)


def _jax(graph: IndexGraph, *_: Any) -> Any:
    return jax_function(graph)


def _directml(graph: IndexGraph, level: FeatureLevel, outputs: Sequence[str]) -> Any:
    return DispatchSequence(graph, level).form(outputs)


TARGETS: Mapping[str, TargetRow] = {
    "onnx": TargetRow("onnx", "opset", 13, _opset, OnnxTarget, _onnx),
    "openvino": TargetRow("openvino", "version", 16, _operation_set, OpenVINOTarget, _openvino),
    "jax": TargetRow("jax", "", None, lambda _: None, lambda graph, _: JaxTarget(graph), _jax),
    "directml": TargetRow("numpy", "level", "6_4", FeatureLevel.parse, DirectMLTarget, _directml),
}
"""By name."""
