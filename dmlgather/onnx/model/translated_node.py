"""A node that is translated: the values that it reads, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import TensorType

if TYPE_CHECKING:
    from onnx import NodeProto


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
