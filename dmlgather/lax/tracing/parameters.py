"""What identifies an opaque equation: its operator, and its parameters as hashable values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dmlgather.dialects.element_types import exact_text
from dmlgather.lax.tracing import jaxprs


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
    """Arrays as their bytes, jaxprs as their equations. An object that has no value of its own equals itself alone."""
    core = jaxprs.library().extend.core
    if isinstance(value, core.Jaxpr | core.ClosedJaxpr):
        return _program(value)
    if isinstance(value, np.ndarray | np.generic | jaxprs.library().Array):
        array = jaxprs.array(value, value.dtype)
        return str(value.dtype), array.shape, array.tobytes()
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        return type(value).__name__, exact_text(value)  # 1, 1.0 and True are equal in Python, and so are 0.0 and -0.0
    if isinstance(value, tuple | list):
        return type(value).__name__, *map(_canonical, value)
    if isinstance(value, Mapping):
        return type(value).__name__, *((_canonical(key), _canonical(item)) for key, item in value.items())
    try:
        hash(value)
    except TypeError:
        return object()
    return type(value).__name__, value


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
