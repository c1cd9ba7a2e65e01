"""What identifies an opaque equation: its operator, and its parameters as hashable values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dmlgather.lax.tracing import jaxprs

SHARED_NAMES: Mapping[str, str] = {
    "logistic": "sigmoid",
    "lt": "less",
    "le": "lessorequal",
    "gt": "greater",
    "ge": "greaterorequal",
    "eq": "equal",
}
"""What other dialects call a primitive, where that is not JAX's name."""


def operator(eqn: Any) -> tuple[str, Hashable]:
    """What an equation computes of its inputs: the operator's name and its attributes. One with effects and a random one equal
    no other.
    """
    name = jaxprs.primitive_name(eqn)
    if jaxprs.of_lax(eqn):
        if _is_matmul(eqn):
            return "matmul", ()
        name = SHARED_NAMES.get(name, name)
    return name, _attributes(eqn)


def _is_matmul(eqn: Any) -> bool:
    """Whether this is NumPy's product of two matrices, or of as many."""
    if eqn.primitive.name != "dot_general":
        return False
    one, other = (atom.aval for atom in eqn.invars)
    rank = len(one.shape)
    batch = tuple(range(rank - 2))
    numbers = tuple(tuple(map(tuple, part)) for part in eqn.params["dimension_numbers"])
    given = {name: value for name, value in eqn.params.items() if value is not None and name != "dimension_numbers"}
    plain = not given.keys() - {"preferred_element_type"} and given.get("preferred_element_type") in (None, one.dtype)
    return plain and rank == len(other.shape) >= 2 and numbers == (((rank - 1,), (rank - 2,)), (batch, batch))


def _attributes(eqn: Any) -> tuple[Hashable, ...]:
    single = (object(),) if eqn.effects or eqn.primitive.name == "rng_uniform" else ()
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
        return type(value).__name__, repr(value)  # 1, 1.0 and True are equal in Python, and so are 0.0 and -0.0
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
