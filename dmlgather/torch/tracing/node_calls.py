"""A node of an exported program as a call: its arguments by name, with values of the graph for tensors and numbers for sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor among the arguments: the name of a value of the graph. strides: that PyTorch has it with, in elements; None where
    it is packed. requires_grad: whether it is a parameter that does; some kernels add in another order for these. offset: which
    element of its memory it begins with in PyTorch; None where that is not known.
    """

    name: str
    strides: tuple[int, ...] | None = None
    requires_grad: bool = False
    offset: int | None = 0


def tensors_in(given: Any) -> Iterator[str]:
    """The names of the tensors in arguments, in order."""
    if isinstance(given, Value):
        yield given.name
    elif isinstance(given, Mapping | list):
        for each in given.values() if isinstance(given, Mapping) else given:
            yield from tensors_in(each)


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A call of an operator.

    name: for its steps. operator: "index.Tensor". given: its arguments, defaults included. typed: gives the types of its results,
    or raises ValueError where they are not known. indexing: the names of the steps that move its elements, once they are added.
    """

    graph: GraphBuilder
    name: str
    operator: str
    given: Mapping[str, Any]
    typed: Callable[[], tuple[TensorType, ...]]
    indexing: list[str] = field(default_factory=list)

    def __getitem__(self, argument: str) -> Any:
        return self.given[argument]

    def value(self, argument: str = "self") -> str:
        """The name of a tensor's value."""
        return str(self.given[argument].name)

    def type(self, argument: str = "self") -> TensorType:
        """The type of a tensor."""
        return self.graph.types[self.value(argument)]

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The types of the tensors that it gives."""
        return self.typed()

    @property
    def result(self) -> TensorType:
        """The type of the first result."""
        return self.results[0]

    def problem(self, name: str, problem: Problem, *inputs: str) -> str:
        """Add a step that moves the call's elements. A slice of everything is none."""
        if type(problem) is SliceView and problem.taken == tuple(map(Window.whole, problem.data.shape)):
            return inputs[0]
        value = self.graph.problem(name, problem, *inputs)
        self.indexing.append(self.graph.steps[-1].name)
        return value

    def part(self, what: str) -> str:
        """A name for one of several steps."""
        return f"{self.name}: {what}"
