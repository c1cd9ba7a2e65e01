"""What a PyTorch program turns into: its gathers, slices and views as plans, their costs, their descriptors; and a fused run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.exporter import LEVELS
from dmlgather.dialects.index_graph import Step
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.sizes import KnownSize, Sizes
from dmlgather.dialects.unknown_sizes import NodeSizes, trial_sizes
from dmlgather.dialects.verdicts import Judged, verdict
from dmlgather.fusion import Fused, fuse
from dmlgather.fusion.traces import Array, Directml, DynamicSizes, Trace, TraceEntry, launches_of, opaque_results
from dmlgather.plan import bytes_moved
from dmlgather.torch.problems.export import EXPORTER
from dmlgather.torch.tracing import nodes
from dmlgather.torch.tracing.exported import ExportedGraph, ranges
from dmlgather.torch.tracing.index_graph import TorchGraph, problem_at, read_program
from dmlgather.torch.tracing.node_calls import NodeCall, tensor_of, with_tensors

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


# A traced program whose gathers, slices and views run fused by dmlgather, and whose opaque nodes run by PyTorch.


@dataclass(frozen=True, slots=True)
class FusedTorchProgram:
    """read: the program's graph at the sizes that were traced. fused: that graph, fused."""

    program: ExportedGraph
    read: TorchGraph
    fused: Fused

    @classmethod
    def of(cls, program: ExportedGraph, read: TorchGraph) -> FusedTorchProgram:
        """Fused. Checks are kept; and random nodes, needed or not, so that each draws the numbers of its turn."""
        drawn = [name for step in read.graph.steps if _is_random(read, step) for name in step.outputs]
        return cls(program, read, fuse(read.graph, keep=[*drawn, *read.checks]))

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the program returns; see `Trace.run`."""
        leaves = self.program.leaves(args, kwargs)
        of_torch = any(nodes.is_tensor(leaf) for leaf in leaves)
        with arrays.in_order(leaves):
            values, home = self._inputs(leaves)
            found = self.fused.run(values, compute=self._computing(home))
            results = iter(self.read.graph.outputs)
            returned = []
            for node in self.program.outputs[: self.program.results]:
                if nodes.gives_tensor(node):
                    array = found[next(results)]
                    returned.append(tensor_of(array) if of_torch or not leaves else array)
                else:
                    returned.append(self.program.number_of(node, leaves))
        return self.program.returned(returned)

    def _inputs(self, leaves: Sequence[Any]) -> tuple[dict[str, Any], Device]:
        """The arrays of the graph's inputs, and the device on which they lie. TypeError and ValueError as the fused run."""
        taken = [
            arrays.adopt(leaf.detach() if nodes.is_tensor(leaf) else leaf) for leaf in (leaves[each] for each in self.read.inputs)
        ]
        if self.read.reads_memory:
            self._check_memory(leaves, [array for array, _ in taken])
        for number, (node, leaf) in enumerate(zip(self.program.inputs, leaves, strict=True)):
            constant = node.meta.get("val")
            if number not in self.read.inputs and isinstance(constant, bool | int | float | str) and leaf != constant:
                raise ValueError(f"{node.name} is {leaf!r}, but the program was exported for {constant!r}")
        values = {name: array for name, (array, _) in zip(self.read.graph.inputs, taken, strict=True)}
        return values, taken[0][1] if taken else CPU

    def _check_memory(self, leaves: Sequence[Any], held: Sequence[Any]) -> None:
        """ValueError unless the inputs lie in memory as those of the example, because as_strided reads it."""
        values = self.program.solved(leaves)
        for place, array in zip(self.read.inputs, held, strict=True):
            node, leaf = self.program.inputs[place], leaves[place]
            expected = nodes.strides(node.meta["val"], values), nodes.offset(node.meta["val"], values)
            found = (nodes.strides(leaf, values), leaf.storage_offset()) if nodes.is_tensor(leaf) else (_strides(array), 0)
            if found != expected:
                given, wanted = (
                    f"from element {start} on, {f'with strides {step}' if step else 'packed'}"
                    for step, start in (found, expected)
                )
                text = f"{node.name} lies in memory {given}, but the example {wanted}, and as_strided reads memory"
                raise ValueError(f"{text}: lay it out as the example")

    def _computing(self, home: Device) -> Any:
        """What runs an opaque step on the device `home`."""

        def compute(step: Step, inputs: Sequence[Any]) -> list[Any]:
            node, given = self.read.opaque[step.name]
            by_name = dict(zip(step.inputs, inputs, strict=True))
            results = nodes.run(node, with_tensors(given, by_name))
            moved = [arrays.move(*arrays.adopt(result.detach()), home) for result in results]
            return opaque_results(step, moved, home)

        return compute


def _strides(array: Any) -> tuple[int, ...] | None:
    """The strides of NumPy's or CuPy's array in elements; None where it is packed."""
    return None if array.flags.c_contiguous else tuple(step // array.itemsize for step in array.strides)


def _is_random(read: TorchGraph, step: Step) -> bool:
    return step.name in read.opaque and nodes.is_random(read.opaque[step.name][0].target)


# What a PyTorch program turns into: its gathers, slices and views as plans, what they cost, and how DirectML does them.


def trace(source: Any, /, *example: Any, dynamic_shapes: Any = None) -> Trace:
    """Every gather, slice and view of a module, a function or an ExportedProgram, in the order of the program.

    source, example, dynamic_shapes: as for torch.export.export, which runs the source once on tensors without elements. example:
    tensors, or trees of them; a program that holds its own needs none. Where sizes are dynamic, entries have plans for the sizes
    of the example, and state the conditions under which DirectML takes them at every size. The trace's `run` runs the
    program fused.

    Needs the package torch. Raises what torch.export raises; ValueError for sizes that depend on elements; TypeError for elements
    of a type that NumPy and ml_dtypes lack.

    >>> import torch
    >>> trace = dg.torch.trace(lambda x, rows: x[:, rows].T, torch.zeros(8, 5), torch.tensor([1, 4]))
    >>> for entry in trace:
    ...     print(entry.equation, entry.directml, sep=" | ")
    index.Tensor float32[8,5], int64[2] -> float32[8,2] | GATHER from 1_0 (EXP201)
    numpy_T.default float32[8,2] -> float32[2,8] | SLICE from 1_0
    """
    program = ExportedGraph.of(source, example, dynamic_shapes)
    values = program.values(example)
    read = read_program(program, values)
    fused = FusedTorchProgram.of(program, read)
    launches, steps = launches_of(fused.fused), {step.name: step for step in read.graph.steps}
    sizes = DynamicShapes(program)
    entries = (
        replace(_entry(node, call, steps[name]), launches=launches.get(name, ()), dynamic=sizes.of(node, number))
        for node, call in read.calls
        for number, name in enumerate(call.indexing)
    )
    return Trace(tuple(entries), fused)


def _entry(node: Any, call: NodeCall, step: Step) -> TraceEntry:
    problem = step.work
    assert isinstance(problem, Problem), "steps that index are problems"
    operand, *indices, result = (Array(tensor.shape, tensor.dtype.name) for tensor in problem.tensors)
    plan = problem.plan()
    return TraceEntry(
        where=nodes.where(node),
        primitive=call.operator,
        operand=operand,
        indices=indices[0] if indices else None,
        result=result,
        source=nodes.source_line(node),
        mode="raise" if plan.lookups else None,
        problem=problem,
        plan=plan,
        bytes_moved=bytes_moved(plan),
        directml=Directml.of(EXPORTER, problem, problem),
    )
