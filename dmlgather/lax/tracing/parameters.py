"""The parameters of equations as hashable values: equal only where the equations compute the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dmlgather.lax.tracing import jaxprs


def attributes(eqn: Any) -> Hashable:
    """What decides, besides its inputs, what an equation computes. One with effects and a random one equal no other."""
    single = (object(),) if eqn.effects or eqn.primitive.name == "rng_uniform" else ()
    return (*_fields(jaxprs.parameters(eqn)), *single)


def _fields(params: Mapping[str, Any]) -> tuple[Hashable, ...]:
    return tuple((name, _canonical(value)) for name, value in sorted(params.items()) if value is not None)


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
    lines = tuple((jaxprs.primitive_name(eqn), read(eqn.invars), attributes(eqn), written(eqn.outvars)) for eqn in inner.eqns)
    return *starts, lines, read(inner.outvars), *map(_canonical, consts)
