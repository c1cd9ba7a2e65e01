"""What holds of a node at every size that a program with dynamic shapes takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from dmlgather.dialects.exporter import LEVELS
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.sizes import KnownSize, Sizes
from dmlgather.dialects.unknown_sizes import NodeSizes, trial_sizes
from dmlgather.dialects.verdicts import Judged, verdict
from dmlgather.torch.problems.export import EXPORTER
from dmlgather.torch.tracing import nodes
from dmlgather.torch.tracing.exported import ExportedGraph, ranges
from dmlgather.torch.tracing.index_graph import problem_at
from dmlgather.tracing.entries import DynamicSizes

OPERATIONS: Mapping[str, str] = {
    "Add": "add",
    "Mul": "multiply",
    "FloorDiv": "floor_divide",
    "CleanDiv": "floor_divide",
    "Mod": "floor_modulo",
    "PythonMod": "floor_modulo",
    "Max": "maximum",
    "Min": "minimum",
}
"""PyTorch's expressions of sizes, as `Sizes` computes them."""


@dataclass
class DynamicShapes:
    """The symbols of a program, named by the first dimension of an input that has them: "x[0]"."""

    program: ExportedGraph
    sizes: Sizes = field(default_factory=Sizes)
    names: dict[Any, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.program.inputs:
            if not nodes.gives_tensor(node):
                continue
            for axis, size in enumerate(node.meta["val"].shape):
                expression = nodes.expression(size)
                if getattr(expression, "is_Symbol", False) and expression not in self.names:
                    self.names[expression] = self.sizes.symbol(f"{node.name}[{axis}]")

    def of(self, node: Any, number: int) -> DynamicSizes | None:
        """Of the problem with that number among those of a node; None where no size of it is dynamic."""
        read = [each for each in nodes.read_by(node) if nodes.gives_tensor(each)]
        values = [*(each.meta["val"] for each in read), *nodes.gives(node)]
        if not any(nodes.expression(size).free_symbols for value in values for size in value.shape):
            return None
        shapes = [[self._size(size) for size in value.shape] for value in values]
        *inputs, result = [*shapes[: len(read)], shapes[len(read) + (number if len(shapes) > len(read) + number else 0)]]
        shown = ", ".join(map(_shown, inputs)), _shown(result)
        if any(size is None for shape in shapes for size in shape):
            return DynamicSizes(" -> ".join(shown), "unknown")
        judged = self._judged(node, number, {f"tensor {place}": tuple(shape) for place, shape in enumerate(shapes)})
        if judged is None:
            return DynamicSizes(" -> ".join(shown), "unknown")
        lowest = None if judged.lowest is None else str(judged.lowest.level)
        return DynamicSizes(" -> ".join(shown), judged.verdict.value, judged.provided, lowest, judged.findings)

    def _judged(self, node: Any, number: int, shapes: Mapping[str, Any]) -> Judged | None:
        orders: list[tuple[KnownSize, KnownSize]] = []
        for symbol, low, high in ranges(self.program.program):
            if symbol in self.names:
                orders.append((low, self.names[symbol]))
                orders += [] if high is None else [(self.names[symbol], high)]
        trials = trial_sizes(NodeSizes(self.sizes, shapes, orders=orders))
        found: list[tuple[Mapping[str, int], Problem]] = []
        for values in trials.values:
            # Symbols that the node does not depend on have any value that they may have.
            by_symbol = {symbol: values.get(name, 2) for symbol, name in self.names.items()}
            problem = problem_at(self.program, node, by_symbol, number)
            if problem is None:
                return None
            found.append((values, problem))
        return verdict(EXPORTER, found, trials.provided, LEVELS[-1]) if found and trials.possible else None

    def _size(self, size: Any) -> KnownSize | None:
        return self._computed(nodes.expression(size))

    def _computed(self, expression: Any) -> KnownSize | None:
        if expression.is_Integer:
            return int(expression)
        if expression.is_Symbol:
            return self.names.get(expression)
        operation = OPERATIONS.get(type(expression).__name__)
        operands = [self._computed(each) for each in expression.args]
        if operation is None or any(each is None for each in operands):
            return None
        return reduce(lambda one, other: None if one is None else self.sizes.compute(operation, one, other or 0), operands)


def _shown(shape: Sequence[KnownSize | None]) -> str:
    return f"[{','.join('?' if size is None else str(size) for size in shape)}]"
