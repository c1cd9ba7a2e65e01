"""A node that is translated to steps of an `IndexGraph`: the values that it reads, and what is known of them.

Then the rules for nodes that need another one than that for arrays. A rule gives the values that the node's outputs are, or None
for what is no step of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.windows import integers
from dmlgather.onnx.auxiliary import tensor
from dmlgather.onnx.problems.data_types import data_type

if TYPE_CHECKING:
    from onnx import NodeProto

    from dmlgather.dialects.graph_building import GraphBuilder
    from dmlgather.dialects.problem import TensorType


@dataclass(frozen=True)
class TranslatedNode:
    """A node whose inputs are values of a graph.

    name: of its steps. inputs: names of values; None for what is left out. values: what is known of them before the program runs:
    arrays, None for what is not. outputs: the names that the node's outputs should have, empty for those that nobody reads.
    """

    node: NodeProto
    opset: int
    name: str
    graph: GraphBuilder
    inputs: Sequence[str | None]
    values: Sequence[Any | None]

    @property
    def types(self) -> list[TensorType | None]:
        """The types of the inputs."""
        return [None if name is None else self.graph.types[name] for name in self.inputs]

    @property
    def data(self) -> str:
        """The first input. ValueError where the node has none."""
        if not self.inputs or self.inputs[0] is None:
            raise ValueError(f"the node has no first input, but {self.node.op_type} reads one")
        return self.inputs[0]

    @property
    def tensor(self) -> TensorType:
        """The type of the first input."""
        return self.graph.types[self.data]

    @property
    def output(self) -> str:
        """The name of the first output."""
        name: str = self.node.output[0]
        return name

    def given(self, number: int) -> bool:
        """Whether the node has this input."""
        return number < len(self.inputs) and self.inputs[number] is not None

    def attribute(self, name: str) -> Any:
        """The value of an attribute; None where the node has none of that name."""
        from onnx import helper

        found = next((each for each in self.node.attribute if each.name == name), None)
        return None if found is None else helper.get_attribute_value(found)

    @property
    def integers(self) -> bool:
        """Whether all inputs are integers or bools."""
        return all(tensor is None or tensor.dtype.kind in "biu" for tensor in self.types)

    @property
    def broadcasts(self) -> bool:
        """Whether the inputs are broadcast as NumPy does it. Before version 7, attributes said how."""
        return self.opset >= 7 or len({tensor.shape for tensor in self.types if tensor}) == 1


MOST_COUNTED = 2**20
"""The largest number in a Range that becomes a constant: even float32 holds every integer up to there."""


def cast(call: TranslatedNode) -> tuple[str, ...] | None:
    """Between integers and bools, and what changes nothing."""
    to = call.attribute("to")
    return _as_type(call, data_type(to.decode() if isinstance(to, bytes) else to))


def cast_like(call: TranslatedNode) -> tuple[str, ...] | None:
    """To the type of the second input."""
    like = call.types[1]
    return None if like is None else _as_type(call, like.dtype)


def _as_type(call: TranslatedNode, dtype: np.dtype[Any] | None) -> tuple[str, ...] | None:
    if dtype == call.tensor.dtype:
        return (call.data,)
    if dtype is None or dtype.kind not in "biu" or not call.integers:
        return None
    return (call.graph.elementwise(call.name, "cast", dtype, call.data, output=call.output),)


def constant_of_shape(call: TranslatedNode) -> tuple[str, ...] | None:
    """One element, expanded."""
    if call.values[0] is None:
        return None
    value = call.attribute("value")
    element = np.zeros((), np.float32) if value is None else tensor(value).reshape(())
    sizes = integers("ConstantOfShape", "shape", call.values[0])
    return (call.graph.expanded(call.name, call.graph.constant(element), sizes, output=call.output),)


def counted(call: TranslatedNode) -> tuple[str, ...] | None:
    """A constant, where start and step are integers of at most 2^20: then every runtime computes the same elements."""
    values = [float(np.asarray(value).reshape(())) for value in call.values if value is not None]
    if len(values) != 3 or not all(np.isfinite(values)):
        return None
    start, limit, step = values
    if not step or not (start.is_integer() and step.is_integer()) or max(map(abs, values)) > MOST_COUNTED:
        return None
    elements = range(int(start), ceil(limit) if step > 0 else floor(limit), int(step))
    return (call.graph.constant(np.array(elements, call.tensor.dtype), call.output),)


def dropout(call: TranslatedNode) -> tuple[str, ...] | None:
    """The data themselves where the model is not trained, and nobody reads the mask."""
    if any(call.node.output[1:]):
        return None
    if call.opset < 7:
        return (call.data,) if call.attribute("is_test") else None
    trained = call.given(2) and (call.values[2] is None or bool(np.any(call.values[2])))
    return None if call.opset >= 12 and trained else (call.data,)
