"""What array libraries call their data types. None of them is imported: NumPy reads its own, the others' are read by name."""

from __future__ import annotations

import contextlib
import re

import numpy as np


def type_name(value: object) -> str | None:
    """What array libraries call the type that they write as `value`; None where it looks like no type of theirs."""
    if isinstance(value, str):
        if re.fullmatch(r"[<>=|]?[biufc]\d+|half|single|double", value):  # NumPy's short names
            with contextlib.suppress(TypeError):
                return type_name(np.dtype(value))
        return value if re.fullmatch(r"(bool|int|b?float|(u?int|b?float|complex)\d\w*)", value) else None
    if isinstance(value, np.dtype):
        return value.name if value.isnative else value.str
    if isinstance(value, type):  # JAX's as well
        return value.__name__
    if type(value).__name__.lower() == "dtype":  # torch's: torch.float32
        return str(getattr(value, "name", value)).rpartition(".")[2]
    return None


def fault(name: str) -> str:
    """Why a type of an array library is none of DirectML's, and what to write in its place."""
    if name in ("int", "float"):
        return f"{name} states no size: write numpy.{name}32 or numpy.{name}64"
    if name.startswith(("<", ">")):
        return f"{name} has the other byte order: convert the elements with .astype('{np.dtype(name).name}')"
    bits = re.sub(r"\D.*", "", name.lstrip("abcdefghijklmnopqrstuvwxyz_"))
    instead = f": uint{bits} holds its bits (array.view('uint{bits}'))" if bits in ("8", "16", "32", "64") else ""
    return f"{name} is no data type of DirectML{instead}"
