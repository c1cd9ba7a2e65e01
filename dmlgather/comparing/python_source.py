"""Python source of calls, laid out as `ruff format` leaves it at any line length from 88 on."""

from __future__ import annotations

import builtins
import enum
import itertools
import keyword
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import BufferTensorDesc, DataType, OperatorDesc, TensorFlags
from dmlgather.directml.fields import unstated

WIDTH = 88
"""Columns of a line."""


@dataclass(frozen=True)
class SourceCall:
    """`name(arguments)`; a tuple where the name is empty. arguments: source, calls, or (keyword, either)."""

    name: str
    arguments: Sequence[Any]


def laid_out(value: str | SourceCall, indent: int = 0, prefix: str = "", suffix: str = "") -> str:
    """`prefix`, the value and `suffix` on one or several lines. All lines but the first are indented."""
    flat = _flat(value)
    if flat is not None and indent + len(prefix) + len(flat) + len(suffix) <= WIDTH:
        return prefix + flat + suffix
    if isinstance(value, str):
        return prefix + value + suffix
    lines = []
    for argument in value.arguments:
        key, inner = argument if isinstance(argument, tuple) else ("", argument)
        lines.append(" " * (indent + 4) + laid_out(inner, indent + 4, f"{key}=" if key else "", ","))
    return "\n".join([f"{prefix}{value.name}(", *lines, " " * indent + ")" + suffix])


def _flat(value: str | SourceCall) -> str | None:
    """The value on one line; None where a string has several."""
    if isinstance(value, str):
        return None if "\n" in value else value
    parts = []
    for argument in value.arguments:
        key, inner = argument if isinstance(argument, tuple) else ("", argument)
        flat = _flat(inner)
        if flat is None:
            return None
        parts.append(f"{key}={flat}" if key else flat)
    comma = "," if not value.name and len(parts) == 1 else ""
    return f"{value.name}({', '.join(parts)}{comma})"


def descriptor(desc: OperatorDesc) -> SourceCall:
    """A descriptor, without the fields that have their defaults."""
    arguments: list[Any] = []
    for name, field in type(desc).model_fields.items():
        value = getattr(desc, name)
        if isinstance(value, BufferTensorDesc):
            arguments.append((name, _tensor(value)))
        elif field.default_factory is not unstated:
            arguments.append((name, _value(value)))
    return SourceCall(f"dg.{type(desc).__name__}", arguments)


def _tensor(tensor: BufferTensorDesc) -> SourceCall:
    arguments: list[Any] = [("data_type", _value(tensor.data_type))]
    if tensor.flags:
        arguments.append(("flags", " | ".join(f"dg.TensorFlags.{flag.name}" for flag in TensorFlags if flag & tensor.flags)))
    arguments.append(("sizes", _value(tensor.sizes)))
    for name in ("strides", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"):
        value = getattr(tensor, name)
        if value not in (None, 0):
            arguments.append((name, _value(value)))
    return SourceCall("dg.BufferTensorDesc", arguments)


def _value(value: int | enum.Enum | tuple[int, ...]) -> str | SourceCall:
    if isinstance(value, enum.Enum):
        return f"dg.{type(value).__name__}.{value.name}"
    return str(value) if isinstance(value, int) else SourceCall("", [str(item) for item in value])


def constant(value: Any, count: int, data_type: DataType) -> SourceCall:
    """An array of one value, a NumPy number."""
    text = str(value) if value.dtype.kind == "f" else str(int(value))
    return SourceCall("np.full", [str(count), re.sub("(nan|inf)", r"np.\1", text), dtype_source(data_type)])


def array(values: NDArray[Any], data_type: DataType, indent: int) -> SourceCall:
    """The values as a call of `numbers` (decimal), or of `bits` (hexadecimal) where decimals would lose bits."""
    words = [str(value) if values.dtype.kind == "f" else str(int(value)) for value in values]
    with np.errstate(all="ignore"):
        name = "numbers" if np.array(words, values.dtype).tobytes() == values.tobytes() else "bits"
    if name == "bits":
        words = [value.tobytes().hex() for value in values]
    text = " ".join(words)
    if len(text) > WIDTH - 40:
        margin = " " * indent
        lines = textwrap.wrap(text, WIDTH - indent, break_long_words=False)
        text = '"""\n' + "\n".join(f"{margin}{line}" for line in lines) + f'\n{margin}"""'
    else:
        text = f'"{text}"'
    return SourceCall(name, [text, dtype_source(data_type)])


def dtype_source(data_type: DataType) -> str:
    """The NumPy type of a data type."""
    return f"np.{data_type.name.lower()}"


def identifiers(names: Iterable[str], taken: Iterable[str] = (), upper: bool = False) -> dict[str, str]:
    """A Python name for each of the names, all different and none of those `taken`."""
    used = {*taken, *dir(builtins), *keyword.kwlist}
    found = {}
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)[:40]
        plain = plain.upper() if upper else re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", plain).lower()
        plain = plain if plain.isidentifier() and plain.strip("_") else f"n_{plain}"
        endings = itertools.chain(["", "_"], (f"_{number}" for number in itertools.count(2)))
        found[name] = next(plain + ending for ending in endings if plain + ending not in used)
        used.add(found[name])
    return found


def label(text: str) -> str:
    """A name from a file as it can stand inside a string or a docstring."""
    return re.sub(r"[^ -~]|[\"\\{}]", "_", text)[:60]
