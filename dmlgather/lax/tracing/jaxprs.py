"""How JAX writes a function down: jaxprs, their equations and those inside them. The one place that knows JAX's structures."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Place = tuple[tuple[int, str], ...]
"""Where an equation stands: its number in each jaxpr from the outermost in, with the label of the inner jaxpr that follows; the
last label is empty.
"""


def library() -> Any:
    """The module jax. ModuleNotFoundError, with what to install, where it is missing."""
    try:
        import jax
        import jax.extend.core
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"trace reads functions with the package jax, which is missing ({error}): pip install 'dmlgather[jax]'",
            name=error.name,
        ) from None
    return jax


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The line that an equation comes from: the innermost one that is neither JAX's, Python's nor this package's."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and its constants; none for one that is not closed."""
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, library().extend.core.ClosedJaxpr) else (jaxpr, ())


def parts(eqn: Any) -> dict[str, Any]:
    """The jaxprs in an equation's parameters, closed or not, by their labels: "scan", "while.body", "cond.branches[0]", "jit:f".

    Found by type, so that primitives that nobody here knows are no exception.
    """
    found = [item for name, value in eqn.params.items() for item in _inside(value, name.removesuffix("_jaxpr"))]
    name = eqn.params.get("name")
    title = f"{eqn.primitive.name}:{name}" if isinstance(name, str) else str(eqn.primitive.name)
    return {title if len(found) == 1 else f"{title}.{path}": jaxpr for path, jaxpr in found}


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


def equations(jaxpr: Any, around: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every equation, with those inside it behind it."""
    for number, eqn in enumerate(opened(jaxpr)[0].eqns):
        yield (*around, (number, "")), eqn
        for label, inner in parts(eqn).items():
            yield from equations(inner, (*around, (number, label)))


def literal(atom: Any) -> bool:
    """Whether an input of an equation is a number written into it."""
    return isinstance(atom, library().extend.core.Literal)


def extended(dtype: Any) -> bool:
    """Whether a type is one of JAX's own, whose elements are no plain bits: PRNG keys."""
    jax = library()
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.extended))


def bind(jaxpr: Any, eqn: Any, inputs: Sequence[Any]) -> list[Any]:
    """What JAX computes for one equation of a jaxpr."""
    variables = [(atom, value) for atom, value in zip(eqn.invars, inputs, strict=True) if not literal(atom)]
    given = dict(variables)  # one variable may be read twice
    alone = jaxpr.replace(constvars=[], invars=list(given), outvars=list(eqn.outvars), eqns=[eqn])
    return list(library().core.eval_jaxpr(alone, (), *given.values()))


def source(eqn: Any) -> SourceLine | None:
    """Where an equation comes from; None where no line but JAX's own is known."""
    traceback = eqn.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if not _ours_or_theirs(frame.file_name):
            return SourceLine(frame.file_name, frame.line_num, frame.function_name)
    return None


def _ours_or_theirs(file: str) -> bool:
    packages = (Path(library().__file__).parent, Path(__file__).parents[1])
    if any(Path(file).is_relative_to(package) for package in packages):
        return True
    return file.startswith((sysconfig.get_path("stdlib"), "<frozen")) and "-packages" not in file
