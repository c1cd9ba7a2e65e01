"""From a JAX function to an `IndexGraph`: its gathers, slices and views, its arithmetic on integers, all the rest opaque."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.fusion.traces import meaning
from dmlgather.lax.problems.gather import OPERANDS, TYPES
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.equation_problems import PRIMITIVES, NoPlanError, problem_of
from dmlgather.lax.tracing.jaxprs import Constants, Place
from dmlgather.wording import counted


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


# What identifies an opaque equation: its operator, and its parameters as hashable values.


def operator(eqn: Any) -> tuple[str, Hashable]:
    """What an equation computes of its inputs: the operator's name and its attributes. One with effects and a random one equal
    no other.
    """
    if _is_bitcast(eqn):  # it moves bits, so all dialects spell it alike
        return "bitcast", (("to", np.dtype(eqn.params["new_dtype"]).name),)
    if _is_matmul(eqn):
        return "lax.matmul", ()
    return f"lax.{jaxprs.primitive_name(eqn)}", _attributes(eqn)


def _is_bitcast(eqn: Any) -> bool:
    """Whether this reads the bits of elements as others of the same size."""
    if eqn.primitive.name != "bitcast_convert_type" or not jaxprs.of_lax(eqn) or jaxprs.extended(eqn.invars[0].aval.dtype):
        return False
    return bool(eqn.invars[0].aval.shape == eqn.outvars[0].aval.shape)


def _is_matmul(eqn: Any) -> bool:
    """Whether this is NumPy's product of two matrices, or of as many, in the type of both."""
    if eqn.primitive.name != "dot_general" or not jaxprs.of_lax(eqn):
        return False
    one, other = (atom.aval for atom in eqn.invars)
    rank = len(one.shape)
    batch = tuple(range(rank - 2))
    numbers = tuple(tuple(map(tuple, part)) for part in eqn.params["dimension_numbers"])
    given = {name: value for name, value in eqn.params.items() if value is not None and name != "dimension_numbers"}
    plain = given == {"preferred_element_type": one.dtype} and one.dtype == other.dtype
    return plain and rank == len(other.shape) >= 2 and numbers == (((rank - 1,), (rank - 2,)), (batch, batch))


def _attributes(eqn: Any) -> tuple[Hashable, ...]:
    single = (object(),) if eqn.effects or eqn.primitive.name in ("rng_uniform", "empty") else ()
    params = sorted(jaxprs.parameters(eqn).items())
    return *((name, _canonical(value)) for name, value in params if value is not None), *single


def _canonical(value: Any) -> Hashable:
    """Arrays as their bytes, jaxprs as their equations, the rest as `meaning`."""
    core = jaxprs.library().extend.core
    if isinstance(value, core.Jaxpr | core.ClosedJaxpr):
        return _program(value)
    if isinstance(value, np.ndarray | np.generic | jaxprs.library().Array):
        array = jaxprs.array(value, value.dtype)
        return str(value.dtype), array.shape, array.tobytes()
    if isinstance(value, tuple | list):
        return type(value).__name__, *map(_canonical, value)
    if isinstance(value, Mapping):
        return type(value).__name__, *((_canonical(key), _canonical(item)) for key, item in value.items())
    return meaning(value)


def _program(jaxpr: Any) -> Hashable:
    """A jaxpr, with its variables as numbers in order of appearance."""
    inner, consts = jaxprs.opened(jaxpr)
    numbers: dict[Any, int] = {}

    def written(variables: Any) -> Hashable:
        return tuple((numbers.setdefault(variable, len(numbers)), str(variable.aval)) for variable in variables)

    def read(atoms: Any) -> Hashable:
        return tuple((_canonical(atom.val), str(atom.aval)) if jaxprs.literal(atom) else numbers[atom] for atom in atoms)

    starts = written(inner.constvars), written(inner.invars)
    lines = tuple((jaxprs.primitive_name(eqn), read(eqn.invars), _attributes(eqn), written(eqn.outvars)) for eqn in inner.eqns)
    return *starts, lines, read(inner.outvars), *map(_canonical, consts)


# From a JAX function to an `IndexGraph`: its gathers, slices and views, its arithmetic on integers, all the rest opaque.


def index_graph(function: Callable[..., Any] | Any, /, *example: Any) -> IndexGraph:
    """The graph of a function on arguments as these, or of a closed jaxpr, which takes none.

    example: arrays, jax.ShapeDtypeStruct, or trees of them, as for jax.make_jaxpr. Calls are entered (jit, custom_jvp, remat, …);
    loops, branches and everything else that has no form of its own are opaque. PRNG keys are their words: uint32, in further
    dimensions behind. What does not depend on the arguments is a constant.

    Raises what the function and JAX raise, TypeError for an example beside a jaxpr, and ValueError for sizes that are symbols.
    """
    jax = jaxprs.library()
    if not isinstance(function, jax.extend.core.ClosedJaxpr):
        return read_program(jax.make_jaxpr(function)(*example)).graph
    if example:
        raise TypeError(
            f"a jaxpr states the types of its arguments, but {counted(len(example), 'example')} follow: leave them out"
        )
    return read_program(function).graph


@dataclass(frozen=True, slots=True)
class ProgramGraph:
    """The graph of a program, and what its steps come from.

    opaque: of each opaque step by its name: the jaxpr that its equation is in, and the equation. steps: the step that holds the
    problem of an equation, by the equation's place; equations of which nothing is left have none. effects: a value for each
    equation with effects, which says that it has happened, behind the equation's own results.
    """

    graph: IndexGraph
    opaque: Mapping[str, tuple[Any, Any]]
    steps: Mapping[Place, str]
    effects: tuple[str, ...] = ()


def read_program(program: Any) -> ProgramGraph:
    """The graph of a closed jaxpr."""
    reader = _ProgramReader()
    inner, _ = jaxprs.opened(program)
    labels = jaxprs.argument_names(program)
    inputs = [reader.graph.input(label, value_type(variable.aval)) for variable, label in zip(inner.invars, labels, strict=True)]
    outputs = reader.read(program, inputs, (), Constants(program))
    return ProgramGraph(reader.graph.build(outputs), reader.opaque, reader.steps, tuple(reader.effects))


@dataclass
class _ProgramReader:
    """Adds the equations of jaxprs to a graph."""

    graph: GraphBuilder = field(default_factory=GraphBuilder)
    opaque: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    steps: dict[Place, str] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)

    def read(self, jaxpr: Any, arguments: Sequence[str], around: Place, constants: Constants) -> list[str]:
        """The names of a jaxpr's results, from those of its arguments."""
        inner, _ = jaxprs.opened(jaxpr)
        values = dict(zip(inner.invars, arguments, strict=True))

        def names(atoms: Sequence[Any]) -> tuple[str, ...]:
            return tuple(
                values[atom] if not jaxprs.literal(atom) and atom in values else self._constant(atom, constants) for atom in atoms
            )

        for number, eqn in enumerate(inner.eqns):
            if eqn.outvars and all(constants.value(variable) is not None for variable in eqn.outvars):
                continue
            results = self._equation(inner, eqn, names(eqn.invars), (*around, (number, "")), constants)
            values.update(zip(eqn.outvars, results, strict=True))
        return list(names(inner.outvars))

    def _constant(self, atom: Any, constants: Constants) -> str:
        return self.graph.constant(jaxprs.array(constants.value(atom), atom.aval.dtype))

    def _equation(self, jaxpr: Any, eqn: Any, inputs: tuple[str, ...], place: Place, constants: Constants) -> Sequence[str]:
        if called := jaxprs.called(eqn):
            label, body = called
            return self.read(body, inputs, (*place[:-1], (place[-1][0], label)), constants.inside(eqn, body))
        where = "".join(f"{label}/" for _, label in place[:-1])
        call = Call(self.graph, f"{where}{eqn.primitive.name}", eqn, inputs)
        results = steps_of(call)
        if results is not None:
            if eqn.primitive.name in PRIMITIVES:
                self.steps[place] = self.graph.steps[-1].name
            return results
        types = [value_type(variable.aval) for variable in eqn.outvars]
        happened = [TensorType((), np.dtype(bool))] if eqn.effects else []
        name, attributes = operator(eqn)
        results = self.graph.opaque(call.name, name, inputs, [*types, *happened], attributes=attributes)
        self.opaque[self.graph.steps[-1].name] = (jaxpr, eqn)
        self.effects += results[len(types) :]
        return results[: len(types)]
