"""Text for messages: counts, sizes, names, paths and values; and corrections of misspelled names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def counted(number: int, thing: str) -> str:
    """Return a number with a noun: "1 entry", "2 entries", "0 files", "3 launches"."""
    plural = (
        thing[:-1] + "ies" if thing.endswith("y") and thing[-2] not in "aeou" else thing + ("es" if thing.endswith("ch") else "s")
    )
    return f"{number} {thing if number == 1 else plural}"


def amount(count: int) -> str:
    """Return a number of bytes with a unit: "512 bytes", "64 MiB"."""
    size, power = float(count), 0
    while size >= 1024 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{count} bytes" if not power else f"{size:.4g} {_UNITS[power]}"


def bytes_of(size: str) -> int | None:
    """Return the number of bytes that a text such as "2GB" states. None for other texts.

    >>> bytes_of("1.5 KiB"), bytes_of("2GB"), bytes_of("much")
    (1536, 2000000000, None)
    """
    from pydantic import ByteSize, TypeAdapter

    if not re.fullmatch(r"\d+(\.\d+)? ?([KMGTPE]?B|[KMGTPE]iB|[KMGTPE])?", size, re.ASCII | re.IGNORECASE):
        return None
    return int(TypeAdapter(ByteSize).validate_python(size))


def braces(sizes: Sequence[int | str]) -> str:
    """Return sizes as DirectML's documentation writes them: "{3,2}", "{seq,2}"."""
    return "{" + ",".join(printable(str(size)) for size in sizes) + "}"


def typed(data_type: str | None, shape: Sequence[int | str | None] | None) -> str:
    """Return a data type and a shape as text: "f32[2,?]"; "?[...]" if both are unknown."""
    sizes = "..." if shape is None else ",".join("?" if size is None else printable(str(size)) for size in shape)
    return f"{data_type or '?'}[{sizes}]"


def alternatives(names: Iterable[object]) -> str:
    """Join names with commas and "or": "INT64, INT32 or UINT32"."""
    *first, last = map(str, names)
    return f"{', '.join(first)} or {last}" if first else last


def printable(text: str) -> str:
    """Escape line breaks and control characters."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Escape control characters, and indent all lines but the first."""
    first, *others = map(printable, text.split("\n"))
    return "\n".join([first, *(f"  {line}" for line in others)])


LONGEST_TEXT = 1_000
"""In characters."""


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """Replace the middle of a text of more than `longest` characters by "…"."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … {text[-half:]}"


def spelled(value: Any) -> str:
    """Return a NumPy number as the shortest text that converts back to it. Any NaN is "nan"."""
    if value.dtype.kind in "iu":
        return str(int(value))
    number = float(value)
    if number.is_integer() and abs(number) < 1e16:
        return "-0" if number == 0 and str(number).startswith("-") else str(int(number))
    return str(value)


LONGEST_INTEGER = 192
"""In bits. Python refuses to print more than 4300 digits."""


def shown_value(value: object) -> str:
    """Return a JSON value as text of at most 60 characters. Arrays, objects and very long integers are only described."""
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    if value is not None and not isinstance(value, str | int | float):
        return f"a value of type {type(value).__name__}"
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        return f"an integer of {value.bit_length()} bits"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def dotted(path: Iterable[str | int]) -> str:
    """Return a path of keys and indices as text: "resources.input.initialValues[3]"."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return shortened(text)


LONGEST_NAME = 200
"""In characters."""

MOST_NAMES = 250


def closest(word: str, known: Iterable[str], cutoff: float = 0.8) -> str | None:
    """Return the known name that is most similar to a misspelled word."""
    import difflib

    if len(word) > LONGEST_NAME:
        return None
    candidates = {_normalised(name): name for name in islice(known, MOST_NAMES) if len(name) <= LONGEST_NAME}
    matches = difflib.get_close_matches(_normalised(word), list(candidates), n=1, cutoff=cutoff)
    return candidates[matches[0]] if matches else None


def _normalised(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
