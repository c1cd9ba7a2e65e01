"""Sizes and conditions of reports, such as "floor(seq/2) + 1" and "1 <= N <= 7", with numbers for their names."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

_FUNCTIONS: Mapping[str, Any] = {
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceiling": math.ceil,
    "mod": operator.mod,
    "Abs": abs,
}
_PART = re.compile(r"\d+|<=|>=|==|[-+*/(),<>=]|\s+|" + "|".join(_FUNCTIONS))


_WORD = re.compile(r"'[^']*'|(?<![\w.\]])[^\W\d][\w.\[\]]*")
"""Matches a name or a function."""


def evaluate(text: str, sizes: Mapping[str, int]) -> Any:
    """Return the value of a size, or whether a condition holds, or None if it has names that `sizes` lacks."""
    if text in sizes:
        return sizes[text]
    numbers = _WORD.sub(lambda word: _number(word[0], sizes), text)
    if _PART.sub("", numbers):  # names that are not identifiers, or whole expressions
        numbers = text
        for name in sorted((name for name in sizes if not _WORD.fullmatch(name) and name in text), key=len, reverse=True):
            numbers = numbers.replace(name, f"({sizes[name]})")
        numbers = _WORD.sub(lambda word: _number(word[0], sizes), numbers)
    if _PART.sub("", numbers):
        return None
    equal = re.sub(r"(?<![<>=])=(?!=)", "==", numbers)
    exact = re.sub(r"\d+", lambda number: f"Fraction({number[0]})", equal)
    return eval(exact, {"__builtins__": {}, "Fraction": Fraction, **_FUNCTIONS})  # its parts are checked above


def _number(word: str, sizes: Mapping[str, int]) -> str:
    name = word.strip("'")
    return f"({sizes[name]})" if name in sizes else word
