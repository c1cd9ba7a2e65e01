"""DirectML: problems for which its descriptors exist at a feature level, and the descriptors and model of a graph of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.descriptor_graph import dispatchable_of
from dmlgather.dialects.descriptor_problem import DescriptorProblem
from dmlgather.dialects.descriptors import storage_type
from dmlgather.dialects.exporter import Descriptors, Exporter
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, Step
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.view_forms import VIEW_FORMS
from dmlgather.dialects.views import ReshapeView, SliceView
from dmlgather.dialects.windows import Window
from dmlgather.directml import BufferTensorDesc, DataType, FeatureLevel, OperatorDesc, Report, validate
from dmlgather.directml.elements import dtype_of
from dmlgather.directml.fields import wire_name
from dmlgather.directml.tensor import rounded_up
from dmlgather.lax.problems import export as lax_export
from dmlgather.lax.problems.gather import INTEGERS, LaxGather
from dmlgather.numpy.problems import export as numpy_export
from dmlgather.onnx.problems import export as onnx_export
from dmlgather.openvino.problems import export as openvino_export
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.torch.problems import export as torch_export
from dmlgather.translation.gathering import Gathering
from dmlgather.translation.jax_target import lax_numbers, slice_sizes
from dmlgather.translation.targets import IndexRule, Target, UntranslatableError

SIGNED_INDICES = FeatureLevel.LEVEL_3_0
"""The first level at which gathers take signed indices."""


class DirectMLTarget(Target):
    """A program of problems that have descriptors. Indices are bound as they are: DirectML clamps what is out of range."""

    title = "DirectML"
    raises = False

    def __init__(self, graph: GraphBuilder, level: FeatureLevel) -> None:
        super().__init__(graph)
        self.level = level

    @property
    def axis_rule(self) -> IndexRule:
        return IndexRule(OutOfBounds.CLAMP, wraps=True, types=INTEGERS)

    def same(self, problem: Problem) -> Problem | None:
        if isinstance(problem, DescriptorProblem):
            packed = DescriptorProblem(_packed(problem.desc))
            return packed if validate(packed.desc, self.level).ok else None
        return problem if type(problem) in exporters() else None

    def stated_as(self, own: Problem, *inputs: str) -> str:
        if len(inputs) > 1:
            self._check_wrap(own.plan(), inputs[1])
        return super().stated_as(own, *inputs)

    def _check_wrap(self, plan: IndexPlan, indices: str) -> None:
        """UntranslatableError where negative indices count from the end, and the level takes unsigned ones alone."""
        wraps = any(lookup.wrap for lookup in plan.lookups) and self.type_of(indices).dtype.kind == "i"
        if wraps and self.level < SIGNED_INDICES and self.graph.known(indices) is None:
            raise UntranslatableError(
                f"negative indices count from the end, and level {self.level} takes UINT32 indices: use level {SIGNED_INDICES} "
                "or newer, or to_directml, whose descriptors are bound with indices that are converted"
            )

    def sliced(self, value: str, windows: Sequence[Window]) -> str:
        return self.stated_as(SliceView(self.type_of(value), tuple(windows)), value)

    def computed(self, operator: str, dtype: Any, *values: str) -> str:
        if all(self.graph.known(value) is not None for value in values):
            return super().computed(operator, dtype, *values)
        raise UntranslatableError(f"it is {operator} of computed values, which DirectML's gathers and slices cannot do")

    def along_axis(self, data: str, indices: str, axis: int) -> str:  # noqa: ARG002 - it always refuses
        raise UntranslatableError("DirectML's gathers and slices cannot compute positions from indices: give them as an input")

    def gathered(self, gathering: Gathering) -> str | None:
        plan = gathering.plan
        self._check_wrap(plan, gathering.indices)
        policy = OutOfBounds.CLAMP if plan.out_of_bounds is OutOfBounds.PROMISE else plan.out_of_bounds
        unchanged = IndexRule(policy, wraps=any(lookup.wrap for lookup in plan.lookups), types=INTEGERS)
        tuples = gathering.tuples(unchanged)
        numbers, written = lax_numbers(gathering, tuples.order)
        data, indices = self.type_of(gathering.data), self.type_of(tuples.value)
        own = LaxGather(data, indices, numbers, slice_sizes(gathering), OutOfBounds.CLAMP)
        return gathering.finished(self.stated_as(own, gathering.data, tuples.value), written)


@cache
def exporters() -> dict[type[Problem], Exporter]:
    """How each problem becomes descriptors."""
    views = Exporter(VIEW_FORMS, lambda problem: problem.name)
    rooms = (onnx_export, openvino_export, lax_export, numpy_export, torch_export)
    dialects = (views, *(room.EXPORTER for room in rooms))
    return {problem: exporter for exporter in dialects for problem in exporter.forms}


def _packed(desc: OperatorDesc) -> OperatorDesc:
    """A descriptor whose tensors have no strides, as a problem means it."""
    tensors = {
        field: BufferTensorDesc(data_type=desc.tensor(field).data_type, sizes=desc.tensor(field).sizes)
        for field in desc.operator.tensors
    }
    return desc.model_copy(update=tensors)


def descriptors_of(problem: Problem, level: FeatureLevel) -> Descriptors:
    """The descriptors of a problem that `DirectMLTarget` states. UntranslatableError where the level takes none."""
    if isinstance(problem, DescriptorProblem):
        return (problem.desc,)
    found = exporters()[type(problem)].express(problem, level)
    if isinstance(found, Report):
        raise UntranslatableError(
            "; ".join(
                f"{finding.code} {finding.path}: expected {finding.expected}, got {finding.got}" for finding in found.findings
            )
        )
    return found


# Descriptors of a graph whose problems have some, and the DxDispatch model that runs them.


class DispatchSequence:
    """The dispatches of a graph at a feature level. A reshaped value lies in the same buffer as the value itself."""

    def __init__(self, graph: IndexGraph, level: FeatureLevel) -> None:
        self.graph = graph
        self.buffers: dict[str, str] = {name: name for name in (*graph.inputs, *graph.constants)}
        """By value, the buffer that holds it."""
        self.dispatches: list[tuple[OperatorDesc, dict[str, str], str]] = []
        """Each with the buffer of each tensor, by field, and the name of the dispatchable, which several may have."""
        for step in graph.steps:
            self._add(step, level)
        wanted = {self.buffers[value] for value in graph.outputs}
        for dispatch in reversed(self.dispatches[:]):  # descriptors need not bind indices that cannot matter
            desc, bound, _ = dispatch
            if bound[desc.operator.output] in wanted:
                wanted.update(bound.values())
            else:
                self.dispatches.remove(dispatch)

    def _add(self, step: Step, level: FeatureLevel) -> None:
        work, output = step.work, step.outputs[0]
        if not isinstance(work, Problem):
            raise UntranslatableError(f"{step.name}: it joins several values, which DirectML's gathers and slices cannot do")
        if isinstance(work, ReshapeView):
            self.buffers[output] = self.buffers[step.inputs[0]]
            return
        before = self.buffers[step.inputs[0]]
        descs = descriptors_of(work, level)
        for number, desc in enumerate(descs):
            written = output if number == len(descs) - 1 else f"{output}: part {number}"
            bound = {"input_tensor": before, desc.operator.output: written}
            if "indices_tensor" in desc.operator.inputs:
                bound["indices_tensor"] = self.buffers[step.inputs[1]]
            self.dispatches.append((desc, bound, dispatchable_of(step.name) or desc.operator.name.lower()))
            before = written
        self.buffers[output] = output

    def form(self, outputs: Sequence[str]) -> tuple[OperatorDesc, ...] | dict[str, Any]:
        """The descriptors, where each further one's InputTensor is the output of the one before, indices are inputs and the last
        one writes the only output; else a model, as `model` gives.

        UntranslatableError where there are none.
        """
        if not self.dispatches:
            raise UntranslatableError("nothing is moved: the output is the input, or known, so that DirectML has nothing to do")
        before = self.graph.inputs[0]
        for desc, bound, _ in self.dispatches:
            if bound["input_tensor"] != before or bound.get("indices_tensor", self.graph.inputs[-1]) not in self.graph.inputs:
                return self.model(outputs)
            before = bound[desc.operator.output]
        if [self.buffers[value] for value in self.graph.outputs] != [before]:
            return self.model(outputs)
        return tuple(desc for desc, _, _ in self.dispatches)

    def model(self, outputs: Sequence[str], initial: Mapping[str, NDArray[Any]] | None = None) -> dict[str, Any]:
        """A DxDispatch model as JSON data: it prints the outputs, which are resources of these names. Inputs hold their `initial`
        values, by the graph's names, or zeros.

        Constants and initial values are listed. UntranslatableError where indices would have to be converted first.
        """
        known = {**(initial or {}), **self.graph.constants}
        names = dict(zip((self.buffers[value] for value in self.graph.outputs), outputs, strict=True))
        tensors: dict[str, tuple[BufferTensorDesc, int]] = {}
        dispatchables, commands = dict[str, Any](), list[dict[str, Any]]()
        for desc, bound, wanted in self.dispatches:
            name, number = wanted, 1
            while name in dispatchables:
                name, number = f"{wanted} ({number + 1})", number + 1
            dispatchables[name] = desc.document()
            bindings = {wire_name(field): names.get(buffer, buffer) for field, buffer in bound.items()}
            commands.append({"type": "dispatch", "dispatchable": name, "bindings": bindings})
            for field, buffer in bound.items():
                tensor = desc.tensor(field)
                self._check_type(buffer, tensor)
                elements = -(-tensor.total_bytes // tensor.data_type.bytes)
                if buffer not in tensors or tensors[buffer][1] < elements:
                    tensors[buffer] = tensor, elements
        resources = {
            names.get(buffer, buffer): {
                **(_listed(known[buffer], tensor.data_type) if buffer in known else self._zeros(buffer, tensor)),
                "sizeInBytes": rounded_up(max(elements, self._elements(buffer, tensor)) * tensor.data_type.bytes),
            }
            for buffer, (tensor, elements) in tensors.items()
        }
        commands += [{"type": "print", "resource": name} for name in names.values()]
        return {"resources": resources, "dispatchables": dispatchables, "commands": commands}

    def _check_type(self, buffer: str, tensor: BufferTensorDesc) -> None:
        """UntranslatableError for indices that the descriptor reads in another type than the graph has them in."""
        value = self.graph.types.get(buffer)
        stored = None if value is None else storage_type(value.dtype)
        if stored is not None and stored[0] is not tensor.data_type:
            raise UntranslatableError(
                f"the level reads {buffer!r}, which is {value}, as {tensor.data_type.name}: use level 3_0 or newer, or convert it"
            )

    def _zeros(self, buffer: str, tensor: BufferTensorDesc) -> dict[str, Any]:
        stated = {"valueCount": self._elements(buffer, tensor), "value": 0}
        return {"initialValuesDataType": tensor.data_type.name, "initialValues": stated}

    def _elements(self, buffer: str, tensor: BufferTensorDesc) -> int:
        """Of the value in a buffer, of which the tensor may be a part."""
        value = self.graph.types.get(buffer)
        return tensor.span if value is None else value.layout.extent


def _listed(array: NDArray[Any], data_type: DataType) -> dict[str, Any]:
    """The initial values of a resource, bit for bit: where one has no number in JSON, such as a NaN, as unsigned integers."""
    values = np.frombuffer(array.tobytes(), dtype_of(data_type))
    if not np.isfinite(values).all():
        data_type = next(kind for kind in _BITS if kind.bytes == data_type.bytes)
        values = values.view(dtype_of(data_type))
    bits = values.view(np.uint8).reshape(len(values), data_type.bytes)
    same = len(values) > 1 and bool((bits == bits[0]).all())
    stated = {"valueCount": len(values), "value": values[0].item()} if same else values.tolist()
    return {"initialValuesDataType": data_type.name, "initialValues": stated}


_BITS = (DataType.UINT16, DataType.UINT32, DataType.UINT64)
"""The types that have the bits of floats."""
