"""From an equation of a jaxpr to steps of an `IndexGraph`: views, integer arithmetic, concatenations and problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.lax.problems.gather import OPERANDS, TYPES
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.equation_problems import PRIMITIVES, NoPlanError, problem_of


@dataclass(frozen=True, slots=True)
class Call:
    """An equation that is read. name: for its steps. inputs: the names of the values that it reads."""

    graph: GraphBuilder
    name: str
    eqn: Any
    inputs: tuple[str, ...]

    @property
    def types(self) -> list[TensorType]:
        """Of the inputs."""
        return [self.graph.types[value] for value in self.inputs]

    @property
    def result(self) -> TensorType:
        """The type of the first result."""
        return value_type(self.eqn.outvars[0].aval)

    def part(self, what: str) -> str:
        """A name for one of several steps."""
        return f"{self.name}: {what}"

    def view_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that the equation states for its first input; PRNG keys have dimensions of words behind it."""
        return (*shape, *self.types[0].shape[len(self.eqn.invars[0].aval.shape) :])


def value_type(aval: Any) -> TensorType:
    """The type of a value of a jaxpr: PRNG keys as their words, and as objects what is no array, and JAX's other own types.

    ValueError for a size that is not known.
    """
    if not isinstance(aval, jaxprs.library().core.ShapedArray):
        return TensorType((), np.dtype(object))
    for size in aval.shape:
        if not isinstance(size, int | np.integer):
            raise ValueError(f"a value of the program is {aval}, whose size {size} is a symbol: state every size as a number")
    shape = tuple(int(size) for size in aval.shape)
    if not jaxprs.extended(aval.dtype):
        return TensorType(shape, np.dtype(aval.dtype))
    words = jaxprs.key_words(aval.dtype)
    return TensorType(shape, np.dtype(object)) if words is None else TensorType((*shape, *words), np.dtype(np.uint32))


def steps_of(call: Call) -> tuple[str, ...] | None:
    """The values that an equation writes, after its steps were added; None where it is opaque."""
    if not jaxprs.of_lax(call.eqn) or call.eqn.effects or not call.eqn.outvars:  # a loop may have only what it does not change
        return None
    name = call.eqn.primitive.name
    types = [*call.types, call.result]
    plain = not any(jaxprs.extended(atom.aval.dtype) for atom in (*call.eqn.invars, *call.eqn.outvars))
    if name in IDENTITIES:
        return call.inputs
    if name in PRIMITIVES:
        return _problem(call)
    if name in MOVES and all(TYPES.name_of(tensor.dtype) in OPERANDS for tensor in types):
        return MOVES[name](call)
    value = None
    if name == "select_n" and plain:
        value = _select(call)
    elif name in ARITHMETIC and plain and all(tensor.dtype.kind in "biu" for tensor in types):
        value = ARITHMETIC[name](call)
    return None if value is None else (value,)


def _problem(call: Call) -> tuple[str, ...] | None:
    try:
        problem = problem_of(call.eqn)
    except NoPlanError:
        return None
    data, *indices = call.inputs
    if call.eqn.primitive.name == "dynamic_slice":
        graph = call.graph
        starts = graph.stacked(call.part("starts"), indices, 0) if indices else graph.constant(np.zeros(0, np.int32))
        indices = [starts]
    return (call.graph.problem(call.name, problem, data, *indices),)


def _reshape(call: Call) -> tuple[str, ...] | None:
    if len(call.inputs) > 1:
        return None
    order = call.eqn.params["dimensions"]
    value = call.inputs[0] if order is None else _transposed(call, call.part("order"), order)
    return (call.graph.reshaped(call.name, value, call.result.shape),)


def _transposed(call: Call, name: str, order: Sequence[int]) -> str:
    rank = call.types[0].rank
    return call.graph.transposed(name, call.inputs[0], (*order, *range(len(order), rank)))


def _broadcast_in_dim(call: Call) -> tuple[str, ...] | None:
    if len(call.inputs) > 1:
        return None
    sizes = [1] * len(call.eqn.outvars[0].aval.shape)
    for dimension, size in zip(call.eqn.params["broadcast_dimensions"], call.types[0].shape, strict=False):
        sizes[dimension] = size
    shape = call.view_shape(sizes)
    name = call.name if shape == call.result.shape else call.part("dimensions")
    placed = call.graph.reshaped(name, call.inputs[0], shape)
    return (call.graph.expanded(call.name, placed, call.result.shape),)


def _tile(call: Call) -> tuple[str, ...]:
    sizes = call.eqn.invars[0].aval.shape
    single = [part for size in sizes for part in (1, size)]
    repeated = [part for size, count in zip(sizes, call.eqn.params["reps"], strict=True) for part in (count, size)]
    graph = call.graph
    value = graph.reshaped(call.part("dimensions"), call.inputs[0], call.view_shape(single))
    value = graph.expanded(call.part("repeated"), value, call.view_shape(repeated))
    return (graph.reshaped(call.name, value, call.result.shape),)


def _split(call: Call) -> tuple[str, ...]:
    axis, sizes = call.eqn.params["axis"], [int(size) for size in call.eqn.params["sizes"]]
    return tuple(
        _piece(call, number, axis, Window(start, size, 1))
        for number, (start, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False))
    )


def _unstack(call: Call) -> tuple[str, ...]:
    graph, axis = call.graph, call.eqn.params["axis"]
    pieces = (_piece(call, number, axis, Window(number, 1, 1)) for number in range(len(call.eqn.outvars)))
    return tuple(graph.reshaped(call.part(f"row {number}"), piece, call.result.shape) for number, piece in enumerate(pieces))


def _piece(call: Call, number: int, axis: int, window: Window) -> str:
    windows = [Window.whole(size) for size in call.types[0].shape]
    windows[axis] = window
    return call.graph.problem(call.part(f"part {number}"), SliceView(call.types[0], tuple(windows)), call.inputs[0])


MOVES: Mapping[str, Callable[[Call], tuple[str, ...] | None]] = {
    "reshape": _reshape,
    "squeeze": lambda call: (call.graph.reshaped(call.name, call.inputs[0], call.result.shape),),
    "transpose": lambda call: (_transposed(call, call.name, call.eqn.params["permutation"]),),
    "broadcast_in_dim": _broadcast_in_dim,
    "tile": _tile,
    "split": _split,
    "unstack": _unstack,
    "concatenate": lambda call: (call.graph.concatenated(call.name, call.inputs, call.eqn.params["dimension"]),),
    "stack": lambda call: (call.graph.stacked(call.name, call.inputs, call.eqn.params["axis"]),),
}
"""The primitives that move elements to known places."""

IDENTITIES = frozenset({"copy", "stop_gradient", "optimization_barrier", "device_put"})
"""The primitives whose results are their inputs."""


def _by_name(operator: str, kinds: str = "biu") -> Callable[[Call], str | None]:
    """The arithmetic that NumPy calls `operator`, on inputs of these kinds."""

    def steps(call: Call) -> str | None:
        if any(tensor.dtype.kind not in kinds for tensor in call.types):
            return None
        return call.graph.elementwise(call.name, operator, call.result.dtype, *call.inputs)

    return steps


def _cast(call: Call) -> str:
    if call.types[0] == call.result:
        return call.inputs[0]
    return call.graph.elementwise(call.name, "cast", call.result.dtype, *call.inputs)


def _select(call: Call) -> str | None:
    which, *cases = call.inputs
    if len(cases) != 2 or call.types[0].dtype.kind != "b":
        return None
    return call.graph.elementwise(call.name, "where", call.result.dtype, which, cases[1], cases[0])


def _clamp(call: Call) -> str:
    low, value, high = call.inputs
    raised = call.graph.elementwise(call.part("low"), "maximum", call.result.dtype, low, value)
    return call.graph.elementwise(call.name, "minimum", call.result.dtype, raised, high)


def _remainder(call: Call) -> str | None:
    """JAX's has the sign of the dividend, NumPy's that of the divisor: they differ where the dividend is negative."""
    graph, dtype = call.graph, call.result.dtype
    divisor = graph.known(call.inputs[1])
    if divisor is None or not (divisor > 0).all():
        return None
    rest = graph.elementwise(call.part("rest"), "remainder", dtype, *call.inputs)
    if dtype.kind == "u":
        return rest
    zero = graph.constant(np.zeros((), dtype))
    negative = graph.elementwise(call.part("negative"), "less", bool, call.inputs[0], zero)
    inexact = graph.elementwise(call.part("inexact"), "not_equal", bool, rest, zero)
    below = graph.elementwise(call.part("below"), "subtract", dtype, rest, call.inputs[1])
    both = graph.elementwise(call.part("both"), "and", bool, negative, inexact)
    return graph.elementwise(call.name, "where", dtype, both, below, rest)


ARITHMETIC: Mapping[str, Callable[[Call], str | None]] = {
    "convert_element_type": _cast,
    "add": _by_name("add", "iu"),
    "sub": _by_name("subtract", "iu"),
    "mul": _by_name("multiply", "iu"),
    "neg": _by_name("negative", "iu"),
    "rem": _remainder,
    "max": _by_name("maximum"),
    "min": _by_name("minimum"),
    "clamp": _clamp,
    "lt": _by_name("less"),
    "le": _by_name("less_equal"),
    "gt": _by_name("greater"),
    "ge": _by_name("greater_equal"),
    "eq": _by_name("equal"),
    "ne": _by_name("not_equal"),
    "and": _by_name("and", "b"),
    "or": _by_name("or", "b"),
    "not": _by_name("not", "b"),
}
"""The arithmetic on integers and bools; a selection takes any type."""
