"""Drafts as functions of JAX, which runs them operator by operator: what XLA makes of several at once may round otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from tests.equivalence.adversary import names
from tests.equivalence.adversary.drafts import Array, Attributes, Draft, numpy_dtype
from tests.equivalence.adversary.libraries import Outcome
from tests.equivalence.adversary.stand_ins import cast, fits, stand_in


def _axis(given: Attributes) -> int:
    return int(given.get("axis", -1))


def _sliced(x: Any, given: Attributes) -> Any:
    axis = _axis(given) % x.ndim
    return x[(slice(None),) * axis + (slice(given["start"], given["stop"]),)]


_LIBRARIES = (jnp, jax.nn, jax.lax)

OPERATORS: Mapping[str, Callable[..., Any]] = {
    name: getattr(next(each for each in _LIBRARIES if hasattr(each, own)), own) for name, own in names.JAX.items()
}
"""The functions that take no attributes. Those that NumPy lacks are JAX's own."""

WITH_ATTRIBUTES: Mapping[str, Callable[..., Any]] = {
    "gelu": lambda given, x: jax.nn.gelu(x, approximate=given.get("approximate") == "tanh"),
    "leaky_relu": lambda given, x: jax.nn.leaky_relu(x, *([given["alpha"]] if "alpha" in given else [])),
    "elu": lambda given, x: jax.nn.elu(x, *([given["alpha"]] if "alpha" in given else [])),
    "scale": lambda given, x: x * given["number"],
    "shift": lambda given, x: x + given["number"],
    "clip": lambda given, x: jnp.clip(x, given["low"], given["high"]),
    "cast": lambda given, x: x.astype(numpy_dtype(given["to"])),
    "softmax": lambda given, x: jax.nn.softmax(x, _axis(given)),
    "log_softmax": lambda given, x: jax.nn.log_softmax(x, _axis(given)),
    "cumsum": lambda given, x: jnp.cumsum(x, _axis(given)),
    **{
        name: lambda given, x, reduce=reduce: reduce(x, _axis(given), keepdims=given.get("keepdims", True))
        for name, reduce in (("reduce_sum", jnp.sum), ("reduce_mean", jnp.mean), ("reduce_max", jnp.max))
    },
    "linear": lambda given, x, w, b: jnp.matmul(x, w) + b,
    "gather": lambda given, x, i: jnp.take(x, i, _axis(given), mode="clip"),
    "transpose": lambda given, x: jnp.transpose(x, given["order"]),
    "reshape": lambda given, x: jnp.reshape(x, given["shape"]),
    "slice": lambda given, x: _sliced(x, given),
    "reverse": lambda given, x: jnp.flip(x, _axis(given)),
    "concat": lambda given, x, y: jnp.concatenate([x, y], _axis(given)),
}
"""The other functions; they take the attributes first."""


def program(draft: Draft) -> Callable[..., Any]:
    """The function of a draft. Its arguments are the inputs, in order."""
    return draft.function(OPERATORS, WITH_ATTRIBUTES, lambda: {name: jnp.asarray(each) for name, each in draft.constants.items()})


_STAND_INS = names.by_own(names.PRIMITIVES) | {"reduce_sum": "reduce_sum", "reduce_max": "reduce_max", "dot_general": "matmul"}
"""What stands for a primitive."""


def runner(function: Callable[..., Any], *, standing_in: bool = False) -> Callable[[Mapping[str, Array]], Outcome]:
    """Runs a function with 64-bit types. standing_in: stand-ins do what proofs may assume of primitives."""

    def run(arrays: Mapping[str, Array]) -> Outcome:
        with jax.enable_x64(True):
            given = [jnp.asarray(array) for array in arrays.values()]
            if standing_in:
                closed = jax.make_jaxpr(function)(*given)
                return [np.asarray(array) for array in _evaluated(closed.jaxpr, closed.consts, given)]
            with jax.disable_jit():
                return [np.asarray(array) for array in function(*given)]

    return run


def _evaluated(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr, primitive by primitive."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    for eqn in jaxpr.eqns:
        given = [atom.val if isinstance(atom, jax.extend.core.Literal) else values[atom] for atom in eqn.invars]
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if inner is not None:
            found = _evaluated(inner.jaxpr, inner.consts, given)
        else:
            stood = _stood_in(eqn, given)
            done: Any = eqn.primitive.bind(*given, **eqn.params) if stood is None else jnp.asarray(stood)
            found = [*done] if eqn.primitive.multiple_results else [done]
        values |= zip(eqn.outvars, found, strict=True)
    return [atom.val if isinstance(atom, jax.extend.core.Literal) else values[atom] for atom in jaxpr.outvars]


def _stood_in(eqn: Any, given: Sequence[Any]) -> Array | None:
    """What a stand-in gives for an equation; None where there is none."""
    name = _STAND_INS.get(eqn.primitive.name)
    arrays = [np.asarray(array).astype(atom.aval.dtype) for array, atom in zip(given, eqn.invars, strict=True)]
    if eqn.primitive.name == "convert_element_type":
        return cast(arrays[0], np.dtype(eqn.params["new_dtype"]).name)
    if name is None or not fits(name, *arrays):
        return None
    if name == "matmul" and eqn.params["dimension_numbers"] != (((1,), (0,)), ((), ())):
        return None
    attributes = {"axis": eqn.params["axes"], "keepdims": False} if name.startswith("reduce") else {}
    return stand_in(name, *arrays, **attributes)
