"""What is known of the values of a model, and what they are by onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from dmlgather.onnx_checking.following.model_nodes import ModelContents, NodeValue, find_nodes
from dmlgather.onnx_checking.reading.file import read_model
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.values import Unknown
from tests.onnx_checking.modelling import saved
from tests.onnx_checking.sessions import REFUSALS, run

Array = np.ndarray[Any, Any]


def contents_of(model: onnx.ModelProto, folder: Path) -> ModelContents:
    """What is found in a model, which goes through a file in `folder`."""
    return find_nodes(read_model(saved(folder, model)))


def with_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all values of its main graph as outputs."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for node in model.graph.node for name in node.output if name)
    return shown


def known_values(model: onnx.ModelProto, folder: Path) -> tuple[dict[str, NodeValue], Sizes]:
    """What is known of each value of a model's main graph: a gather reads it, and is not run."""
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    names = [name for node in model.graph.node for name in node.output if name]
    watched.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), "watching"))
    watched.graph.node.extend(helper.make_node("Gather", [name, "watching"], [f"{name}/watched"]) for name in names)
    contents = contents_of(watched, folder)
    found = {node.inputs[0].name: node.inputs[0] for node in contents.nodes if node.outputs[0].name.endswith("/watched")}
    return found, contents.sizes


def ran(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
    """All values of a model by onnxruntime; None where it refuses the model, or the sizes."""
    try:
        return run(model, inputs)
    except REFUSALS:
        return None


def differences(known: dict[str, NodeValue], sizes: Sizes, got: dict[str, Array], symbols: dict[str, int]) -> Iterator[str]:
    """What is known of values and differs from what they are. symbols: their values; a symbol without one gets it where it is the
    size of a tensor.
    """

    def at(size: int | str) -> int | None:
        free = sizes.symbols(size)
        return sizes.at(size, symbols) if free <= symbols.keys() else None

    for name, value in known.items():
        array = got[name]
        if value.type.dtype is not None and value.type.dtype != array.dtype:
            yield f"{name} is {array.dtype}, not {value.type.dtype}"
        if value.type.shape is not None and len(value.type.shape) != array.ndim:
            yield f"{name} has shape {array.shape}, not {value.type.shape}"
            continue
        for size, is_size in zip(value.type.shape or (), array.shape, strict=False):
            if isinstance(size, str) and sizes.symbols(size) == {size}:
                symbols.setdefault(size, is_size)
            if size is not None and at(size) not in (None, is_size):
                yield f"{name} has shape {array.shape}, not {value.type.shape}, with {symbols}"
        if isinstance(value.elements, Unknown):
            continue
        if value.elements.shape != array.shape:
            yield f"{name} is {array}, not {value.elements}"
            continue
        for element, is_element in zip(value.elements.reshape(-1).tolist(), array.reshape(-1).tolist(), strict=True):
            if not isinstance(element, str):
                same = element == is_element
            elif array.dtype.kind == "f":
                continue
            else:
                same = at(element) in (None, is_element)
            if not same:
                yield f"{name} is {array}, not {value.elements}, with {symbols}"


def symbols_of(declared: Mapping[str, Sequence[int | str | None]], inputs: Mapping[str, Array]) -> dict[str, int]:
    """The sizes of inputs by their names. declared: the inputs' sizes as the model has them."""
    return {
        f"{name}[{axis}]" if size in (None, "?") else size: inputs[name].shape[axis]
        for name, shape in declared.items()
        for axis, size in enumerate(shape)
        if not isinstance(size, int)
    }
