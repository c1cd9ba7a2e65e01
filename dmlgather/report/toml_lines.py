"""The lines of keys in a TOML text; the standard library's parser returns only values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

_BLANK = re.compile(r"\s*(#.*)?")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line of the statement that gives `path` its value, counted from 1; None where there is none.

    The statement is the last one of the shortest beginning of the text that parses and has a value at `path`.
    """
    lines = text.split("\n")
    begun = 0
    for end in range(1, len(lines) + 1):
        try:
            parsed = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:  # a value of several lines continues
            continue
        if has(parsed, path):
            return next(number for number in range(begun, end) if not _BLANK.fullmatch(lines[number])) + 1
        begun = end
    return None


def has(value: Any, path: Sequence[str | int]) -> bool:
    """Whether there is a value at `path`."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return False
    return True
