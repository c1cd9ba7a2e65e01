"""The values in a program that do not depend on its arguments, such as the starts in x[jnp.array([0, 2])]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.jaxprs import Place

ELEMENT_LIMIT = 2**16
"""Elements that a value may have; what is computed from larger ones counts as unknown."""

DEPTH_LIMIT = 100
"""Equations between a constant and a value; what lies further away counts as unknown."""

_RANDOM = frozenset({"rng_uniform", "rng_bit_generator"})
"""Operators of jax.lax whose results differ from run to run or from device to device."""

Argument = Callable[[int], Any]
"""The value of an argument of a jaxpr, None if it is unknown, at a depth."""


class Constants:
    """The values of one jaxpr's variables that are known. They are computed on demand, and once.

    jaxpr: closed or not. arguments: one per input; none where all are unknown.

    JAX's own operators on arrays (`jax.lax`) are evaluated, and the jaxprs that calls pass their inputs to. Loops, conditionals,
    random numbers, kernels and callbacks give unknown values.
    """

    def __init__(self, jaxpr: Any, arguments: Sequence[Argument] = ()) -> None:
        self._jaxpr, consts = jaxprs.opened(jaxpr)
        self._known = dict(zip(self._jaxpr.constvars, consts, strict=False))
        self._arguments = dict(zip(self._jaxpr.invars, arguments, strict=False))
        self._makers = {variable: eqn for eqn in self._jaxpr.eqns for variable in eqn.outvars}

    def value(self, atom: Any, depth: int = 0) -> Any:
        """The value of an atom of the jaxpr; None if it is unknown."""
        if jaxprs.literal(atom):
            return atom.val
        if atom not in self._known:
            self._known[atom] = None if depth == DEPTH_LIMIT else self._computed(atom, depth + 1)
        return self._known[atom]

    def inside(self, eqn: Any, jaxpr: Any) -> Constants:
        """Those of a jaxpr among an equation's parameters."""
        passed = eqn.invars[1:] if eqn.primitive.name == "cond" else eqn.invars if jaxprs.called(eqn) else ()
        return Constants(jaxpr, [partial(self.value, atom) for atom in passed])

    def _computed(self, variable: Any, depth: int) -> Any:
        if variable in self._arguments:
            return self._arguments[variable](depth)
        eqn = self._makers.get(variable)
        if eqn is None or prod(variable.aval.shape) > ELEMENT_LIMIT:
            return None
        place = eqn.outvars.index(variable)
        if called := jaxprs.called(eqn):
            _, body = called
            return self.inside(eqn, body).value(jaxprs.opened(body)[0].outvars[place], depth)
        if jaxprs.parts(eqn) or eqn.effects or not jaxprs.of_lax(eqn) or eqn.primitive.name in _RANDOM:
            return None
        inputs = [self.value(atom, depth) for atom in eqn.invars]
        if any(value is None or prod(atom.aval.shape) > ELEMENT_LIMIT for value, atom in zip(inputs, eqn.invars, strict=True)):
            return None
        return jaxprs.bind(self._jaxpr, eqn, inputs)[place]


def equations(jaxpr: Any) -> Iterator[tuple[Place, Any, Constants]]:
    """Every equation of a program with its place, each followed by those inside it; and the constants of its jaxpr."""
    return _equations(jaxpr, (), Constants(jaxpr))


def _equations(jaxpr: Any, around: Place, constants: Constants) -> Iterator[tuple[Place, Any, Constants]]:
    for number, eqn in enumerate(jaxprs.opened(jaxpr)[0].eqns):
        yield (*around, (number, "")), eqn, constants
        for label, inner in jaxprs.parts(eqn).items():
            yield from _equations(inner, (*around, (number, label)), constants.inside(eqn, inner))
