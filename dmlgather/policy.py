"""Out-of-bounds policies as arguments of public functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.plan import OutOfBounds


@dataclass(frozen=True, slots=True)
class Fill:
    """The policy that writes `value`, one number, wherever an index is out of bounds.

    An integer type must hold it exactly; for a floating type it is rounded.

    >>> dg.onnx.gather(np.array([10, 20]), np.array([1, 5]), out_of_bounds=dg.Fill(-1))
    array([20, -1])
    """

    value: Any = 0


def resolve_policy(choice: str | Fill | None, default: OutOfBounds, dtype: np.dtype[Any]) -> tuple[OutOfBounds, bytes]:
    """The policy and its fill bytes for elements of `dtype`.

    choice: None for `default`, "clamp", "raise", "promise", or a Fill. ValueError for any other name and for a fill value
    that the type cannot hold: integers exactly, floats rounded but finite where the value is.
    """
    if choice is None:
        return default, b""
    if isinstance(choice, Fill):
        return OutOfBounds.FILL, _fill_bytes(choice.value, dtype)
    names = [policy.value for policy in OutOfBounds if policy is not OutOfBounds.FILL]
    if choice not in names:
        raise ValueError(f"out_of_bounds is {choice!r}, expected one of {names} or dmlgather.Fill(value)")
    return OutOfBounds(choice), b""


def _fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    if dtype.hasobject:
        raise ValueError(f"out_of_bounds is Fill({value!r}), but strings cannot be filled: use 'raise' or 'clamp'")
    given = np.asarray(value)
    real = given.dtype.kind in "biuf" or (given.dtype.kind == "c" and dtype.kind == "c")
    if given.shape or not real:
        raise ValueError(f"Fill value {value!r} is not one number of a type that {dtype} can hold")
    with np.errstate(all="ignore"):
        stored = given.astype(dtype)
    # As Python numbers, because NumPy would compare a float with a large integer as floats.
    exact = dtype.kind == "b" or dtype.name.startswith(("int", "uint"))  # int4 has NumPy's kind of unknown types
    lost = stored.item() != given.item() if exact else np.isfinite(given) and not np.isfinite(stored)
    if lost:
        raise ValueError(f"Fill value {value!r} cannot be stored as {dtype}: it would become {stored.item()!r}")
    return stored.tobytes()
