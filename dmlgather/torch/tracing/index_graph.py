"""From a PyTorch program to an `IndexGraph`: its gathers, slices and views, its arithmetic on integers, all the rest opaque."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.torch.tracing import nodes
from dmlgather.torch.tracing.exported import ExportedGraph
from dmlgather.torch.tracing.node_calls import NodeCall, Value, host_array, opaque_operator, tensors_in, with_tensors
from dmlgather.torch.tracing.node_problems import PROBLEMS, Steps
from dmlgather.torch.tracing.nodes import Values


def steps_of(call: NodeCall) -> tuple[str, ...] | None:
    """The values that a node gives, after its steps were added; None where it is opaque."""
    if call.operator in PROBLEMS:
        return PROBLEMS[call.operator](call)
    if call.operator in MOVES:
        return MOVES[call.operator](call)
    arithmetic = ARITHMETIC.get(call.operator)
    value = None if arithmetic is None else arithmetic(call)
    return None if value is None else (value,)


def _reshaped(call: NodeCall) -> tuple[str, ...]:
    return (call.graph.reshaped(call.name, call.value(), call.result.shape),)


def _same(call: NodeCall) -> tuple[str, ...]:
    return (call.value("input") if "input" in call.given else call.value(),)


def _dropout(call: NodeCall) -> tuple[str, ...] | None:
    return None if call["train"] and call["p"] else (call.value("input"),)


def _repeated(call: NodeCall, sizes: list[int], counts: list[int], *, inner: bool) -> tuple[str, ...]:
    """Each dimension, of a size, repeated: element by element (inner), or as a whole."""
    graph = call.graph
    pairs = list(zip(sizes, counts, strict=True))
    single = [part for size, _ in pairs for part in ((size, 1) if inner else (1, size))]
    several = [part for size, count in pairs for part in ((size, count) if inner else (count, size))]
    value = graph.reshaped(call.part("dimensions"), call.value(), single)
    value = graph.expanded(call.part("repeated"), value, several)
    return (graph.reshaped(call.name, value, call.result.shape),)


def _repeat(call: NodeCall) -> tuple[str, ...]:
    sizes, counts = list(call.type().shape), list(call["repeats"] if "repeats" in call.given else call["dims"])
    rank = max(len(sizes), len(counts))
    return _repeated(call, [1] * (rank - len(sizes)) + sizes, [1] * (rank - len(counts)) + counts, inner=False)


def _repeat_interleave(call: NodeCall) -> tuple[str, ...]:
    sizes, dim = list(call.type().shape), call["dim"]
    if dim is None:
        sizes, dim = [int(np.prod(sizes))], 0
    counts = [1] * len(sizes)
    counts[dim] = call["repeats"]
    return _repeated(call, sizes, counts, inner=True)


def _concatenated(call: NodeCall) -> tuple[str, ...] | None:
    values = [each.name for each in call["tensors"]]
    values = [value for value in values if call.graph.types[value].shape != (0,)] or values[:1]  # PyTorch leaves such out
    if any(call.graph.types[value].dtype != call.result.dtype for value in values):
        return None
    axis = call["dim"] if "dim" in call.given else call["axis"]
    return (call.graph.concatenated(call.name, values, axis % max(call.result.rank, 1)),)


def _stacked(call: NodeCall) -> tuple[str, ...] | None:
    values = [each.name for each in call["tensors"]]
    if any(call.graph.types[value].dtype != call.result.dtype for value in values):
        return None
    return (call.graph.stacked(call.name, values, call["dim"] % call.result.rank),)


_RESHAPES = (
    *("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int", "ravel.default"),
    *("squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "view_as.default", "reshape_as.default"),
    *("view_copy.default", "atleast_1d.default", "atleast_2d.default", "atleast_3d.default", "_reshape_copy.default"),
)
_IDENTITIES = (
    *("clone.default", "contiguous.default", "detach.default", "detach_.default", "alias.default", "lift_fresh_copy.default"),
    *("lift.default", "lift_fresh.default", "resolve_conj.default", "resolve_neg.default", "positive.default"),
)

MOVES: Mapping[str, Steps] = {
    **dict.fromkeys(_RESHAPES, _reshaped),
    **dict.fromkeys(_IDENTITIES, _same),
    "dropout.default": _dropout,
    "feature_dropout.default": _dropout,
    "alpha_dropout.default": _dropout,
    "repeat.default": _repeat,
    "tile.default": _repeat,
    "repeat_interleave.self_int": _repeat_interleave,
    "cat.default": _concatenated,
    "concat.default": _concatenated,
    "concatenate.default": _concatenated,
    "stack.default": _stacked,
}
"""The operators that keep the order of the elements, repeat them, or put tensors beside one another."""


def _operands(call: NodeCall, kind: TensorType | None = None) -> list[str] | None:
    """Both operands, of the type `kind` or of the one that they have; None unless that is one integer type or bool."""
    found, types = [], []
    for argument in ("self", "other"):
        given = call[argument]
        if isinstance(given, Value):
            types.append(call.graph.types[given.name])
        elif not isinstance(given, bool | int):
            return None
    dtype = kind.dtype if kind else types[0].dtype
    if dtype.kind not in "biu" or any(tensor.dtype.kind not in "biu" for tensor in types):
        return None
    if kind is None and any(tensor.dtype != dtype for tensor in types):
        return None
    for argument in ("self", "other"):
        given = call[argument]
        if isinstance(given, Value):
            found.append(_cast(call, argument, given.name, dtype))
        elif not _fits(given, dtype):
            return None
        else:
            found.append(call.graph.constant(np.array(given, dtype)))
    return found


def _fits(number: int, dtype: np.dtype[Any]) -> bool:
    """Whether a number is one of an integer type, or bool."""
    return isinstance(number, bool) if dtype.kind == "b" else bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)


def _cast(call: NodeCall, what: str, value: str, dtype: np.dtype[Any]) -> str:
    if call.graph.types[value].dtype == dtype:
        return value
    return call.graph.elementwise(call.part(what), "cast", dtype, value)


def _computed(operator: str, *, swapped: bool = False) -> Callable[[NodeCall], str | None]:
    """Arithmetic in the type of its result. swapped: the operands, as in rsub, which is other - self."""

    def steps(call: NodeCall) -> str | None:
        if call.given.get("alpha", 1) != 1 or call.result.dtype.kind not in "iu":
            return None
        operands = _operands(call, call.result)
        if operands is None:
            return None
        return call.graph.elementwise(call.name, operator, call.result.dtype, *operands[:: -1 if swapped else 1])

    return steps


def _compared(operator: str) -> Callable[[NodeCall], str | None]:
    """A comparison in the type that both operands are converted to."""

    def steps(call: NodeCall) -> str | None:
        operands = _operands(call)
        return None if operands is None else call.graph.elementwise(call.name, operator, bool, *operands)

    return steps


def _logical(operator: str) -> Callable[[NodeCall], str | None]:
    """Of bools; any other type is opaque."""

    def steps(call: NodeCall) -> str | None:
        values = [each.name for name, each in call.given.items() if name in ("self", "other") and isinstance(each, Value)]
        expected = 2 if "other" in call.given else 1
        if len(values) != expected or any(call.graph.types[value].dtype != bool for value in values):
            return None
        return call.graph.elementwise(call.name, operator, bool, *values)

    return steps


def _remainder(call: NodeCall) -> str | None:
    """NumPy's has PyTorch's sign. PyTorch raises an error for a divisor of 0, so the divisor has to be known."""
    operands = _operands(call, call.result) if call.result.dtype.kind in "iu" else None
    known = None if operands is None else call.graph.known(operands[1])
    if operands is None or known is None or not known.all():
        return None
    return call.graph.elementwise(call.name, "remainder", call.result.dtype, *operands)


def _negative(call: NodeCall) -> str | None:
    if call.result.dtype.kind not in "iu":
        return None
    return call.graph.elementwise(call.name, "negative", call.result.dtype, call.value())


def _clamped(call: NodeCall) -> str | None:
    value, dtype = call.value(), call.result.dtype
    if dtype.kind not in "iu" or call.type().dtype != dtype:
        return None
    for argument, operator in (("min", "maximum"), ("max", "minimum")):
        limit = call.given.get(argument)
        if isinstance(limit, Value) or (limit is not None and not isinstance(limit, int)):
            return None
        if limit is not None:
            if not _fits(limit, dtype):
                return None
            value = call.graph.elementwise(
                call.part(argument), operator, dtype, value, call.graph.constant(np.array(limit, dtype))
            )
    return value


def _selected(call: NodeCall) -> str | None:
    """Elements of any type; numbers among integers and bools alone."""
    dtype, values = call.result.dtype, [call.value("condition")]
    for given in (call["self"], call["other"]):
        if isinstance(given, Value):
            values.append(given.name)
        elif dtype.kind in "biu" and isinstance(given, bool | int) and _fits(given, dtype):
            values.append(call.graph.constant(np.array(given, dtype)))
        else:
            return None
    if [call.graph.types[value].dtype for value in values] != [np.dtype(bool), dtype, dtype]:
        return None
    return call.graph.elementwise(call.name, "where", dtype, *values)


def _filled(call: NodeCall) -> str | None:
    given, dtype = call["value"], call.result.dtype
    if call.type("mask").dtype != bool:
        return None
    if isinstance(given, Value):
        value = given.name
        if call.graph.types[value].dtype != dtype:
            return None
    else:
        value = call.graph.constant(np.array(given).astype(dtype))
    return call.graph.elementwise(call.name, "where", dtype, call.value("mask"), value, call.value())


def _converted(call: NodeCall) -> str | None:
    own, dtype = call.type().dtype, call.result.dtype
    if own == dtype:
        return call.value()
    if own.kind not in "biu" or dtype.kind not in "biu":
        return None
    return call.graph.elementwise(call.name, "cast", dtype, call.value())


def _overloads(steps: Callable[[NodeCall], str | None], *names: str) -> dict[str, Callable[[NodeCall], str | None]]:
    return {f"{name}.{overload}": steps for name in names for overload in ("Tensor", "Scalar", "default", "Tensor_Scalar")}


ARITHMETIC: Mapping[str, Callable[[NodeCall], str | None]] = {
    **_overloads(_computed("add"), "add"),
    **_overloads(_computed("subtract"), "sub", "subtract"),
    **_overloads(_computed("subtract", swapped=True), "rsub"),
    **_overloads(_computed("multiply"), "mul", "multiply"),
    **_overloads(_computed("minimum"), "minimum"),
    **_overloads(_computed("maximum"), "maximum"),
    **_overloads(_remainder, "remainder"),
    **_overloads(_compared("less"), "lt", "less"),
    **_overloads(_compared("less_equal"), "le", "less_equal"),
    **_overloads(_compared("greater"), "gt", "greater"),
    **_overloads(_compared("greater_equal"), "ge", "greater_equal"),
    **_overloads(_compared("equal"), "eq"),
    **_overloads(_compared("not_equal"), "ne", "not_equal"),
    **_overloads(_logical("and"), "logical_and", "bitwise_and", "__and__"),
    **_overloads(_logical("or"), "logical_or", "bitwise_or", "__or__"),
    **_overloads(_logical("not"), "logical_not", "bitwise_not"),
    "neg.default": _negative,
    "negative.default": _negative,
    "clamp.default": _clamped,
    "clip.default": _clamped,
    "clamp_min.default": _clamped,
    "clamp_max.default": _clamped,
    **dict.fromkeys(("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar"), _selected),
    "masked_fill.Scalar": _filled,
    "masked_fill.Tensor": _filled,
    **dict.fromkeys(("to.dtype", "to.device", "to.dtype_layout", "to.other", "_to_copy.default", "type_as.default"), _converted),
}
"""The arithmetic on integers and bools, and selections of any type."""


# From a PyTorch program to an `IndexGraph`: its gathers, slices and views, its arithmetic on integers, all the rest opaque.


ELEMENT_LIMIT = 2**16
"""Elements that a value may have that is computed while the program is read."""


def index_graph(source: Any, /, *example: Any, dynamic_shapes: Any = None) -> IndexGraph:
    """The graph of a module, a function or an ExportedProgram, at the sizes of `example`.

    example: tensors, or trees of them, as for torch.export.export; a program that holds its own needs none. Parameters, buffers
    and what follows from them alone are constants, up to 65,536 computed elements.

    Raises what torch.export raises; ValueError for sizes that depend on elements; TypeError for tensors of a type that NumPy and
    ml_dtypes lack.
    """
    program = ExportedGraph.of(source, example, dynamic_shapes)
    return read_program(program, program.values(example)).graph


@dataclass(frozen=True, slots=True)
class TorchGraph:
    """The graph of a program, and what its steps come from.

    opaque: of each opaque step, by its name: the node, and its arguments. calls: the nodes that index, with their calls.
    results: the values that each node gives. inputs: the number of the user's leaf that each input of the graph is. checks: a
    value for each check of elements, which says that it has happened.
    """

    graph: IndexGraph
    opaque: Mapping[str, tuple[Any, Mapping[str, Any]]]
    calls: Sequence[tuple[Any, NodeCall]]
    results: Mapping[Any, tuple[str, ...]]
    inputs: tuple[int, ...]
    checks: tuple[str, ...] = ()

    @property
    def reads_memory(self) -> bool:
        """Whether results depend on where the elements of inputs lie in memory."""
        return any(call.operator.startswith("as_strided") for _, call in self.calls)


def read_program(program: ExportedGraph, values: Values) -> TorchGraph:
    """The graph of an exported program for these values of its symbols. ValueError as `index_graph`."""
    reader = _NodeReader(values, dict(program.constants))
    leaves = [number for number, node in enumerate(program.inputs) if nodes.is_tensor(node.meta.get("val"))]
    for node in (program.inputs[number] for number in leaves):
        reader.results[node] = (reader.graph.input(node.name, nodes.tensor_type(node.meta["val"], values)),)
    for node in program.nodes:
        reader.read(node)
    outputs = [reader.value(node) for node in program.outputs if nodes.gives_tensor(node)]
    graph, checks = replace(reader.graph.build(outputs), unread=tuple(reader.unread)), tuple(reader.checks)
    return TorchGraph(graph, reader.opaque, reader.calls, reader.results, tuple(leaves), checks)


def problem_at(program: ExportedGraph, node: Any, values: Values, number: int) -> Problem | None:
    """The problem with that number among those of a node that indexes, for values of the program's symbols.

    None where there is no such problem at these values, and where it depends on elements of what the node reads.
    """
    reader = _NodeReader(values, program.constants)
    for each in nodes.read_by(node):
        if nodes.gives_tensor(each):
            reader.results[each] = (reader.graph.input(each.name, nodes.tensor_type(each.meta["val"], values)),)
    try:
        reader.read(node)
    except (ValueError, IndexError, RuntimeError):  # PyTorch's rules, which the values break
        return None
    steps = {step.name: step.work for step in reader.graph.steps}
    found = [steps[name] for _, call in reader.calls for name in call.indexing]
    work = found[number] if number < len(found) else None
    return work if isinstance(work, Problem) else None


CHECKS = ("_assert_async.", "_assert_scalar.", "sym_constrain_range")
"""How the names of operators begin that give nothing, and raise for some elements: of torch._check and torch._assert_async."""


_HAPPENED = TensorType((), np.dtype(bool))


@dataclass
class _NodeReader:
    """Adds the nodes of a program to a graph. weights: parameters and buffers, by name; those that are read become constants."""

    values: Values
    weights: Mapping[str, Any]
    graph: GraphBuilder = field(default_factory=GraphBuilder)
    opaque: dict[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)
    calls: list[tuple[Any, NodeCall]] = field(default_factory=list)
    results: dict[Any, tuple[str, ...]] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    unread: list[Step] = field(default_factory=list)

    def value(self, node: Any) -> str:
        """The name of the value that a node gives."""
        if node not in self.results:
            self.results[node] = (self.graph.constant(host_array(self.weights[node.name]), node.name),)
        return self.results[node][0]

    def read(self, node: Any) -> None:
        """Add the steps of a node."""
        tensors = [each for each in nodes.gives(node) if nodes.is_tensor(each)]
        if not tensors:  # a size, a graph, or a check
            if nodes.operator_name(node).startswith(CHECKS):
                self._check(node)
            return
        if (picked := nodes.item_of(node)) is not None:
            self.results[node] = (self.results[picked[0]][picked[1]],)
        elif (inner := nodes.inlined(node)) is not None:
            self.results[node] = self._inlined(*inner)
        else:

            def typed() -> tuple[TensorType, ...]:
                return tuple(nodes.tensor_type(each, self.values) for each in tensors)

            call = NodeCall(self.graph, node.name, nodes.operator_name(node), self._arguments(node), typed)
            found = self._known(node, call)
            self.results[node] = found or steps_of(call) or self._opaque(node, call)
            if call.operator in PROBLEMS:
                self.calls.append((node, call))

    def _inlined(self, graph: Any, operands: Sequence[Any]) -> tuple[str, ...]:
        """The values that a graph inside the program gives for these nodes."""
        given = iter(operands)
        for node in graph.nodes:
            if node.op == "placeholder":
                operand = next(given)
                if nodes.gives_tensor(operand):
                    self.results[node] = (self.value(operand),)
            elif node.op != "output":
                self.read(node)
        (returned,) = next(node for node in graph.nodes if node.op == "output").args
        return tuple(self.value(each) if nodes.gives_tensor(each) else "" for each in returned)

    def _arguments(self, node: Any) -> dict[str, Any]:
        given = nodes.arguments(node)
        if nodes.operator_name(node) == "select.int" and (element := nodes.element_of(given["index"])) is not None:
            given["index"] = element  # x[i] with a tensor i without dimensions
        return {name: self._argument(each) for name, each in given.items()}

    def _argument(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return [self._argument(each) for each in given]
        if nodes.gives_tensor(given):
            weight, value = self.weights.get(given.name), given.meta["val"]
            requires_grad = weight is not None and weight.requires_grad
            strides, offset = nodes.strides(value, self.values), nodes.offset(value, self.values)
            return Value(self.value(given), strides, requires_grad, offset)
        return nodes.plain(given, self.values)

    def _known(self, node: Any, call: NodeCall) -> tuple[str, ...] | None:
        """The results of a node that reads constants alone, as constants. None where they are too large, or random."""
        read = {value: self.graph.known(value) for value in tensors_in(call.given)}
        if nodes.is_single(node) or any(array is None for array in read.values()):
            return None
        sizes = [*call.results, *(self.graph.types[value] for value in read)]
        if any(prod(tensor.shape) > ELEMENT_LIMIT for tensor in sizes):
            return None
        results = nodes.run(node, with_tensors(call.given, read))
        return tuple(self.graph.constant(host_array(each)) for each in results)

    def _check(self, node: Any) -> None:
        """Add a check, which gives nothing; in the graph, it gives that it has happened."""
        call = NodeCall(self.graph, node.name, nodes.operator_name(node), self._arguments(node), lambda: (_HAPPENED,))
        if any(tensors_in(call.given)):
            self.checks += self._opaque(node, call)
        else:  # of a number that only a run tells, for which a graph has no value
            self.unread.append(Step(node.name, Opaque(f"torch.{call.operator}"), (), ()))

    def _opaque(self, node: Any, call: NodeCall) -> tuple[str, ...]:
        name, attributes, inputs = opaque_operator(call, single=nodes.is_single(node))
        results = self.graph.opaque(node.name, name, inputs, call.results, attributes=attributes)
        self.opaque[self.graph.steps[-1].name] = (node, call.given)
        return results
