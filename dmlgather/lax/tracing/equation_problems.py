"""From an equation of a jaxpr to its problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.lax.problems.export import with_known_starts
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.lax.problems.slice import DynamicSlice, LaxSlice, Rev
from dmlgather.lax.tracing import jaxprs


class NoPlanError(Exception):
    """An equation that no plan can express; the message says why."""


def problem_of(eqn: Any) -> Problem:
    """The problem of an equation of one of the `PRIMITIVES`. NoPlanError where there is none."""
    for atom in (*eqn.invars, *eqn.outvars):
        if jaxprs.extended(atom.aval.dtype):
            raise NoPlanError(f"{atom.aval.dtype} is a type of JAX's own, whose elements are no plain bits")
    try:
        return PRIMITIVES[eqn.primitive.name](eqn)
    except (TypeError, ValueError) as error:
        raise NoPlanError(str(error)) from None


def problem_to_describe(eqn: Any, problem: Problem) -> Problem:
    """The problem that descriptors are made for: a slice where the equation has the starts of a dynamic_slice as literals."""
    if not isinstance(problem, DynamicSlice) or not all(map(jaxprs.literal, eqn.invars[1:])):
        return problem
    return with_known_starts(problem.gather, _stacked([np.asarray(start.val, start.aval.dtype) for start in eqn.invars[1:]]))


def operands(eqn: Any, inputs: Sequence[Any]) -> list[NDArray[Any]]:
    """The arrays that the problem of an equation takes, from the values that the equation reads."""
    arrays = [np.asarray(value, atom.aval.dtype) for atom, value in zip(eqn.invars, inputs, strict=True)]
    if eqn.primitive.name == "dynamic_slice":
        return [arrays[0], _stacked(arrays[1:])]
    return arrays


def _type(atom: Any) -> TensorType:
    return TensorType(tuple(atom.aval.shape), np.dtype(atom.aval.dtype))


def _gather(eqn: Any) -> Problem:
    operand, indices = eqn.invars
    names = ("dimension_numbers", "slice_sizes", "mode", "fill_value")
    return LaxGather.from_call(_type(operand), _type(indices), **{name: eqn.params[name] for name in names})


def _dynamic_slice(eqn: Any) -> Problem:
    operand, *starts = eqn.invars
    types = [_type(start) for start in starts]
    if len({start.dtype for start in types}) > 1:
        raise NoPlanError(f"its starts are of several types: {', '.join(map(str, types))}")
    dtype = types[0].dtype if types else np.dtype(np.int32)
    return DynamicSlice(_type(operand), TensorType((len(starts),), dtype), tuple(eqn.params["slice_sizes"]))


def _slice(eqn: Any) -> Problem:
    starts, limits, strides = (eqn.params[name] for name in ("start_indices", "limit_indices", "strides"))
    return LaxSlice(_type(eqn.invars[0]), tuple(starts), tuple(limits), None if strides is None else tuple(strides))


def _rev(eqn: Any) -> Problem:
    return Rev(_type(eqn.invars[0]), tuple(eqn.params["dimensions"]))


def _stacked(starts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.stack(starts) if starts else np.zeros(0, np.int32)


PRIMITIVES: Mapping[str, Callable[[Any], Problem]] = {
    "gather": _gather,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "rev": _rev,
}
"""The primitives that gather or slice."""
