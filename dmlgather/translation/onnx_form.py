"""Conversion of a graph of ONNX problems into an ONNX model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import Bitcast, Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, TransposeView
from dmlgather.onnx.problems.data_types import TYPES, type_number
from dmlgather.onnx.problems.depth_space import DepthSpaceProblem, DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.slice import Slice
from dmlgather.translation.onnx_operators import UntranslatableError


def clamps(graph: IndexGraph) -> dict[str, Step]:
    """Find pairs of steps minimum(maximum(x, low), high). Each pair becomes one Clip.

    Return the step maximum(x, low) of each pair, by the name of the pair's output. No other step reads the maximum.
    """
    uses = Counter([*(name for step in graph.steps for name in step.inputs), *graph.outputs])
    makers, maxima = graph.makers, {}
    for step in graph.steps:
        maximum = makers.get(step.inputs[0]) if has_scalar(graph, step, "minimum") else None
        if maximum is not None and has_scalar(graph, maximum, "maximum") and uses[step.inputs[0]] == 1:
            maxima[step.outputs[0]] = maximum
    return maxima


def has_scalar(graph: IndexGraph, step: Step, *operators: str) -> bool:
    """Return True if a step is one of these operators and its second input is a scalar constant."""
    work = step.work
    if not isinstance(work, Elementwise) or work.operator not in operators:
        return False
    return step.inputs[1] in graph.constants and graph.constants[step.inputs[1]].shape == ()


_OPERATORS = {
    "add": "Add",
    "multiply": "Mul",
    "minimum": "Min",
    "remainder": "Mod",
    "maximum": "Max",
    "less": "Less",
    "equal": "Equal",
    "and": "And",
    "where": "Where",
}
"""The ONNX operator for each operator of `Elementwise`."""

_WHERE_TYPES = {"bool": "uint8", "int16": "int32", "uint16": "uint32", "uint64": "int64"}
"""Types that onnxruntime's Where lacks, each with a type to which its values can be cast and back without loss."""


_MIN_IR_VERSION = 4
"""First version of ONNX's file format in which a constant need not be a graph input."""


class OnnxForm:
    """An ONNX model under construction."""

    def __init__(self, graph: IndexGraph, opset: int) -> None:
        self.graph, self.opset = graph, opset
        self.nodes: list[Any] = []
        self.types = dict(graph.types)
        self.constants: dict[str, NDArray[Any]] = dict(graph.constants)
        self.clamps = clamps(graph)
        self._integers: dict[tuple[int, ...], str] = {}
        """Names of int64 constants, by their elements."""

    def model(self, defaults: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> Any:
        """Return the onnx.ModelProto. `defaults`: the initial values of inputs.

        Raises UntranslatableError if ONNX lacks an operator.
        """
        from onnx import helper

        self.types = {name: self.types[value] for name, value in zip(outputs, self.graph.outputs, strict=True)} | self.types
        for step in self.graph.steps:
            self.add(step)
        for name, value in zip(outputs, self.graph.outputs, strict=True):
            if name != value:
                self.node("Identity", [value], [name])
        read = {name for node in self.nodes for name in node.input}
        constants = {name: array for name, array in self.constants.items() if name in read}
        body = helper.make_graph(
            self.nodes,
            "translated",
            [self._value_info(name) for name in self.graph.inputs],
            [self._value_info(name) for name in outputs],
            [_initializer(name, array) for name, array in {**constants, **defaults}.items()],
        )
        opset = helper.make_opsetid("", self.opset)
        version = max(helper.find_min_ir_version_for([opset]), _MIN_IR_VERSION)
        return helper.make_model(body, opset_imports=[opset], ir_version=version)

    def add(self, step: Step) -> None:
        """Add the ONNX nodes for a step."""
        work, inputs, outputs = step.work, step.inputs, step.outputs
        if isinstance(work, Elementwise):
            self._add_elementwise(step, work)
        elif isinstance(work, Concatenation):
            self.node("Concat", inputs, outputs, axis=work.axis)
        elif isinstance(work, Bitcast):
            try:
                self.node("BitCast", inputs, outputs, to=type_number(self.types[outputs[0]].dtype))
            except UntranslatableError as error:
                raise UntranslatableError(f"{step.name}: {error}") from None
        else:
            _PROBLEM_NODES[type(work)](self, work, inputs, outputs)

    def node(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """Add one node. Raises UntranslatableError if the opset lacks the operator or a data type."""
        from onnx import helper

        self._check(operator, inputs)
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=f"{operator} {len(self.nodes)}", **attributes))

    def integers(self, values: Sequence[int]) -> str:
        """Return the name of an int64 constant of shape [n]. Equal values share one constant."""
        key = tuple(values)
        if key not in self._integers:
            array = np.array(values, np.int64)
            self._integers[key] = name = self._new(f"int64 {array.tolist()}", TensorType(array.shape, array.dtype))
            self.constants[name] = array
        return self._integers[key]

    def _new(self, name: str, tensor: TensorType) -> str:
        """Record a new value's type. If `name` is taken, append apostrophes. Return the name."""
        while name in self.types:
            name += "'"
        self.types[name] = tensor
        return name

    def _check(self, operator: str, inputs: Sequence[str]) -> None:
        from onnx import defs

        try:
            schema = defs.get_schema(operator, self.opset, "")
        except defs.SchemaError:
            schemas = [schema for schema in defs.get_all_schemas_with_history() if (schema.domain, schema.name) == ("", operator)]
            first = min((schema.since_version for schema in schemas), default=None)
            newer = ", and the installed onnx knows no opset that has it: install a newer onnx"
            remedy = newer if first is None else f": use opset {first} or newer"
            raise UntranslatableError(f"opset {self.opset} has no {operator}{remedy}") from None
        allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
        for number, name in enumerate(inputs):
            formal = schema.inputs[min(number, len(schema.inputs) - 1)].type_str
            dtype = TYPES.name_of(self.types[name].dtype) if name else None
            if dtype is not None and f"tensor({dtype})" not in allowed.get(formal, [formal]):
                raise UntranslatableError(
                    f"{operator}-{schema.since_version}, which opset {self.opset} has, takes no {dtype}: use a newer opset, or "
                    "another type"
                )

    def _add_elementwise(self, step: Step, work: Elementwise) -> None:
        (output,), inputs = step.outputs, step.inputs
        where_type = _WHERE_TYPES.get(work.dtype.name)
        if step in self.clamps.values():
            return  # the Clip of the minimum includes this maximum
        if work.operator == "cast":
            self.node("Cast", inputs, [output], to=type_number(work.dtype))
        elif output in self.clamps:
            self.node("Clip", [*self.clamps[output].inputs, inputs[1]], [output])
        elif has_scalar(self.graph, step, "minimum", "maximum"):
            self.node("Clip", [inputs[0], "", inputs[1]] if work.operator == "minimum" else inputs, [output])
        elif work.operator == "where" and where_type is not None:
            self._add_where(np.dtype(where_type), inputs, output)
        else:
            self.node(_OPERATORS[work.operator], inputs, [output])

    def _add_where(self, dtype: np.dtype[Any], inputs: Sequence[str], output: str) -> None:
        """Add a Where that computes in another data type, with casts before and after."""
        branches = []
        for name in inputs[1:]:
            branches.append(self._new(f"{name}: as {dtype}", replace(self.types[name], dtype=dtype)))
            self.node("Cast", [name], [branches[-1]], to=type_number(dtype))
        selected = self._new(f"{output}: as {dtype}", replace(self.types[output], dtype=dtype))
        self.node("Where", [inputs[0], *branches], [selected])
        self.node("Cast", [selected], [output], to=type_number(self.types[output].dtype))

    def _value_info(self, name: str) -> Any:
        from onnx import helper

        tensor = self.types[name]
        return helper.make_tensor_value_info(name, type_number(tensor.dtype), tensor.shape)


def _initializer(name: str, array: NDArray[Any]) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def _reshape(form: OnnxForm, view: ReshapeView, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    attributes = {}
    if 0 in view.shape:
        if form.opset < 14:
            raise UntranslatableError(
                f"opset {form.opset} cannot reshape to {list(view.shape)}, because a size of 0 stands for the input's: use 14"
            )
        attributes["allowzero"] = 1
    form.node("Reshape", [*inputs, form.integers(view.shape)], outputs, **attributes)


def _transpose(form: OnnxForm, view: TransposeView, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    form.node("Transpose", inputs, outputs, perm=view.order)


def _expand(form: OnnxForm, view: ExpandView, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    form.node("Expand", [*inputs, form.integers(view.shape)], outputs)


def _gather(form: OnnxForm, problem: Gather | GatherElements, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    form.node(problem.name, inputs, outputs, axis=problem.axis)


def _gather_nd(form: OnnxForm, problem: GatherND, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    form.node(problem.name, inputs, outputs, **({"batch_dims": problem.batch_dims} if problem.batch_dims else {}))


def _slice(form: OnnxForm, problem: Slice, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    axes, steps = problem.axes or (), problem.steps or ()
    if problem.version.since < 10:
        form.node("Slice", inputs, outputs, starts=problem.starts, ends=problem.ends, axes=axes)
        return
    bounds = [problem.starts, problem.ends, axes, *([steps] if set(steps) != {1} else [])]
    form.node("Slice", [*inputs, *map(form.integers, bounds)], outputs)


def _depth_space(form: OnnxForm, problem: DepthSpaceProblem, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    mode = {"mode": problem.mode} if problem.version.since >= problem.mode_since else {}
    form.node(problem.name, inputs, outputs, blocksize=problem.blocksize, **mode)


_PROBLEM_NODES: Mapping[type[Problem], Callable[[OnnxForm, Any, Sequence[str], Sequence[str]], None]] = {
    ReshapeView: _reshape,
    TransposeView: _transpose,
    ExpandView: _expand,
    Gather: _gather,
    GatherElements: _gather,
    GatherND: _gather_nd,
    Slice: _slice,
    DepthToSpace: _depth_space,
    SpaceToDepth: _depth_space,
}
"""Functions that add a problem's ONNX node."""
