"""Conversion of DirectML descriptors, DxDispatch models and streams (files with one descriptor per line) to an `IndexGraph`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np

from dmlgather.dialects.buffer_contents import BufferContents, BufferPart
from dmlgather.dialects.descriptor_problem import DescriptorProblem, tensor_type
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.directml import BufferTensorDesc, OperatorDesc, validate
from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.descriptor_lines import check_lines_file
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.reading import OTHER
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.dxdispatch.writing import count
from dmlgather.directml.fields import wire_name
from dmlgather.directml.findings import FileProblem, LocatedFinding
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import FileError
from dmlgather.plan import Layout, packed_strides
from dmlgather.wording import braces


def descriptor_graph(descriptors: Sequence[OperatorDesc]) -> IndexGraph:
    """Return the graph of a chain of descriptors. The output of each descriptor is the InputTensor of the next one.

    The inputs are the first InputTensor, then each IndicesTensor. An input with Strides becomes a one-dimensional array: its
    whole buffer. Raises DescriptorError for a descriptor that feature level 6_4 refuses, ValueError if the chain is empty or
    does not fit together.
    """
    if not descriptors:
        raise ValueError("expected at least one descriptor, got none")
    for desc in descriptors:
        validate(desc).raise_for_errors()
    for number, (writer, reader) in enumerate(pairwise(descriptors), 1):
        _check_fit(number, writer, reader)
    graph, before = GraphBuilder(), None
    for desc in descriptors:
        inputs = []
        for field in desc.operator.inputs:
            tensor, name = desc.tensor(field), f"{desc.operator.name}: {wire_name(field)}"
            if before is None or field != "input_tensor":
                shape = tensor.sizes if tensor.strides is None else (count(tensor),)
                value = graph.input(wire_name(field), TensorType(shape, tensor_type(tensor).dtype))
                contents = _filled(graph, wire_name(field), value)
            else:
                contents = before
            inputs.append(contents.read(replace(tensor.layout(), offset=0), tensor_type(tensor).dtype, name))
        result = graph.problem(desc.operator.name, DescriptorProblem(desc), *inputs, output="OutputTensor")
        before = BufferContents(graph, "OutputTensor", ())
        before.write(result, desc.tensor(desc.operator.output).layout())
    return graph.build([result])


def _check_fit(number: int, writer: OperatorDesc, reader: OperatorDesc) -> None:
    written, read = writer.tensor(writer.operator.output), reader.tensor("input_tensor")
    if written.span * written.data_type.bytes < read.span * read.data_type.bytes:
        has, needs = (f"{tensor.data_type.name} {braces(tensor.sizes)}" for tensor in (written, read))
        raise ValueError(
            f"descriptor {number} ({writer.operator.name}) writes OutputTensor {has}, but descriptor {number + 1} "
            f"({reader.operator.name}) reads InputTensor {needs}, which is larger: state equal "
            "sizes in both, or put another descriptor between them"
        )


def model_graph(model: CheckedFile) -> IndexGraph:
    """Return the graph of a DxDispatch model. Every dispatch becomes a problem on arrays with the Sizes of its tensors.

    - The inputs are the initial values of resources, as far as outputs depend on them. An input has the Sizes of the first
      tensor that reads it, if this tensor is packed and covers all initial values. Otherwise it has one dimension.
    - The outputs are values that dispatches wrote. First come the values that print and writeFile commands show, then the
      final contents of resources that no later command reads or shows.
    - Inputs and outputs have the names of their resources. "(before)" is added to an input that is also an output.
      If a resource has several outputs, all but the first get a number.

    Raises ValueError for a model with errors or refusals.
    """
    if not model.ok or model.refusals:
        raise ValueError(f"{model.file} has problems, errors or parts that cannot be executed; check_file lists them")
    return _ModelGraph(model).graph()


def _filled(graph: GraphBuilder, name: str, value: str) -> BufferContents:
    """Return the contents of a buffer that consists of one packed value."""
    tensor = graph.types[value]
    return BufferContents(graph, name, [BufferPart(0, prod(tensor.shape) * tensor.dtype.itemsize, lambda: value)])


class _ModelGraph:
    def __init__(self, model: CheckedFile) -> None:
        self.model, self.builder = model, GraphBuilder()
        self.first_readers = _first_readers(model)
        self.inputs: dict[str, str] = {}
        """Names of the inputs so far, by resource."""
        self.labels: dict[str, str] = {}
        self.initial, self.contents = (
            {
                name: BufferContents(self.builder, name, self._initial_parts(resource))
                for name, resource in model.resources.items()
            }
            for _ in range(2)
        )

    def graph(self) -> IndexGraph:
        shown: dict[str, None] = {}
        written, unread = set[str](), set[str]()
        for command in self.model.commands:
            if isinstance(command, Dispatch):
                read, target = self._dispatch(command)
                written.add(target)
                unread = (unread - read) | {target}
            elif command.resource in written:
                shown[self._shown_value(command.resource)] = None
                unread.discard(command.resource)
        shown.update((self._shown_value(name), None) for name in self.model.resources if name in unread)
        graph = replace(self.builder.build(list(shown)), labels=self.labels).needed()
        used = {*graph.outputs, *(name for step in graph.steps for name in step.inputs)}
        inputs = [self.inputs[name] for name in self.model.resources if self.inputs.get(name) in used]
        return _with_names_of_resources(replace(graph, inputs=tuple(inputs)).needed())

    def _dispatch(self, command: Dispatch) -> tuple[set[str], str]:
        """Add the steps of a dispatch. Return the resources that it reads, and the one that it writes."""
        desc = self.model.dispatchables[command.dispatchable].desc
        at_execution, at_initialisation = self.model.buffer_bindings(command)
        inputs, read = [], set()
        for field in desc.operator.inputs:
            tensor = desc.tensor(field)
            owned = at_initialisation.get(wire_name(field))  # OWNED_BY_DML: the operator reads a copy of the initial contents
            bound = at_execution[wire_name(field)] if owned is None else owned
            contents = (self.contents if owned is None else self.initial)[bound.resource]
            name = f"{wire_name(field)} of dispatch '{command.dispatchable}'"
            inputs.append(contents.read(_layout(tensor, bound), tensor_type(tensor).dtype, name))
            read |= {bound.resource} if owned is None else set()
        output = at_execution[wire_name(desc.operator.output)]
        name = f"dispatch '{command.dispatchable}'"
        result = self.builder.problem(name, DescriptorProblem(desc), *inputs, output=output.resource)
        self.labels[result] = output.resource
        self.contents[output.resource].write(result, _layout(desc.tensor(desc.operator.output), output))
        return read, output.resource

    def _shown_value(self, resource: str) -> str:
        values = self.model.resources[resource].values
        dtype = np.dtype(values.data_type.name.lower())
        value = self.contents[resource].elements(values.count, dtype, f"'{resource}' as it is shown")
        self.labels.setdefault(value, resource)
        return value

    def _initial_parts(self, resource: Resource) -> list[BufferPart]:
        end = resource.offset + resource.values.bytes
        parts = [
            BufferPart(0, resource.offset, None),
            BufferPart(resource.offset, end, partial(self._initial_value, resource)),
            BufferPart(end, resource.size, None),
        ]
        return [part for part in parts if part.start < part.stop]

    def _initial_value(self, resource: Resource) -> str:
        name = resource.name
        if name not in self.inputs:
            value = self.builder.input(name, self._input_type(resource))
            self.inputs[name] = value
            self.labels[value] = name
        return self.inputs[name]

    def _input_type(self, resource: Resource) -> TensorType:
        values = resource.values
        if resource.name in self.first_readers:
            tensor, offset = self.first_readers[resource.name]
            kind = tensor_type(tensor)
            packed = tensor.element_strides == packed_strides(tensor.sizes)
            if packed and offset == resource.offset and tensor.elements * kind.dtype.itemsize == values.bytes:
                return kind
            if values.bytes % kind.dtype.itemsize == 0:
                return TensorType((values.bytes // kind.dtype.itemsize,), kind.dtype)
        return TensorType((values.count,), np.dtype(values.data_type.name.lower()))


def _with_names_of_resources(graph: IndexGraph) -> IndexGraph:
    """Rename inputs and outputs after their resources, by the rules of `model_graph`."""
    outputs = {graph.label(value) for value in graph.outputs}
    preferred = {value: graph.label(value) for value in graph.outputs}
    for value in graph.inputs:
        label = graph.label(value)
        preferred.setdefault(value, f"{label} (before)" if label in outputs else label)
    names, used = dict[str, str](), set[str]()
    for value in dict.fromkeys((*preferred, *graph.types)):
        name = base = preferred.get(value, value)
        number = 1
        while name in used:
            number += 1
            name = f"{base} ({number})"
        used.add(name)
        names[value] = name
    return graph.renamed(names)


def _layout(tensor: BufferTensorDesc, bound: BufferBinding) -> Layout:
    return replace(tensor.layout(), offset=bound.offset // tensor.data_type.bytes)


def _first_readers(model: CheckedFile) -> dict[str, tuple[BufferTensorDesc, int]]:
    """Return, for each resource, the first tensor that reads it and the byte offset of this tensor in the resource."""
    readers: dict[str, tuple[BufferTensorDesc, int]] = {}
    for command in model.commands:
        if isinstance(command, Dispatch):
            desc = model.dispatchables[command.dispatchable].desc
            bindings = [bound for bindings in model.buffer_bindings(command) for bound in bindings.values()]
            for field in desc.operator.inputs:
                for bound in bindings:
                    if bound.tensor == wire_name(field):
                        readers.setdefault(bound.resource, (desc.tensor(field), bound.offset))
    return readers


LEVEL = FeatureLevel.LEVEL_6_4
"""Feature level for the descriptors of a stream."""


def stream_graph(path: Path) -> IndexGraph:
    """Return the graph of a stream. Raises FileError, with the line, for a line without a valid descriptor."""
    checked, graph = checked_stream(path)
    for item in sorted(left_out(checked), key=lambda item: item.line or 0):
        if isinstance(item, LocatedFinding) and item.code == OTHER:
            raise FileError(f"{item.place}: {item.got} is not an operator that dmlgather executes: leave it out")
        raise FileError(str(item))
    return graph


def checked_stream(path: Path) -> tuple[CheckedFile, IndexGraph]:
    """Check a stream. Return the result, and a graph with one step for each descriptor that feature level 6_4 takes.

    Equal lines are one step. Names of inputs and outputs end with the line number: "InputTensor 3".
    """
    legal: dict[int, OperatorDesc] = {}
    checked = check_lines_file(path, LEVEL, legal)
    parts = [_numbered(descriptor_graph([desc]), number) for number, desc in legal.items()]
    return checked, IndexGraph(
        tuple(name for part in parts for name in part.inputs),
        tuple(name for part in parts for name in part.outputs),
        tuple(step for part in parts for step in part.steps),
        {name: tensor for part in parts for name, tensor in part.types.items()},
        {name: array for part in parts for name, array in part.constants.items()},
    )


def left_out(checked: CheckedFile) -> list[FileProblem | LocatedFinding]:
    """Return the problems and errors of lines that are missing in the graph of a stream."""
    return [*checked.problems, *checked.errors, *(finding for finding in checked.findings if finding.code == OTHER)]


def _numbered(graph: IndexGraph, number: int) -> IndexGraph:
    return graph.renamed({name: f"{name} {number}" for name in graph.types}, lambda name: f"line {number}: {name}")
