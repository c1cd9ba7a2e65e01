"""From a JAX function to an `IndexGraph`: its gathers, slices and views, its arithmetic on integers, all the rest opaque."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.constants import Constants
from dmlgather.lax.tracing.equation_problems import PRIMITIVES
from dmlgather.lax.tracing.equation_steps import Call, steps_of, value_type
from dmlgather.lax.tracing.jaxprs import Place
from dmlgather.lax.tracing.parameters import operator
from dmlgather.wording import counted


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
