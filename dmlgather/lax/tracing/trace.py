"""What a function turns into: its gathers and slices as plans, what they cost, and what DirectML has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgather.dialects.exporter import STEPS
from dmlgather.dialects.problem import Problem
from dmlgather.directml import Report
from dmlgather.lax.problems import export
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.lax.problems.slice import DynamicSlice
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.equation_problems import PRIMITIVES, EquationProblem, NoPlanError, state
from dmlgather.lax.tracing.jax_comparison import check
from dmlgather.lax.tracing.jaxprs import Place, SourceLine
from dmlgather.lax.tracing.trace_entries import Array, Directml, Trace, TraceEntry
from dmlgather.plan import OutOfBounds, bytes_moved

MODES = {OutOfBounds.CLAMP: "clip", OutOfBounds.FILL: "fill", OutOfBounds.PROMISE: "promise_in_bounds"}
"""JAX's names of the policies."""


def trace(fn: Callable[..., Any], /, *args: Any, execute: bool = False, **kwargs: Any) -> Trace:
    """Every gather, slice, dynamic_slice and rev that `fn` turns into, in the order of JAX's program for it.

    fn, args, kwargs: as for jax.make_jaxpr, which runs fn once on abstract values: arrays, jax.ShapeDtypeStruct, or trees of
    them; kwargs are traced like args. Sub-programs (jit, scan, while, cond, vmap's rewrites and every primitive with a jaxpr
    among its parameters) are entered. execute: also evaluate with JAX on `args`, which then must be values, hand what each
    equation reads to its plan on the CPU, and compare the bytes with what JAX's primitive wrote.

    Needs the package jax. Raises what fn and JAX raise, and TypeError for ShapeDtypeStructs with `execute`.
    """
    jax = jaxprs.library()
    program = jax.make_jaxpr(fn)(*args, **kwargs)
    equations = dict(jaxprs.equations(program))
    entries = {
        place: _entry(place, eqn, _source(place, equations))
        for place, eqn in equations.items()
        if eqn.primitive.name in PRIMITIVES
    }
    if execute:
        entries = check(program, _values(program, (args, kwargs)), entries)
    return Trace(tuple(entries.values()), execute)


def _values(program: Any, given: Any) -> list[Any]:
    """The values of a program's inputs, of the types that JAX has them in."""
    jax = jaxprs.library()
    leaves = jax.tree.leaves(given)
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise TypeError(f"argument {number} is {leaf}, a shape without values: execute=True needs an array")
    return [
        leaf if isinstance(leaf, jax.Array) else jax.numpy.asarray(leaf, aval.dtype)
        for leaf, aval in zip(leaves, program.in_avals, strict=True)
    ]


def _source(place: Place, equations: Mapping[Place, Any]) -> SourceLine | None:
    """The user's line of an equation, or of the innermost one around it that has one: bodies that JAX keeps have none."""
    for depth in range(len(place), 0, -1):
        if found := jaxprs.source(equations[(*place[: depth - 1], (place[depth - 1][0], ""))]):
            return found
    return None


def _entry(place: Place, eqn: Any, source: SourceLine | None) -> TraceEntry:
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
        return entry.stated(**_facts(state(eqn)))
    except NoPlanError as error:
        return entry.stated(no_plan=str(error))


def _facts(stated: EquationProblem) -> dict[str, Any]:
    problem = stated.problem
    plan = problem.plan()
    looks_up = isinstance(problem, LaxGather | DynamicSlice)
    return {
        "problem": problem,
        "plan": plan,
        "mode": MODES[problem.out_of_bounds] if looks_up else None,
        "fill": str(np.frombuffer(problem.fill, problem.data.dtype)[0]) if problem.fill else None,
        "bytes_moved": bytes_moved(plan),
        "directml": _directml(stated.expressed),
    }


def _directml(problem: Problem) -> Directml:
    found = export.lowest(problem)
    if found is not None:
        return Directml(*found, differences=tuple(export.differences(problem)))
    refused = export.express(problem, STEPS[-1])
    assert isinstance(refused, Report), "no level takes it"
    return Directml(reasons=refused.findings)
