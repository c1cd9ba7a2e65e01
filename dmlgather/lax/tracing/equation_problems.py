"""From an equation of a jaxpr to the problem that it states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.lax.problems import export
from dmlgather.lax.problems.calls import gather_call
from dmlgather.lax.problems.slice import DynamicSlice, LaxSlice, Rev
from dmlgather.lax.tracing import jaxprs


class NoPlanError(Exception):
    """An equation that no plan says; the message says why."""


@dataclass(frozen=True)
class EquationProblem:
    """An equation's problem.

    expressed: the problem that descriptors are made for: a slice, where starts that are written into the equation make it one.
    """

    problem: Problem
    expressed: Problem


def state(eqn: Any) -> EquationProblem:
    """The problem of an equation of one of the `PRIMITIVES`. NoPlanError where there is none."""
    for atom in (*eqn.invars, *eqn.outvars):
        if jaxprs.extended(atom.aval.dtype):
            raise NoPlanError(f"{atom.aval.dtype} is a type of JAX's own, whose elements are no plain bits")
    try:
        return PRIMITIVES[eqn.primitive.name](eqn)
    except (TypeError, ValueError) as error:
        raise NoPlanError(str(error)) from None


def operands(eqn: Any, inputs: Sequence[Any]) -> list[NDArray[Any]]:
    """The arrays that the problem of an equation takes, from the values that the equation reads."""
    arrays = [np.asarray(value, atom.aval.dtype) for atom, value in zip(eqn.invars, inputs, strict=True)]
    if eqn.primitive.name == "dynamic_slice":
        return [arrays[0], _stacked(arrays[1:])]
    return arrays


def _type(atom: Any) -> TensorType:
    return TensorType(tuple(atom.aval.shape), np.dtype(atom.aval.dtype))


def _gather(eqn: Any) -> EquationProblem:
    operand, indices = eqn.invars
    params = eqn.params
    problem = gather_call(
        *(_type(operand), _type(indices), params["dimension_numbers"], params["slice_sizes"]),
        mode=params["mode"],
        fill_value=params["fill_value"],
    )
    return EquationProblem(problem, problem)


def _dynamic_slice(eqn: Any) -> EquationProblem:
    operand, *starts = eqn.invars
    types = [_type(start) for start in starts]
    if len({start.dtype for start in types}) > 1:
        raise NoPlanError(f"its starts are of several types: {', '.join(map(str, types))}")
    dtype = types[0].dtype if types else np.dtype(np.int32)
    problem = DynamicSlice(_type(operand), TensorType((len(starts),), dtype), tuple(eqn.params["slice_sizes"]))
    if not all(map(jaxprs.literal, starts)):
        return EquationProblem(problem, problem)
    known = _stacked([np.asarray(start.val, start.aval.dtype) for start in starts])
    return EquationProblem(problem, export.at(problem.gather, known) or problem)


def _slice(eqn: Any) -> EquationProblem:
    (operand,) = eqn.invars
    starts, limits, strides = (eqn.params[name] for name in ("start_indices", "limit_indices", "strides"))
    problem = LaxSlice(_type(operand), tuple(starts), tuple(limits), None if strides is None else tuple(strides))
    return EquationProblem(problem, problem)


def _rev(eqn: Any) -> EquationProblem:
    (operand,) = eqn.invars
    problem = Rev(_type(operand), tuple(eqn.params["dimensions"]))
    return EquationProblem(problem, problem)


def _stacked(starts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.stack(starts) if starts else np.zeros(0, np.int32)


PRIMITIVES: Mapping[str, Callable[[Any], EquationProblem]] = {
    "gather": _gather,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "rev": _rev,
}
"""The primitives of the family."""
