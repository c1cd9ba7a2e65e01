"""The inputs of a node as a caller describes them: shapes, types and constant values, by name or by position."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects.element_types import numpy_type
from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.problems.data_types import data_type

ByInput = Mapping[str, Any] | Sequence[Any]
"""One value per input: by the name that the node has for it, or in the order of its inputs."""


class NodeInput(NamedTuple):
    """One input. type: None where shape or data type is not known. value: the constant, on the host.

    description: shape and data type as the caller wrote them, for messages.
    """

    type: TensorType | None
    value: Any | None
    description: str


def node_inputs(node: Any, shapes: ByInput, dtypes: ByInput, constants: Mapping[str, Any]) -> list[NodeInput]:
    """The inputs of a node, in order.

    TypeError for what is no node or no data type; ValueError for more shapes or types than inputs, and for a constant that
    contradicts its shape or type.
    """
    if not hasattr(node, "input") or not hasattr(node, "op_type"):
        raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
    names = list(node.input)
    pairs = zip(names, _by_input("shapes", shapes, names), _by_input("dtypes", dtypes, names), strict=True)
    return [_input(name, shape, dtype, constants.get(name)) for name, shape, dtype in pairs]


def _by_input(what: str, given: ByInput, names: Sequence[str]) -> list[Any]:
    if isinstance(given, Mapping):
        return [given.get(name) for name in names]
    if len(given) > len(names):
        raise ValueError(f"{what} has {len(given)} entries, but the node has {len(names)} inputs ({', '.join(names)})")
    return [*given, *[None] * (len(names) - len(given))]


def _input(name: str, shape: Any, dtype: Any, constant: Any) -> NodeInput:
    description = f"shape {'not stated' if shape is None else shape}, type {'not stated' if dtype is None else dtype}"
    kind = None if dtype is None else _dtype(name, dtype)
    sizes = None if shape is None else _sizes(shape)
    if constant is not None:
        value = constant if hasattr(constant, "dtype") else np.asarray(constant, kind)
        own = TensorType(tuple(value.shape), numpy_type(value.dtype))
        if sizes is not None and sizes != own.shape:
            raise ValueError(f"{name!r} has shape {sizes} in shapes, but the constant has {own.shape}")
        if kind is not None and kind != own.dtype:
            raise ValueError(f"{name!r} has type {kind} in dtypes, but the constant has {own.dtype}")
        return NodeInput(own, tuple(constant) if isinstance(constant, list | tuple) else value, description)
    return NodeInput(None if kind is None or sizes is None else TensorType(sizes, kind), None, description)


def _dtype(name: str, given: Any) -> np.dtype[Any] | None:
    """The NumPy type of a type, a name, or a number of TensorProto.DataType; None for UNDEFINED."""
    if not isinstance(given, int):
        try:
            return numpy_type(given)
        except TypeError as error:
            raise TypeError(f"{name!r} has type {given!r} in dtypes: {error}") from None
    dtype = data_type(given)
    if dtype is None and given != 0:
        raise TypeError(f"{name!r} has type {given} in dtypes, which is no data type of ONNX")
    return dtype


def _sizes(given: Any) -> tuple[int, ...] | None:
    """The sizes; None where one is symbolic, missing, or negative, as some exporters write what is not known."""
    try:
        sizes = tuple(operator.index(size) for size in given)
    except TypeError:
        return None
    return sizes if all(size >= 0 for size in sizes) else None
