"""Out-of-bounds policies as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.plan import OutOfBounds


@dataclass(frozen=True, slots=True)
class Fill:
    """The policy that writes `value` wherever an index is out of bounds, rounded where the output's type is floating."""

    value: Any = 0


def resolve_policy(choice: str | Fill | None, default: OutOfBounds, dtype: np.dtype[Any]) -> tuple[OutOfBounds, bytes]:
    """The policy and its fill bytes for elements of `dtype`.

    choice: None for `default`, "clamp", "raise", "promise", or a Fill. ValueError for any other name and for a fill value
    that the type cannot hold exactly.
    """
    if choice is None:
        return default, b""
    if isinstance(choice, Fill):
        return OutOfBounds.FILL, _exact_bytes(choice.value, dtype)
    names = [policy.value for policy in OutOfBounds if policy is not OutOfBounds.FILL]
    if choice not in names:
        raise ValueError(f"out_of_bounds is {choice!r}, expected one of {names} or dmlgather.Fill(value)")
    return OutOfBounds(choice), b""


def _exact_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    given = np.asarray(value)
    if given.shape or given.dtype.kind not in "biufc":
        raise ValueError(f"Fill value {value!r} is not one number; expected a scalar that {dtype} can hold")
    with np.errstate(all="ignore"):
        stored = given.astype(dtype)
    integral = dtype.kind in "biu"
    if (integral and stored != given) or (not integral and np.isfinite(given) and not np.isfinite(stored)):
        raise ValueError(f"Fill value {value!r} cannot be stored as {dtype}: it would become {stored.item()!r}")
    return stored.tobytes()
