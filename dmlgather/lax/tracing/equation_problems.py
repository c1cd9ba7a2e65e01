"""From an equation of a jaxpr to its problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.lax.problems.gather import GatherDimensionNumbers, LaxGather
from dmlgather.lax.problems.slice import DynamicSlice, LaxSlice, Rev
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.jaxprs import Constants


class NoPlanError(Exception):
    """An equation that no plan can express; the message says why."""


def problem_of(eqn: Any) -> Problem:
    """The problem of an equation of one of the `PRIMITIVES`. NoPlanError where there is none.

    PRNG keys are gathered as their words, as JAX does it: uint32, in dimensions behind those of the keys, with whole windows.
    """
    try:
        return PRIMITIVES[eqn.primitive.name](eqn)
    except (TypeError, ValueError) as error:
        raise NoPlanError(str(error)) from None


def known_starts(eqn: Any, constants: Constants) -> NDArray[Any] | None:
    """The starts that an equation's problem takes as indices, if they are known without the program's arguments."""
    values = [constants.value(atom) for atom in eqn.invars[1:]]
    if not values or any(value is None for value in values):
        return None
    starts = [jaxprs.array(value, atom.aval.dtype) for value, atom in zip(values, eqn.invars[1:], strict=True)]
    return _stacked(starts) if eqn.primitive.name == "dynamic_slice" else starts[0]


def _type(atom: Any) -> TensorType:
    return TensorType(tuple(atom.aval.shape), np.dtype(atom.aval.dtype))


def _operand(eqn: Any) -> tuple[TensorType, tuple[int, ...]]:
    """The type of what is read, and the sizes behind those of the equation: of the words of PRNG keys. NoPlanError elsewhere."""
    aval = eqn.invars[0].aval
    if not jaxprs.extended(aval.dtype):
        return _type(eqn.invars[0]), ()
    words = jaxprs.key_words(aval.dtype)
    if words is None:
        raise NoPlanError(f"{aval.dtype} is a type of JAX's own, whose elements are neither plain bits nor PRNG keys")
    return TensorType((*aval.shape, *words), np.dtype(np.uint32)), words


def _gather(eqn: Any) -> Problem:
    operand, words = _operand(eqn)
    numbers = GatherDimensionNumbers.of(eqn.params["dimension_numbers"])
    rank = len(eqn.outvars[0].aval.shape)
    numbers = replace(numbers, offset_dims=(*numbers.offset_dims, *range(rank, rank + len(words))))
    sizes = (*eqn.params["slice_sizes"], *words)
    mode, fill_value = eqn.params["mode"], eqn.params["fill_value"]
    return LaxGather.from_call(operand, _type(eqn.invars[1]), numbers, sizes, mode=mode, fill_value=fill_value)


def _dynamic_slice(eqn: Any) -> Problem:
    operand, words = _operand(eqn)
    types = [_type(start) for start in eqn.invars[1:]]
    if len({start.dtype for start in types}) > 1:
        raise NoPlanError(f"its starts are of several types: {', '.join(map(str, types))}")
    starts = TensorType((len(types),), types[0].dtype if types else np.dtype(np.int32))
    sizes = (*eqn.params["slice_sizes"], *words)
    if not words:
        return DynamicSlice(operand, starts, sizes)
    numbers = GatherDimensionNumbers(tuple(range(operand.rank)), (), tuple(range(len(types))))
    return LaxGather(operand, starts, numbers, sizes, DynamicSlice.out_of_bounds)


def _slice(eqn: Any) -> Problem:
    operand, words = _operand(eqn)
    starts, limits, strides = (eqn.params[name] for name in ("start_indices", "limit_indices", "strides"))
    steps = None if strides is None else (*strides, *(1 for _ in words))
    return LaxSlice(operand, (*starts, *(0 for _ in words)), (*limits, *words), steps)


def _rev(eqn: Any) -> Problem:
    return Rev(_operand(eqn)[0], tuple(eqn.params["dimensions"]))


def _stacked(starts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.stack(starts) if starts else np.zeros(0, np.int32)


PRIMITIVES: Mapping[str, Callable[[Any], Problem]] = {
    "gather": _gather,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "rev": _rev,
}
"""The primitives that gather or slice."""
