"""A step of a shared operator that is stated by other ones: what its row in `normal_forms` is given, and what it adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Opaque
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.shared_operators import POINTWISE, UNORDERED, rounded


def _broadcasts(shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> bool:
    """Whether NumPy broadcasts these shapes to that of a result."""
    try:
        return np.broadcast_shapes(*shapes) == result
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Form:
    """A step that is stated anew. forms: a row for each operator that has one, which gives the value of its result, or None where
    the step stays as it is. name: for its steps. result: the type of its output.
    """

    forms: Mapping[str, Callable[[Form], str | None]]
    graph: GraphBuilder
    name: str
    attributes: Mapping[str, Any]
    inputs: Sequence[str]
    result: TensorType

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        return self.graph.types[value]

    def do(self, operator: str, *inputs: str, shape: Sequence[int] | None = None, **attributes: Any) -> str:
        """Another operator, in normal form. shape: of its result; None for that of its inputs together."""
        if shape is None:
            shape = np.broadcast_shapes(*(self.type(value).shape for value in inputs))
        result = TensorType(tuple(shape), self.result.dtype)
        step = Form(self.forms, self.graph, f"{self.name}: {operator}", attributes, inputs, result)
        return step.stated(Opaque(operator, tuple(sorted(attributes.items()))))

    def stated(self, work: Opaque, output: str = "") -> str:
        """The value that the step gives: by its operator's row, else as it is, under the name `output`."""
        row = self.forms.get(work.operator)
        found = row(self) if row else None
        return found or self.kept(work, output=output)

    def kept(self, work: Opaque, inputs: Sequence[str] = (), result: TensorType | None = None, output: str = "") -> str:
        """A step that stays as it is; what is known of its operator is noted. inputs, result: this one's, unless given."""
        inputs, result = inputs or self.inputs, result or self.result
        pointwise = work.operator in POINTWISE and _broadcasts([self.type(value).shape for value in inputs], result.shape)
        work = replace(work, pointwise=pointwise, unordered=work.operator in UNORDERED)
        return self.graph.step(self.name, work, inputs, {output: result})[0]

    def number(self, value: float) -> str:
        """A constant of the result's type, without dimensions."""
        return self.graph.constant(np.array(float(rounded(value, self.result.dtype)), self.result.dtype))

    def reshaped(self, value: str, shape: Sequence[int]) -> str:
        """The elements in row-major order under another shape."""
        return self.graph.reshaped(f"{self.name}: shape", value, tuple(shape))

    def turned(self, value: str) -> str:
        """The last two dimensions exchanged; of a constant another constant."""
        rank, known = self.type(value).rank, self.graph.known(value)
        if known is not None:
            return self.graph.constant(np.ascontiguousarray(known.swapaxes(-1, -2)))
        return self.graph.transposed(f"{self.name}: transposed", value, (*range(rank - 2), rank - 1, rank - 2))

    def affine(self, value: str, scale: str | None, offset: str | None) -> str:
        """The value · scale + offset, of which either may be missing."""
        value = value if scale is None else self.do("multiply", value, scale)
        return value if offset is None else self.do("add", value, offset)

    def beside(self, number: float, *, ordered: bool = False) -> str | None:
        """The first input, or if not ordered the other one, where the other is a constant of this number alone and it has the
        result's shape; None for others.
        """
        for value, operand in (self.inputs, self.inputs[::-1])[: 1 if ordered else 2]:
            known = self.graph.known(operand)
            if known is not None and known.dtype.kind == "f" and self.type(value) == self.result and (known == number).all():
                return value
        return None

    def optional(self, number: int) -> str | None:
        """An input that may be left out."""
        return self.inputs[number] if number < len(self.inputs) else None
