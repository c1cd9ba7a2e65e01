"""Which input and output of an ONNX model belongs to which of a program."""

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
    """Inputs or outputs of a model do not belong to those of a program; the message says which."""


class OtherValuesError(ValueError):
    """A model holds other values than a program starts with; the message says for which input."""


@dataclass(frozen=True)
class Matched:
    """How inputs and outputs belong together.

    inputs: by the program's name, the model's name and its type. types: by the program's name, the types on both sides. known:
    values of inputs of the program that the model holds as constants. shapes, order: of each output of the program, its shape
    and its number among the model's outputs. buffers: another shape of as many elements is taken. remarks: what is not equal and
    compared still.
    """

    inputs: Mapping[str, tuple[str, TensorType]]
    types: Mapping[str, Sequence[np.dtype[Any]]]
    known: Mapping[str, NDArray[Any]]
    shapes: Sequence[tuple[int, ...]]
    order: Sequence[int]
    buffers: bool
    remarks: tuple[str, ...] = field(default=())

    def feeds(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the model's inputs of the program's."""
        found = {}
        for name, (own, tensor) in self.inputs.items():
            found[own] = np.ascontiguousarray(arrays[name], tensor.dtype).reshape(tensor.shape)
        return found

    def outputs(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the model's outputs in the order, and where only elements count in the shapes, of the program's."""
        found = [arrays[place] for place in self.order]
        if not self.buffers:
            return found
        pairs = zip(found, self.shapes, strict=True)
        return [array.reshape(shape) if array.size == prod(shape) else array for array, shape in pairs]


def matched(graph: IndexGraph, model: Any, *, buffers: bool, initial: Mapping[str, NDArray[Any]]) -> Matched:
    """Return it, or raise MismatchError or OtherValuesError. Names decide where the model has them, else the order.

    buffers, initial: as of `check_agreement`.
    """
    held = {each.name: each for each in model.graph.initializer}
    theirs = {value.name: value for value in model.graph.input}
    open_ = [name for name in theirs if name not in held]
    labels = {name: graph.label(name) for name in graph.inputs}
    names = {
        name: next((each for each in (label, f"{label} (before)") if each in theirs), None) for name, label in labels.items()
    }
    missing = [name for name, own in names.items() if own is None]
    if missing and not any(names.values()) and len(graph.inputs) == len(open_ or theirs):
        names = dict(zip(graph.inputs, open_ or theirs, strict=True))
        missing = []
    known, remarks = {}, []
    for name in missing:
        if labels[name] not in initial:
            raise MismatchError(
                f"the model has no input {labels[name]!r}: its inputs are {', '.join(map(repr, theirs)) or 'none'}. Name the one "
                f"that belongs to it {labels[name]!r}, or compare the part of the model that has "
                f"{counted(len(graph.inputs), 'input')} (onnx.utils.extract_model): where no name is the same, the order counts"
            )
        known[name] = initial[labels[name]]
        remarks.append(f"the model holds {labels[name]!r} as a constant: compared for its initial values alone")
    unfed = [name for name in open_ if name not in names.values()]
    if unfed:
        raise MismatchError(f"the model has the input {unfed[0]!r}, which the other program does not have")
    inputs, types = {}, {}
    for name, own in names.items():
        if own is None:
            continue
        tensor = _stated(theirs[own], graph.types[name], buffers)
        if tensor.dtype != graph.types[name].dtype:
            remarks.append(_other_type(labels[name], graph.types[name], tensor))
        remarks += _other_shape("input", labels[name], graph.types[name].shape, tensor.shape)
        inputs[name], types[name] = (own, tensor), [graph.types[name].dtype, tensor.dtype]
        if own in held and labels[name] in initial:
            _check_default(own, held[own], initial[labels[name]])
    if len(model.graph.output) != len(graph.outputs):
        raise MismatchError(f"the model has {counted(len(model.graph.output), 'output')}, the other program {len(graph.outputs)}")
    for value in model.graph.output:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise MismatchError(f"output {value.name!r} of the model is no tensor, but {value.type.WhichOneof('value')}")
    wanted, written = output_names(graph), [value.name for value in model.graph.output]
    order = [written.index(name) for name in wanted] if set(wanted) == set(written) else [*range(len(written))]
    shapes = [graph.types[name].shape for name in graph.outputs]
    for place, name, shape in zip(order, wanted, shapes, strict=True):
        sizes = [dim.dim_value for dim in model.graph.output[place].type.tensor_type.shape.dim]
        remarks += _other_shape("output", name, shape, sizes) if buffers and prod(sizes) == prod(shape) else []
    return Matched(inputs, types, known, shapes, order, buffers, tuple(remarks))


def output_names(graph: IndexGraph) -> list[str]:
    """Return what users call the outputs of a graph, with a number where several have one name, or an output is an input."""
    taken, names = {graph.label(value) for value in graph.inputs if value in graph.outputs}, list[str]()
    for value in graph.outputs:
        name = wanted = graph.label(value)
        number = 1
        while name in taken:
            number += 1
            name = f"{wanted} ({number})"
        taken.add(name)
        names.append(name)
    return names


def _other_shape(what: str, name: str, own: Sequence[int], other: Sequence[int]) -> list[str]:
    """Return what is said of a shape that differs in more than leading 1s, which mean nothing."""
    first, second = ([*dropwhile(lambda size: size == 1, shape)] for shape in (own, other))
    said = f"{what} {name!r} is {[*own]} in the program and {[*other]} in the model: compared in row-major order"
    return [said] if first != second else []


def _stated(value: Any, own: TensorType, buffers: bool) -> TensorType:
    """Return the type that is fed to an input: what the model states, and of what it leaves open the program's."""
    if not value.type.HasField("tensor_type"):
        raise MismatchError(f"input {value.name!r} of the model is no tensor, but {value.type.WhichOneof('value')}")
    stated = value.type.tensor_type
    kind = data_type(stated.elem_type) or own.dtype
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in stated.shape.dim]
    what = f"input {value.name!r} is {own} in the program"
    if not stated.HasField("shape"):
        shape: tuple[int, ...] = own.shape
    elif len(dims) == own.rank and all(size in (None, given) for size, given in zip(dims, own.shape, strict=True)):
        shape = own.shape
    elif buffers and None not in dims and prod(size or 0 for size in dims) == prod(own.shape):
        shape = tuple(size or 0 for size in dims)
    else:
        shown = [size if size is not None else "?" for size in dims]
        raise MismatchError(f"{what} and {kind} {shown} in the model")
    if kind != own.dtype and not (kind.kind in "iu" and own.dtype.kind in "iu"):
        raise MismatchError(f"{what} and {kind} in the model")
    return TensorType(shape, kind)


def _check_default(name: str, default: Any, initial: NDArray[Any]) -> None:
    """Raise OtherValuesError where the value that a model has for an input that is not given is not the initial one."""
    import onnx

    held = onnx.numpy_helper.to_array(default).reshape(-1)
    wanted = initial.reshape(-1)
    if held.dtype != wanted.dtype and held.dtype.kind in "iu":
        wanted = wanted.astype(held.dtype)
    if (held.dtype, held.tobytes()) != (wanted.dtype, wanted.tobytes()):
        raise OtherValuesError(f"what the model holds for its input {name!r} are not the initial values of the other program")


def _other_type(label: str, own: TensorType, other: TensorType) -> str:
    low = max(integer_range(own.dtype)[0], integer_range(other.dtype)[0])
    high = min(integer_range(own.dtype)[1], integer_range(other.dtype)[1])
    return f"input {label!r} is {own.dtype} in the program and {other.dtype} in the model: compared for {low} … {high}"
