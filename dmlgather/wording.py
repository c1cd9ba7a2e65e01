"""How messages write counts, sizes, alternatives, names, paths and values; the name that a word probably misspells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def counted(number: int, thing: str) -> str:
    """A number of things: "1 entry", "2 entries", "0 files", "3 launches", "2 arrays"."""
    several = (
        thing[:-1] + "ies" if thing.endswith("y") and thing[-2] not in "aeou" else thing + ("es" if thing.endswith("ch") else "s")
    )
    return f"{number} {thing if number == 1 else several}"


def amount(count: int) -> str:
    """A number of bytes: "512 bytes", "64 MiB", "1.5 GiB"."""
    size, power = float(count), 0
    while size >= 1024 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{count} bytes" if not power else f"{size:.4g} {_UNITS[power]}"


def braces(sizes: Sequence[int | str]) -> str:
    """Sizes as DirectML's pages write them: {3,2}, {seq,2}."""
    return "{" + ",".join(printable(str(size)) for size in sizes) + "}"


def typed(data_type: str | None, shape: Sequence[int | str | None] | None) -> str:
    """A data type with its sizes: "f32[2,?]", "?[...]" where neither type nor rank is known."""
    sizes = "..." if shape is None else ",".join("?" if size is None else printable(str(size)) for size in shape)
    return f"{data_type or '?'}[{sizes}]"


def alternatives(names: Iterable[object]) -> str:
    """Alternatives in words: "INT64, INT32 or UINT32"."""
    *first, last = map(str, names)
    return f"{', '.join(first)} or {last}" if first else last


def printable(text: str) -> str:
    """A name from a file, with what would break a line or steer a terminal spelled out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Lines of which each is printable, the further ones indented."""
    first, *others = map(printable, text.split("\n"))
    return "\n".join([first, *(f"  {line}" for line in others)])


LONGEST_TEXT = 1_000
"""Characters of a message, or of a path in one, that are shown."""


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text without its middle where it is longer than `longest` characters."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … {text[-half:]}"


def spelled(value: Any) -> str:
    """A NumPy number as briefly as it can be written without losing a bit (of a number; NaNs are all "nan")."""
    if value.dtype.kind in "iu":
        return str(int(value))
    number = float(value)
    if number.is_integer() and abs(number) < 1e16:
        return "-0" if number == 0 and str(number).startswith("-") else str(int(number))
    return str(value)


LONGEST_INTEGER = 192
"""Bits of an integer that is written out: more digits would not be shown, and Python writes no more than 4300."""


def shown_value(value: object) -> str:
    """A value of a JSON document, in short where it is long; of a Python value that JSON does not have, the type."""
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
    """A path of keys and indices as it is written in messages: resources.input.initialValues[3]."""
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
"""Characters of a name that is compared with others which it may misspell."""

MOST_NAMES = 250
"""Names that a name is compared with."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` probably misspells; None where none is similar. Of many known words, the first are compared."""
    import difflib

    if len(word) > LONGEST_NAME:
        return None
    plain = {_plain(item): item for item in islice(known, MOST_NAMES) if len(item) <= LONGEST_NAME}
    found = difflib.get_close_matches(_plain(word), list(plain), n=1, cutoff=0.8)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
