"""An ONNX model of a graph whose problems are ONNX's."""

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
    """The steps "maximum with a number" before a "minimum with a number" that alone reads them, by the latter's output."""
    read = Counter([*(name for step in graph.steps for name in step.inputs), *graph.outputs])
    makers, found = graph.makers, {}
    for step in graph.steps:
        first = makers.get(step.inputs[0]) if is_bound(graph, step, "minimum") else None
        if first is not None and is_bound(graph, first, "maximum") and read[step.inputs[0]] == 1:
            found[step.outputs[0]] = first
    return found


def is_bound(graph: IndexGraph, step: Step, *operators: str) -> bool:
    """Whether a step is one of these operators with a number as its second input."""
    work = step.work
    if not isinstance(work, Elementwise) or work.operator not in operators:
        return False
    return step.inputs[1] in graph.constants and graph.constants[step.inputs[1]].shape == ()


OPERATORS = {
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
"""ONNX's operators for integer arithmetic, by NumPy's names."""

SELECTED_AS = {"bool": "uint8", "int16": "int32", "uint16": "uint32", "uint64": "int64"}
"""The types that onnxruntime's Where lacks, and types with the same values, or bits, that it has."""


LEAST_IR_VERSION = 4
"""Of ONNX's file format: before it, an initializer has to be an input, and no caller can give another value for it."""


class OnnxForm:
    """The nodes of a graph at an opset, while they are made. values: the type of each value that a node reads or writes."""

    def __init__(self, graph: IndexGraph, opset: int) -> None:
        self.graph, self.opset = graph, opset
        self.nodes: list[Any] = []
        self.types = dict(graph.types)
        self.constants: dict[str, NDArray[Any]] = dict(graph.constants)
        self.clamped = clamps(graph)
        self._bounds: dict[tuple[int, ...], str] = {}
        """The constants of `integers`, by their values."""

    def model(self, defaults: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> Any:
        """The ModelProto. defaults: values of inputs that a caller need not give. outputs: what the graph's outputs are called.

        UntranslatableError where the opset lacks an operator, or its version does not take a type.
        """
        from onnx import helper

        self.types = {name: self.types[value] for name, value in zip(outputs, self.graph.outputs, strict=True)} | self.types
        for step in self.graph.steps:
            self.add(step)
        for name, value in zip(outputs, self.graph.outputs, strict=True):
            if name != value:
                self.node("Identity", [value], [name])
        used = {name for node in self.nodes for name in node.input}
        kept = {name: array for name, array in self.constants.items() if name in used}
        body = helper.make_graph(
            self.nodes,
            "translated",
            [self._value_info(name) for name in self.graph.inputs],
            [self._value_info(name) for name in outputs],
            [_initializer(name, array) for name, array in {**kept, **defaults}.items()],
        )
        opset = helper.make_opsetid("", self.opset)
        version = max(helper.find_min_ir_version_for([opset]), LEAST_IR_VERSION)
        return helper.make_model(body, opset_imports=[opset], ir_version=version)

    def add(self, step: Step) -> None:
        """The nodes of a step."""
        work, inputs, outputs = step.work, step.inputs, step.outputs
        if isinstance(work, Elementwise):
            self._compute(step, work)
        elif isinstance(work, Concatenation):
            self.node("Concat", inputs, outputs, axis=work.axis)
        elif isinstance(work, Bitcast):
            try:
                self.node("BitCast", inputs, outputs, to=type_number(self.types[outputs[0]].dtype))
            except UntranslatableError as error:
                raise UntranslatableError(f"{step.name}: {error}") from None
        else:
            _OPERATORS[type(work)](self, work, inputs, outputs)

    def node(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """One node. UntranslatableError where the opset lacks the operator, or its version does not take the inputs' types."""
        from onnx import helper

        self._check(operator, inputs)
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=f"{operator} {len(self.nodes)}", **attributes))

    def integers(self, values: Sequence[int]) -> str:
        """The name of a constant, int64 [n]: a shape, or bounds."""
        key = tuple(values)
        if key not in self._bounds:
            array = np.array(values, np.int64)
            self._bounds[key] = name = self._new(f"int64 {array.tolist()}", TensorType(array.shape, array.dtype))
            self.constants[name] = array
        return self._bounds[key]

    def between(self, like: str, what: str, dtype: np.dtype[Any] | None = None) -> str:
        """A new value of the shape of another one."""
        tensor = self.types[like]
        return self._new(f"{like}: {what}", replace(tensor, dtype=dtype or tensor.dtype))

    def _new(self, name: str, tensor: TensorType) -> str:
        """A name that no other value has, for one of this type."""
        while name in self.types:
            name += "'"
        self.types[name] = tensor
        return name

    def _check(self, operator: str, inputs: Sequence[str]) -> None:
        from onnx import defs

        try:
            schema = defs.get_schema(operator, self.opset, "")
        except defs.SchemaError:
            versions = (each for each in defs.get_all_schemas_with_history() if (each.domain, each.name) == ("", operator))
            first = min((each.since_version for each in versions), default=None)
            newer = ", and the installed onnx knows no opset that has it: install a newer onnx"
            remedy = newer if first is None else f": use opset {first} or newer"
            raise UntranslatableError(f"opset {self.opset} has no {operator}{remedy}") from None
        taken = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
        for number, name in enumerate(inputs):
            formal = schema.inputs[min(number, len(schema.inputs) - 1)].type_str
            kind = TYPES.name_of(self.types[name].dtype) if name else None
            if kind is not None and f"tensor({kind})" not in taken.get(formal, [formal]):
                raise UntranslatableError(
                    f"{operator}-{schema.since_version}, which opset {self.opset} has, takes no {kind}: use a newer opset, or "
                    "another type"
                )

    def _compute(self, step: Step, work: Elementwise) -> None:
        (output,), inputs = step.outputs, step.inputs
        kind = SELECTED_AS.get(work.dtype.name)
        if step in self.clamped.values():
            return  # a part of the Clip behind it
        if work.operator == "cast":
            self.node("Cast", inputs, [output], to=type_number(work.dtype))
        elif output in self.clamped:
            self.node("Clip", [*self.clamped[output].inputs, inputs[1]], [output])
        elif is_bound(self.graph, step, "minimum", "maximum"):
            self.node("Clip", [inputs[0], "", inputs[1]] if work.operator == "minimum" else inputs, [output])
        elif work.operator == "where" and kind is not None:
            self._select_as(np.dtype(kind), inputs, output)
        else:
            self.node(OPERATORS[work.operator], inputs, [output])

    def _select_as(self, kind: np.dtype[Any], inputs: Sequence[str], output: str) -> None:
        """Where, in a type that onnxruntime has it for."""
        branches = []
        for name in inputs[1:]:
            branches.append(self.between(name, f"as {kind}", kind))
            self.node("Cast", [name], [branches[-1]], to=type_number(kind))
        selected = self.between(output, f"as {kind}", kind)
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


def _blocks(form: OnnxForm, problem: DepthSpaceProblem, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    mode = {"mode": problem.mode} if problem.version.since >= problem.mode_since else {}
    form.node(problem.name, inputs, outputs, blocksize=problem.blocksize, **mode)


_OPERATORS: Mapping[type[Problem], Callable[[OnnxForm, Any, Sequence[str], Sequence[str]], None]] = {
    ReshapeView: _reshape,
    TransposeView: _transpose,
    ExpandView: _expand,
    Gather: _gather,
    GatherElements: _gather,
    GatherND: _gather_nd,
    Slice: _slice,
    DepthToSpace: _blocks,
    SpaceToDepth: _blocks,
}
"""The nodes of each kind of problem that `OnnxProgram` states."""
