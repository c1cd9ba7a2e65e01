"""What a function turns into: its gathers and slices as plans, what they cost, how DirectML does them; and a fused run of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.index_graph import Step
from dmlgather.fusion import Fused, fuse
from dmlgather.fusion.traces import Array, Directml, SourceLine, Trace, TraceEntry, launches_of, opaque_results
from dmlgather.lax.problems.export import EXPORTER, with_known_starts
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.equation_problems import PRIMITIVES, NoPlanError, known_starts, problem_of
from dmlgather.lax.tracing.index_graph import ProgramGraph, read_program
from dmlgather.lax.tracing.jaxprs import Constants, Place, equations
from dmlgather.plan import OutOfBounds, bytes_moved


@dataclass(frozen=True, slots=True)
class FusedProgram:
    """program: a closed jaxpr. arguments, results: the trees of the function's arguments, (args, kwargs), and of its results."""

    program: Any
    arguments: Any
    results: Any
    read: ProgramGraph
    fused: Fused

    @classmethod
    def of(cls, program: Any, arguments: Any, results: Any) -> FusedProgram:
        """Read and fused. What has effects, such as printing, is kept."""
        read = read_program(program)
        return cls(program, arguments, results, read, fuse(read.graph, keep=read.effects))

    def launches(self) -> Mapping[Place, tuple[int, ...]]:
        """The numbers of the launches that do an equation, by the equation's place."""
        done = launches_of(self.fused)
        return {place: done.get(step, ()) for place, step in self.read.steps.items()}

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the function returns; see `Trace.run`."""
        jax = jaxprs.library()
        leaves = self._leaves(args, kwargs)
        given = next((leaf for leaf in leaves if isinstance(leaf, jax.Array)), None)
        make = np.asarray if given is None else jax.numpy.asarray
        values = {}
        for name, leaf, aval in zip(self.read.graph.inputs, leaves, self.program.in_avals, strict=True):
            values[name] = jax.random.key_data(leaf) if jaxprs.extended(aval.dtype) else make(leaf, aval.dtype)
        home = CPU if given is None else arrays.home_of(next(iter(values.values())))

        def compute(step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
            return self._compute(step, inputs, home)

        found = self.fused.run(values, compute=compute)
        results = (found[name] for name in self.read.graph.outputs)
        avals = self.program.out_avals
        return jax.tree.unflatten(self.results, [_keyed(value, aval) for value, aval in zip(results, avals, strict=True)])

    def _leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arrays among arguments. TypeError unless they are such as were traced."""
        jax = jaxprs.library()
        leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
        if tree != self.arguments:
            raise TypeError(f"the arguments form {tree}, but {self.arguments} was traced: trace the function again for others")
        expected = zip(self.read.graph.inputs, leaves, self.program.in_avals, strict=True)
        for name, leaf, aval in expected:
            if isinstance(leaf, jax.ShapeDtypeStruct):
                raise TypeError(f"{name} is {leaf}, a shape without values: run needs an array")
            if isinstance(leaf, jax.Array | np.ndarray) and (leaf.shape, leaf.dtype) == (aval.shape, aval.dtype):
                continue
            try:
                found = jax.eval_shape(lambda x: x, leaf)  # with the type that JAX makes of it
            except TypeError:
                raise TypeError(f"{name} is of type {type(leaf).__name__}, expected an array, or a number") from None
            if (found.shape, found.dtype) != (aval.shape, aval.dtype):
                raise TypeError(
                    f"{name} is {found.dtype}{list(found.shape)}, but {aval.dtype}{list(aval.shape)} was traced: "
                    "trace the function again for other shapes and types"
                )
        return list(leaves)

    def _compute(self, step: Step, inputs: Sequence[Any], home: Device) -> list[Any]:
        """What an opaque step writes, on the device `home`."""
        jax = jaxprs.library()
        jaxpr, eqn = self.read.opaque[step.name]
        values = [
            value if not isinstance(atom.aval, jax.core.ShapedArray) else _keyed(_for_jax(value), atom.aval)
            for value, atom in zip(inputs, eqn.invars, strict=True)
        ]
        results = [
            _taken(value, variable.aval, home)
            for value, variable in zip(jaxprs.bind(jaxpr, eqn, values), eqn.outvars, strict=True)
        ]
        return opaque_results(step, results, home)


def _for_jax(array: Any) -> Any:
    """An array of a launch as JAX takes it."""
    return array if isinstance(array, np.ndarray) else jaxprs.library().dlpack.from_dlpack(array)


def _keyed(value: Any, aval: Any) -> Any:
    """PRNG keys of their words; other values as they are."""
    if not jaxprs.extended(aval.dtype) or jaxprs.key_words(aval.dtype) is None:
        return value
    jax = jaxprs.library()
    return jax.random.wrap_key_data(value, impl=jax.random.key_impl(jax.numpy.zeros((), aval.dtype)))


def _taken(value: Any, aval: Any, home: Device) -> Any:
    """A result of JAX as an array for launches on the device `home`; what is no array as it is."""
    jax = jaxprs.library()
    if not isinstance(aval, jax.core.ShapedArray):
        return value
    if jaxprs.extended(aval.dtype):
        if jaxprs.key_words(aval.dtype) is None:
            return value
        value = jax.random.key_data(value)
    array, device = arrays.adopt(value)
    return arrays.move(array, device, home)


# What a function turns into: its gathers and slices as plans, what they cost, and how DirectML does them.


MODES = {OutOfBounds.CLAMP: "clip", OutOfBounds.FILL: "fill", OutOfBounds.PROMISE: "promise_in_bounds"}
"""JAX's names of the policies."""


def trace(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Trace:
    """Every gather, slice, dynamic_slice and rev that `fn` turns into, in the order of JAX's program for it.

    fn, args, kwargs: as for jax.make_jaxpr, which runs fn once on abstract values: arrays, jax.ShapeDtypeStruct, or trees of
    them; kwargs are traced like args. Sub-programs (jit, scan, while, cond, vmap's rewrites and every primitive with a jaxpr
    among its parameters) are entered. The trace's `run` runs the function fused.

    Needs the package jax. Raises what fn and JAX raise, and TypeError for what is no function.

    >>> trace = dg.lax.trace(lambda x, rows: x[rows], np.zeros((8, 5), np.float32), np.array([1, 7], np.int32))
    >>> trace[0].equation, str(trace[0].directml)
    ('gather float32[8,5], int32[2,1] -> float32[2,5]', 'GATHER from 1_0')
    """
    if not callable(fn):
        raise TypeError(f"fn is of type {type(fn).__name__}, expected a function of JAX's arrays, which its arguments follow")
    jax = jaxprs.library()
    program, shapes = jax.make_jaxpr(fn, return_shape=True)(*args, **kwargs)
    fused = FusedProgram.of(program, jax.tree.structure((args, kwargs)), jax.tree.structure(shapes))
    launches = fused.launches()
    found = list(equations(program))
    around = {place: eqn for place, eqn, _ in found}
    entries = (
        replace(_entry(place, eqn, constants, _source(place, around)), launches=launches.get(place, ()))
        for place, eqn, constants in found
        if eqn.primitive.name in PRIMITIVES and jaxprs.of_lax(eqn)
    )
    return Trace(tuple(entries), fused)


def _source(place: Place, equations: Mapping[Place, Any]) -> SourceLine | None:
    """The user's line of an equation, or of the innermost one around it that has one: JAX's cached bodies have none."""
    for depth in range(len(place), 0, -1):
        if line := jaxprs.source(equations[(*place[: depth - 1], (place[depth - 1][0], ""))]):
            return line
    return None


def _entry(place: Place, eqn: Any, constants: Constants, source: SourceLine | None) -> TraceEntry:
    arrays = [Array(tuple(atom.aval.shape), str(atom.aval.dtype)) for atom in (*eqn.invars, *eqn.outvars)]
    operand, *indices, result = arrays
    if eqn.primitive.name == "dynamic_slice":
        indices = [Array((len(indices),), indices[0].dtype if indices else "int32")]
    entry = TraceEntry(
        where="/".join(label for _, label in place[:-1]),
        primitive=eqn.primitive.name,
        operand=operand,
        indices=indices[0] if indices else None,
        result=result,
        source=source,
    )
    try:
        problem = problem_of(eqn)
    except NoPlanError as error:
        return replace(entry, no_plan=str(error))
    plan, starts = problem.plan(), known_starts(eqn, constants)
    return replace(
        entry,
        problem=problem,
        key_words=Array(problem.data.shape, problem.data.dtype.name) if jaxprs.extended(eqn.invars[0].aval.dtype) else None,
        plan=plan,
        mode=MODES[problem.out_of_bounds] if indices else None,
        fill=str(np.frombuffer(problem.fill, problem.data.dtype)[0]) if problem.fill else None,
        bytes_moved=bytes_moved(plan),
        directml=Directml.of(EXPORTER, problem, with_known_starts(problem, starts), starts),
    )
