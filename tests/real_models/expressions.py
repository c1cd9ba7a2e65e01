"""Sizes and conditions as reports write them, "floor(seq/2) + 1" and "1 <= N <= 7", with numbers for the names."""

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


def evaluate(text: str, sizes: Mapping[str, int]) -> Any:
    """What a size is, or whether a condition holds; None where it has names that `sizes` lacks."""
    if text in sizes:
        return sizes[text]
    names = sorted((name for name in sizes if name in text), key=len, reverse=True)
    for name in names:
        quoted = f"'{name}'"
        text = text.replace(quoted, f"({sizes[name]})") if quoted in text else _replaced(text, name, sizes[name])
    text = re.sub(r"(?<![<>=])=(?!=)", "==", text)
    if _PART.sub("", text):
        return None
    exact = re.sub(r"\d+", lambda number: f"Fraction({number[0]})", text)
    return eval(exact, {"__builtins__": {}, "Fraction": Fraction, **_FUNCTIONS})  # its parts were checked above


def _replaced(text: str, name: str, size: int) -> str:
    return re.sub(rf"(?<![\w.\]]){re.escape(name)}(?![\w.\[])", f"({size})", text)
