"""The constants of an IR: the bytes of a Const layer, read from the .bin file beside the .xml."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.files import FileError, open_regular
from dmlgather.openvino.model.ir_layers import Layer, Shape, check_rank, number_of
from dmlgather.openvino.model.ir_xml import IRError
from dmlgather.openvino.problems.data_types import INTEGERS, TYPES
from dmlgather.wording import counted, printable

READ_TYPES = (*INTEGERS, "boolean", "f16", "f32", "f64")
"""The element types of constants that are read."""

LARGEST = 2**59
"""The most elements of a constant whose sizes are read; NumPy's arrays have less than 2^63 bytes."""

NOT_CONNECTED = "connected to no layer"
"""Why an input without an edge is not known, as in a file of a single layer."""

Value = np.ndarray[Any, Any] | Unknown
"""A constant's elements, or why they are not known."""


def shape_of(layer: Layer, default: Shape | None = None) -> Shape | None:
    """The shape in the attributes of a Const or a Parameter; `default` where there is none, or its rank is not known.

    IRError for too many dimensions.
    """
    text = layer.data.get("shape", "...").strip().removeprefix("[").removesuffix("]")
    if text == "...":
        return default
    sizes = text.split(",") if text else []
    check_rank(len(sizes), str(layer), layer.line)
    return tuple(int(size) if size.strip().isdecimal() and len(size) < 20 else None for size in sizes)


class Weights:
    """The constants in a .bin file. Layers may share their bytes; these are read once and held once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: dict[tuple[str | int | None, ...], Value] = {}

    def constant(self, layer: Layer, largest: int, types: tuple[str, ...] = READ_TYPES) -> Value:
        """The value of a Const layer, of at most `largest` elements, of one of `types`. IRError for what breaks the format."""
        key = (*map(layer.data.get, ("element_type", "shape", "offset", "size")), largest, len(types))
        if key not in self._read:
            self._read[key] = _constant(layer, self._path, largest, types)
        return self._read[key]


def _constant(layer: Layer, path: Path, largest: int, types: tuple[str, ...]) -> Value:
    name, shape = layer.data.get("element_type", "").strip().lower(), shape_of(layer)
    if name not in types:
        return Unknown(f"a constant of type {printable(name[:40]) or 'unknown'}")
    if shape is None or None in shape:
        raise IRError(f"{layer} has shape {layer.data.get('shape')!r}, expected a number for each size", layer.line)
    elements = prod(size for size in shape if size is not None)
    if prod(size or 1 for size in shape) > LARGEST:  # beside a size of 0, which NumPy refuses
        raise IRError(
            f"{layer} has shape {printable(layer.data['shape'][:80])!r}, expected at most {LARGEST} elements", layer.line
        )
    dtype = TYPES.dtype_of(name).newbyteorder("<")
    offset, size = (number_of(layer.data.get(key, ""), f"{key} of {layer}", layer.line) for key in ("offset", "size"))
    needed = elements * dtype.itemsize
    if size != needed and (size, needed) != (1, 0):  # which OpenVINO writes for a constant without elements
        message = f"{layer} states {counted(size, 'byte')}, but {counted(elements, 'element')} of {name} take {needed}"
        raise IRError(message, layer.line)
    if elements > largest:
        return Unknown(f"a constant of {elements} elements")
    content = np.frombuffer(_bytes(path, layer, offset, needed), dtype)
    return content.astype(dtype.newbyteorder("="), copy=False).reshape([size for size in shape if size is not None])


def _bytes(path: Path, layer: Layer, offset: int, size: int) -> bytes:
    wanted = f"{counted(size, 'byte')} at offset {offset} for {layer}"
    try:
        with open_regular(path) as (file, length):
            if offset + size > length:
                raise IRError(f"{path.name} has {counted(length, 'byte')}, too few to have {wanted}", layer.line)
            file.seek(offset)
            return file.read(size)
    except IRError:
        raise
    except (FileError, OSError) as error:
        raise IRError(f"{path.name} {error}: it should have {wanted}", layer.line) from None


def convert(values: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any] | None:
    """Numbers converted to a type, as a Convert layer does: floats are truncated, and integers lose their high bits. None where
    the type does not have a value that a float has.
    """
    dtype = np.dtype(TYPES.dtype_of(name))
    if dtype.kind == "b":
        return np.asarray(values != 0)
    if dtype.kind in "iu" and values.dtype.kind not in "iub":
        limits = np.iinfo(dtype)
        if not all(np.isfinite(one) and limits.min <= int(one) <= limits.max for one in values.reshape(-1)):
            return None
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(dtype))
