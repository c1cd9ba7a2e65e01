"""JAX's jaxprs, their equations, and values that are known. The one module that knows JAX's structures."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.fusion.traces import SourceLine
from dmlgather.package import missing_extra

Place = tuple[tuple[int, str], ...]
"""The place of an equation: from the outermost jaxpr inwards, an equation's number and the label of the jaxpr inside it that
follows; the last label is empty.
"""

CALLS = frozenset(
    {
        *("jit", "pjit", "closed_call", "core_call", "call"),
        *("checkpoint", "remat", "remat2"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "remat_opt"),
        *("custom_vmap_call", "custom_partitioning", "linear_call", "eval_jaxpr"),
        *("composite", "compute_on", "xla_metadata_call"),
    }
)
"""Primitives of this and earlier versions of JAX that pass their inputs to the one jaxpr in them, and return its results."""


def library() -> Any:
    """The module jax. MissingExtraError where it is missing."""
    try:
        import jax
        import jax.extend.core
    except ModuleNotFoundError as error:
        raise missing_extra("tracing a function", "jax", error) from None
    return jax


def opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and its constants; a jaxpr that is not closed has none."""
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, library().extend.core.ClosedJaxpr) else (jaxpr, ())


def parts(eqn: Any) -> dict[str, Any]:
    """The jaxprs in an equation's parameters, closed or not, by their labels: "scan", "while.body", "cond.branches[0]", "jit:f".

    They are recognised by type, so unknown primitives work too.
    """
    inside = [item for name, value in parameters(eqn).items() for item in _inside(value, name.removesuffix("_jaxpr"))]
    name, primitive = eqn.params.get("name"), primitive_name(eqn)
    title = f"{primitive}:{name}" if isinstance(name, str) else primitive
    return {title if len(inside) == 1 else f"{title}.{path}": jaxpr for path, jaxpr in inside}


def parameters(eqn: Any) -> Mapping[str, Any]:
    """The parameters of an equation. From JAX 0.12 on, some primitives are objects that hold them."""
    own = eqn.params.get("_prim")
    return eqn.params if own is None else {name: value for name, value in vars(own).items() if name != "params"}


def primitive_name(eqn: Any) -> str:
    """The name of an equation's primitive; of one that is an object, its class's."""
    own = eqn.params.get("_prim")
    return str(eqn.primitive.name) if own is None else type(own).__name__


def _inside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    core = library().extend.core
    if isinstance(value, core.Jaxpr | core.ClosedJaxpr):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _inside(item, f"{path}[{key!r}]")
    elif isinstance(value, tuple | list):
        names = getattr(value, "_fields", None)
        for number, item in enumerate(value):
            yield from _inside(item, f"{path}.{names[number]}" if names else f"{path}[{number}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _inside(getattr(value, field.name, None), f"{path}.{field.name}")


def called(eqn: Any) -> tuple[str, Any] | None:
    """The jaxpr that a call passes its inputs to, and its label; None for other equations."""
    inside = parts(eqn) if eqn.primitive.name in CALLS else {}
    return next(iter(inside.items())) if len(inside) == 1 else None


def argument_names(program: Any) -> list[str]:
    """How users know the arguments of a program: "x", "params['w']"; by number where JAX does not know."""
    names = getattr(opened(program)[0].debug_info, "arg_names", None) or ()
    count = len(opened(program)[0].invars)
    known = [*names, *(None for _ in range(count))][:count] if len(names) <= count else [None] * count
    return [name or f"argument {number}" for number, name in enumerate(known)]


def literal(atom: Any) -> bool:
    """Whether an input of an equation is a literal."""
    return isinstance(atom, library().extend.core.Literal)


def of_lax(eqn: Any) -> bool:
    """Whether an equation's primitive is one of jax.lax: other parts of JAX have primitives of the same names."""
    return eqn.primitive is getattr(library().lax, f"{eqn.primitive.name}_p", None)


@lru_cache(maxsize=256)
def extended(dtype: Any) -> bool:
    """Whether a type is one of JAX's own, whose elements are no plain bits: PRNG keys and others."""
    jax = library()
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.extended))


def key_words(dtype: Any) -> tuple[int, ...] | None:
    """The shape of the uint32 words that a PRNG key of that type holds; None for other types."""
    jax = library()
    if not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    return tuple(jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape)


def array(value: Any, dtype: Any) -> NDArray[Any]:
    """A value of a program as a NumPy array; PRNG keys as their words, in further dimensions behind."""
    if extended(dtype):
        return np.asarray(library().random.key_data(value))
    return np.asarray(value, dtype)


def bind(jaxpr: Any, eqn: Any, inputs: Sequence[Any]) -> list[Any]:
    """The results of one equation of a jaxpr, evaluated by JAX."""
    variables = [(atom, value) for atom, value in zip(eqn.invars, inputs, strict=True) if not literal(atom)]
    values = dict(variables)  # one variable may be read twice
    single = jaxpr.replace(constvars=[], invars=list(values), outvars=list(eqn.outvars), eqns=[eqn])
    return list(library().core.eval_jaxpr(single, (), *values.values()))


def source(eqn: Any) -> SourceLine | None:
    """The user's line that an equation comes from; None where none is known."""
    traceback = eqn.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if not _is_library(frame.file_name):
            return SourceLine(frame.file_name, frame.line_num, frame.function_name)
    return None


def _is_library(file: str) -> bool:
    """Whether a file belongs to JAX, to this package or to Python."""
    packages = (Path(library().__file__).parent, Path(__file__).parents[1])
    if any(Path(file).is_relative_to(package) for package in packages):
        return True
    return file.startswith((sysconfig.get_path("stdlib"), "<frozen")) and "-packages" not in file


# The values in a program that do not depend on its arguments, such as the starts in x[jnp.array([0, 2])].


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
        self._jaxpr, consts = opened(jaxpr)
        self._known = dict(zip(self._jaxpr.constvars, consts, strict=False))
        self._arguments = dict(zip(self._jaxpr.invars, arguments, strict=False))
        self._makers = {variable: eqn for eqn in self._jaxpr.eqns for variable in eqn.outvars}

    def value(self, atom: Any, depth: int = 0) -> Any:
        """The value of an atom of the jaxpr; None if it is unknown."""
        if literal(atom):
            return atom.val
        if atom not in self._known:
            self._known[atom] = None if depth == DEPTH_LIMIT else self._computed(atom, depth + 1)
        return self._known[atom]

    def inside(self, eqn: Any, jaxpr: Any) -> Constants:
        """Those of a jaxpr among an equation's parameters."""
        passed = eqn.invars[1:] if eqn.primitive.name == "cond" else eqn.invars if called(eqn) else ()
        return Constants(jaxpr, [partial(self.value, atom) for atom in passed])

    def _computed(self, variable: Any, depth: int) -> Any:
        if variable in self._arguments:
            return self._arguments[variable](depth)
        eqn = self._makers.get(variable)
        if eqn is None or prod(variable.aval.shape) > ELEMENT_LIMIT:
            return None
        place = eqn.outvars.index(variable)
        if (found := called(eqn)) is not None:
            _, body = found
            return self.inside(eqn, body).value(opened(body)[0].outvars[place], depth)
        if parts(eqn) or eqn.effects or not of_lax(eqn) or eqn.primitive.name in _RANDOM:
            return None
        inputs = [self.value(atom, depth) for atom in eqn.invars]
        if any(value is None or prod(atom.aval.shape) > ELEMENT_LIMIT for value, atom in zip(inputs, eqn.invars, strict=True)):
            return None
        return bind(self._jaxpr, eqn, inputs)[place]


def equations(jaxpr: Any) -> Iterator[tuple[Place, Any, Constants]]:
    """Every equation of a program with its place, each followed by those inside it; and the constants of its jaxpr."""
    return _equations(jaxpr, (), Constants(jaxpr))


def _equations(jaxpr: Any, around: Place, constants: Constants) -> Iterator[tuple[Place, Any, Constants]]:
    for number, eqn in enumerate(opened(jaxpr)[0].eqns):
        yield (*around, (number, "")), eqn, constants
        for label, inner in parts(eqn).items():
            yield from _equations(inner, (*around, (number, label)), constants.inside(eqn, inner))
