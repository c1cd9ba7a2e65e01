"""What the installed CuPy says about its own names: objects, parameters, and C types of arguments."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

RETURNS = {
    "cupy.cuda.get_current_stream": "cupy.cuda.Stream",
    "cupy.cuda.Stream.from_external": "cupy.cuda.Stream",
    "cupy.get_default_memory_pool": "cupy.cuda.MemoryPool",
    "cupy.RawModule.get_function": "cupy.RawKernel",
    "cupy.RawKernel.kernel": "cupy.cuda.function.Function",
    "cupy.cuda.runtime.pointerGetAttributes": "cupy.cuda.runtime.PointerAttributes",
    "cupy.cuda.Stream.end_capture": "cupy.cuda.Graph",
    "cupy.ndarray.data": "cupy.cuda.MemoryPointer",
    "cupy.ndarray.device": "cupy.cuda.Device",
    "cupy.ndarray.view": "cupy.ndarray",
    "cupy.ndarray.reshape": "cupy.ndarray",
    **dict.fromkeys(
        (f"cupy.{name}" for name in ("asarray", "concatenate", "empty", "from_dlpack", "lib.stride_tricks.as_strided")),
        "cupy.ndarray",
    ),
}
"""The class of what a function returns, or of an attribute, where another name of it is used. A class returns its instance."""

INSTANCES_ONLY = {"cupy.cuda.Stream.ptr", "cupy.cuda.Event.ptr"}
"""Attributes that a class sets when it makes an instance."""

_C_INTEGERS = {"int": (-(2**31), 2**31), "unsigned int": (0, 2**32), "size_t": (0, 2**64)}
_C_INTEGERS |= dict.fromkeys(("intptr_t", "ptrdiff_t"), (-(2**63), 2**63))
_PYTHON_TYPES = {"str": str, "unicode": str, "tuple": tuple, "bool": bool}


@functools.cache
def package() -> Any:
    """The real package. Kept, because stand-ins take its name for a while."""
    import cupy

    return cupy


def find(path: str) -> Any:
    """The object that "cupy.cuda.Device" names. AttributeError for a name that CuPy lacks."""
    found = package()
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found


def exists(path: str) -> bool:
    """Whether CuPy has this name."""
    try:
        find(path)
    except AttributeError:
        return False
    return True


def parameters(path: str) -> inspect.Signature:
    """The parameters that a caller passes, C types as annotations: Cython's line in the docstring where there is one.

    ValueError where CuPy tells neither.
    """
    found = find(path)
    name = path.rpartition(".")[2]
    line = (found.__doc__ or "").partition("\n")[0]
    stated = re.fullmatch(rf"(?:\w+\.)?{name}\((.*)\)(?: -> .*)?", line)
    signature = inspect.signature(found) if stated is None else _read(stated[1])
    rest = list(signature.parameters.values())
    if rest and rest[0].name in ("self", "cls"):
        rest = rest[1:]
    return inspect.Signature(rest)


def _read(text: str) -> inspect.Signature:
    """`int device, *, str path=None` as a signature."""
    found, keyword_only = [], False
    for part in _parts(text):
        if part == "*":
            keyword_only = True
            continue
        declared, _, default = part.partition("=")
        words = declared.partition(":")[0].split()
        kind: Any = inspect.Parameter.KEYWORD_ONLY if keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        if words[-1].startswith("**"):
            kind = inspect.Parameter.VAR_KEYWORD
        elif words[-1].startswith("*"):
            kind, keyword_only = inspect.Parameter.VAR_POSITIONAL, True
        found.append(
            inspect.Parameter(
                words[-1].lstrip("*"),
                kind,
                default=default or inspect.Parameter.empty,
                annotation=" ".join(words[:-1]) or inspect.Parameter.empty,
            )
        )
    return inspect.Signature(found)


def _parts(text: str) -> list[str]:
    """Split at the commas outside of brackets and quotes."""
    return [part.strip() for part in re.findall(r"(?:'[^']*'|\([^)]*\)|[^,])+", text) if part.strip()]


def complaint(path: str, positional: Sequence[Any], keywords: Mapping[str, Any]) -> str | None:
    """Why CuPy would refuse these arguments; None where it takes them. An argument `...` is of any type."""
    signature = parameters(path)
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as error:
        return f"{path}{signature}: {error}"
    for name, value in bound.arguments.items():
        declared = signature.parameters[name].annotation
        if value is not ... and not _taken(declared, value):
            return f"{path}: {name} is {value!r} of type {type(value).__name__}, and CuPy declares {declared}"
    return None


def _taken(declared: Any, value: Any) -> bool:
    if declared in _C_INTEGERS:
        low, high = _C_INTEGERS[declared]
        return hasattr(value, "__index__") and low <= value.__index__() < high
    return declared not in _PYTHON_TYPES or value is None or isinstance(value, _PYTHON_TYPES[declared])
