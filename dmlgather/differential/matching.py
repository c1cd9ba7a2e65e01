"""Matches the inputs and outputs of a program with the inputs and outputs of an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.differential.boundaries import integer_range
from dmlgather.onnx.problems.data_types import data_type
from dmlgather.wording import counted


class MismatchError(ValueError):
    """An input or output of the program or model has no counterpart in the other, or the two have different types or shapes."""


class DifferentValuesError(ValueError):
    """The model and the program have different initial values for an input."""


@dataclass(frozen=True)
class Matching:
    """The inputs and outputs of a program, matched with the inputs and outputs of an ONNX model.

    Keys are the names of the program's inputs.
    `inputs`: the name and type of each input in the model. `types`: the data type of each input in the program and in the
    model.
    `constants`: the values of the inputs that are constants in the model.
    `shapes`: the shape of each output in the program. `order`: the position of each output among the model's outputs.
    `buffers`: True if two tensors match that have equally many elements, but different shapes. `remarks`: differences that do
    not prevent a comparison, as sentences.
    """

    inputs: Mapping[str, tuple[str, TensorType]]
    types: Mapping[str, Sequence[np.dtype[Any]]]
    constants: Mapping[str, NDArray[Any]]
    shapes: Sequence[tuple[int, ...]]
    order: Sequence[int]
    buffers: bool
    remarks: tuple[str, ...] = field(default=())

    def feeds(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the program's inputs with the names, data types and shapes that the model expects."""
        return {
            model_name: np.ascontiguousarray(arrays[name], tensor.dtype).reshape(tensor.shape)
            for name, (model_name, tensor) in self.inputs.items()
        }

    def outputs(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the model's outputs in the program's order and with the program's shapes."""
        ordered = [arrays[number] for number in self.order]
        if not self.buffers:
            return ordered
        pairs = zip(ordered, self.shapes, strict=True)
        return [array.reshape(shape) if array.size == prod(shape) else array for array, shape in pairs]


def match_names(graph: IndexGraph, model: Any, *, buffers: bool, initial: Mapping[str, NDArray[Any]]) -> Matching:
    """Match the inputs and outputs of a program with the inputs and outputs of an onnx.ModelProto, by name.

    Inputs are matched by order if no name occurs in both. Outputs are matched by order if the names differ.
    `buffers`: True if two tensors match that have equally many elements, but different shapes. `initial`: values of inputs
    that may be constants in the model. Raises MismatchError or DifferentValuesError if an input or output has no match.
    """
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    model_inputs = {value.name: value for value in model.graph.input}
    required = [name for name in model_inputs if name not in initializers]
    labels = {name: graph.label(name) for name in graph.inputs}
    names = {
        name: next((candidate for candidate in (label, f"{label} (before)") if candidate in model_inputs), None)
        for name, label in labels.items()
    }
    missing = [name for name, model_name in names.items() if model_name is None]
    if missing and not any(names.values()) and len(graph.inputs) == len(required or model_inputs):
        names = dict(zip(graph.inputs, required or model_inputs, strict=True))
        missing = []
    constants, remarks = {}, []
    for name in missing:
        if labels[name] not in initial:
            own_inputs, others = counted(len(graph.inputs), "input"), ", ".join(map(repr, model_inputs)) or "none"
            raise MismatchError(
                f"the model has no input {labels[name]!r}: its inputs are {others}. Rename the matching input to "
                f"{labels[name]!r}. Or extract the part of the model that has {own_inputs} (onnx.utils.extract_model): if no "
                "names match, inputs are matched by order"
            )
        constants[name] = initial[labels[name]]
        remarks.append(f"the model holds {labels[name]!r} as a constant: compared for its initial values alone")
    unmatched = [name for name in required if name not in names.values()]
    if unmatched:
        raise MismatchError(f"the model has the input {unmatched[0]!r}, which the other program does not have")
    inputs, types = {}, {}
    for name, model_name in names.items():
        if model_name is None:
            continue
        tensor = _input_type(model_inputs[model_name], graph.types[name], buffers)
        if tensor.dtype != graph.types[name].dtype:
            remarks.append(_type_remark(labels[name], graph.types[name], tensor))
        remarks += _shape_remarks("input", labels[name], graph.types[name].shape, tensor.shape)
        inputs[name], types[name] = (model_name, tensor), [graph.types[name].dtype, tensor.dtype]
        if model_name in initializers and labels[name] in initial:
            _check_initializer(model_name, initializers[model_name], initial[labels[name]])
    if len(model.graph.output) != len(graph.outputs):
        raise MismatchError(f"the model has {counted(len(model.graph.output), 'output')}, the other program {len(graph.outputs)}")
    for value in model.graph.output:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise MismatchError(f"output {value.name!r} of the model is no tensor, but {value.type.WhichOneof('value')}")
    own_names, model_names = output_names(graph), [value.name for value in model.graph.output]
    same_names = set(own_names) == set(model_names)
    order = [model_names.index(name) for name in own_names] if same_names else [*range(len(model_names))]
    shapes = [graph.types[name].shape for name in graph.outputs]
    for number, name, shape in zip(order, own_names, shapes, strict=True):
        sizes = [dim.dim_value for dim in model.graph.output[number].type.tensor_type.shape.dim]
        remarks += _shape_remarks("output", name, shape, sizes) if buffers and prod(sizes) == prod(shape) else []
    return Matching(inputs, types, constants, shapes, order, buffers, tuple(remarks))


def output_names(graph: IndexGraph) -> list[str]:
    """Return a unique name for each output of a graph. An output that is also an input always gets a suffix."""
    taken, names = {graph.label(value) for value in graph.inputs if value in graph.outputs}, list[str]()
    for value in graph.outputs:
        name = label = graph.label(value)
        number = 1
        while name in taken:
            number += 1
            name = f"{label} ({number})"
        taken.add(name)
        names.append(name)
    return names


def _shape_remarks(role: str, name: str, program_shape: Sequence[int], model_shape: Sequence[int]) -> list[str]:
    """Return a remark if two shapes differ in other ways than leading dimensions of size 1."""
    program_sizes, model_sizes = ([*dropwhile(lambda size: size == 1, shape)] for shape in (program_shape, model_shape))
    remark = (
        f"{role} {name!r} is {[*program_shape]} in the program and {[*model_shape]} in the model: compared in row-major order"
    )
    return [remark] if program_sizes != model_sizes else []


def _input_type(value: Any, program_type: TensorType, buffers: bool) -> TensorType:
    """Return the type of a model's input. A size or data type that it leaves open is taken from the program's input.

    Raises MismatchError if the types differ.
    """
    if not value.type.HasField("tensor_type"):
        raise MismatchError(f"input {value.name!r} of the model is no tensor, but {value.type.WhichOneof('value')}")
    stated = value.type.tensor_type
    dtype = data_type(stated.elem_type) or program_type.dtype
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in stated.shape.dim]
    in_program = f"input {value.name!r} is {program_type} in the program"
    if not stated.HasField("shape"):
        shape: tuple[int, ...] = program_type.shape
    elif len(dims) == program_type.rank and all(
        size in (None, program_size) for size, program_size in zip(dims, program_type.shape, strict=True)
    ):
        shape = program_type.shape
    elif buffers and None not in dims and prod(size or 0 for size in dims) == prod(program_type.shape):
        shape = tuple(size or 0 for size in dims)
    else:
        shown = [size if size is not None else "?" for size in dims]
        raise MismatchError(f"{in_program} and {dtype} {shown} in the model")
    if dtype != program_type.dtype and not (dtype.kind in "iu" and program_type.dtype.kind in "iu"):
        raise MismatchError(f"{in_program} and {dtype} in the model")
    return TensorType(shape, dtype)


def _check_initializer(name: str, initializer: Any, initial: NDArray[Any]) -> None:
    """Raise DifferentValuesError if the model and the program have different initial values for an input."""
    import onnx

    in_model = onnx.numpy_helper.to_array(initializer).reshape(-1)
    in_program = initial.reshape(-1)
    if in_model.dtype != in_program.dtype and in_model.dtype.kind in "iu":
        in_program = in_program.astype(in_model.dtype)
    if (in_model.dtype, in_model.tobytes()) != (in_program.dtype, in_program.tobytes()):
        raise DifferentValuesError(f"the model's initial values of its input {name!r} differ from those of the other program")


def _type_remark(label: str, program_type: TensorType, model_type: TensorType) -> str:
    low = max(integer_range(program_type.dtype)[0], integer_range(model_type.dtype)[0])
    high = min(integer_range(program_type.dtype)[1], integer_range(model_type.dtype)[1])
    return (
        f"input {label!r} is {program_type.dtype} in the program and {model_type.dtype} in the model: compared for {low} … {high}"
    )
