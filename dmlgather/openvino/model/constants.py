"""The constants of an IR: the bytes of a Const layer, read from the .bin file beside the .xml."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.files import FileError, open_regular
from dmlgather.openvino.model.ir_layers import Layer, LayerGraph, Port, number_of
from dmlgather.openvino.model.ir_xml import IRError
from dmlgather.openvino.problems.gather import INTEGERS, TYPES
from dmlgather.wording import counted, printable

LARGEST = 64
"""Elements of the largest constant that is read: an axis has one, and a message shows the shape of what has more."""

READ_TYPES = (*INTEGERS, "f16", "f32", "f64")
"""The element types of constants that are read."""

NOTHING = "joined to nothing"
"""Why an input without an edge is not known, as in a layer that stands alone."""

Value = np.ndarray[Any, Any] | Unknown
"""A constant's elements, or why they are not known."""


class Weights:
    """The .bin file of an IR, opened when its bytes are asked for."""

    def __init__(self, path: Path | None) -> None:
        """`path`: None where there is no file to have one beside it."""
        self.path = path

    def read(self, layer: Layer, offset: int, size: int) -> bytes:
        """`size` bytes at `offset`, which a layer's data lie at. IRError where the file does not have them."""
        if self.path is None:
            raise IRError(f"{layer} lies in a .bin file, and there is none beside a layer that stands alone", layer.line)
        wanted = f"{counted(size, 'byte')} at offset {offset} for {layer}"
        try:
            with open_regular(self.path) as (file, length):
                if offset + size > length:
                    raise IRError(f"{self.path.name} has {counted(length, 'byte')}, too few to have {wanted}", layer.line)
                file.seek(offset)
                return file.read(size)
        except IRError:
            raise
        except (FileError, OSError) as error:
            raise IRError(f"{self.path.name} {error}: it should have {wanted}", layer.line) from None


def value_of(graph: LayerGraph, layer: Layer, port: Port, weights: Weights) -> Value:
    """The value of a layer's input port where it is plainly constant: a Const, or a Convert of one."""
    found = graph.source(layer, port)
    if found is None:
        return Unknown(NOTHING)
    source = found[0]
    if source.type == "Const":
        return _constant(source, weights)
    if source.type == "Convert" and len(source.inputs) == 1:
        before = graph.source(source, source.inputs[0])
        if before is not None and before[0].type == "Const":
            inner = _constant(before[0], weights)
            return inner if isinstance(inner, Unknown) else _converted(source, inner)
    return Unknown("an input of the graph" if source.type == "Parameter" else f"computed when the model runs, by {source}")


def shape_of(layer: Layer) -> tuple[int | None, ...] | None:
    """The shape that a Const or a Parameter states in its data; None where the rank is not known, or it states none."""
    text = layer.data.get("shape", "...").strip().removeprefix("[").removesuffix("]")
    if text == "...":
        return None
    sizes = text.split(",") if text else []
    return tuple(int(size) if size.strip().isdecimal() and len(size) < 20 else None for size in sizes)


def _constant(layer: Layer, weights: Weights) -> Value:
    name, shape = layer.data.get("element_type", "").strip().lower(), shape_of(layer)
    if name not in READ_TYPES:
        return Unknown(f"a constant of type {printable(name[:40]) or 'unknown'}")
    if shape is None or None in shape:
        raise IRError(f"{layer} has shape {layer.data.get('shape')!r}, expected a number for each size", layer.line)
    elements = prod(size for size in shape if size is not None)
    dtype = np.dtype(TYPES.names[name]).newbyteorder("<")
    offset, size = (number_of(layer.data.get(key, ""), f"{key} of {layer}", layer.line) for key in ("offset", "size"))
    needed = elements * dtype.itemsize
    if size != needed:
        held = f"{counted(elements, 'element')} of {name} take {needed}"
        raise IRError(f"{layer} states {counted(size, 'byte')}, but {held}", layer.line)
    if elements > LARGEST:
        return Unknown(f"a constant of {elements} elements")
    content = np.frombuffer(weights.read(layer, offset, size), dtype)
    return content.astype(dtype.newbyteorder("=")).reshape([size for size in shape if size is not None])


def _converted(layer: Layer, value: np.ndarray[Any, Any]) -> Value:
    """What a Convert makes of a constant: floats are cut to integers, and wider integers to their low bits."""
    name = layer.data.get("destination_type", "").strip().lower()
    if name not in READ_TYPES:
        return Unknown(f"converted to {printable(name[:40]) or 'an unknown type'}")
    dtype = np.dtype(TYPES.names[name])
    if dtype.kind in "iu" and value.dtype.kind == "f":
        limits = np.iinfo(dtype)
        if not all(np.isfinite(one) and limits.min <= int(one) <= limits.max for one in value.reshape(-1)):
            return Unknown(f"converted to {name}, which does not have its value")
    with np.errstate(over="ignore"):
        return value.astype(dtype)
