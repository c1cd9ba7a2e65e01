"""What a function turns into: its gathers and slices as plans, what they cost, and how DirectML does them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.exporter import LEVELS
from dmlgather.dialects.problem import Problem
from dmlgather.directml import Report
from dmlgather.lax.problems.export import EXPORTER, differences, with_known_starts
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.constants import Constants, equations
from dmlgather.lax.tracing.equation_problems import PRIMITIVES, NoPlanError, known_starts, problem_of
from dmlgather.lax.tracing.fused_program import FusedProgram
from dmlgather.lax.tracing.jaxprs import Place
from dmlgather.plan import OutOfBounds, bytes_moved
from dmlgather.tracing.entries import Array, Directml, SourceLine, TraceEntry
from dmlgather.tracing.trace import Trace

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
    plan = problem.plan()
    return replace(
        entry,
        problem=problem,
        key_words=Array(problem.data.shape, problem.data.dtype.name) if jaxprs.extended(eqn.invars[0].aval.dtype) else None,
        plan=plan,
        mode=MODES[problem.out_of_bounds] if indices else None,
        fill=str(np.frombuffer(problem.fill, problem.data.dtype)[0]) if problem.fill else None,
        bytes_moved=bytes_moved(plan),
        directml=_directml(problem, known_starts(eqn, constants)),
    )


def _directml(problem: Problem, starts: NDArray[Any] | None) -> Directml:
    described = with_known_starts(problem, starts)
    lowest = EXPORTER.lowest(described)
    if lowest is not None:
        return Directml(*lowest, differences=tuple(differences(problem, starts)))
    refused = EXPORTER.express(described, LEVELS[-1])
    assert isinstance(refused, Report), "no level takes it"
    return Directml(reasons=refused.findings)
