"""JAX's modes, which say what an index out of bounds does, and the values that the fill mode writes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dmlgather.plan import OutOfBounds
from dmlgather.wording import alternatives

MODES = {
    "clip": OutOfBounds.CLAMP,
    "fill": OutOfBounds.FILL,
    "drop": OutOfBounds.FILL,
    "promise_in_bounds": OutOfBounds.PROMISE,
}

MEMBERS = {
    "CLIP": OutOfBounds.CLAMP,
    "FILL_OR_DROP": OutOfBounds.FILL,
    "PROMISE_IN_BOUNDS": OutOfBounds.PROMISE,
}
"""The same as members of jax.lax.GatherScatterMode."""

_NANS = {"float8_e5m2": b"\x7f"}
"""The NaN that JAX fills with, where that of ml_dtypes differs."""

NO_NUMBERS = (np.character, np.void, np.object_, np.datetime64, np.timedelta64)
"""NumPy's scalars that are no numbers."""


def mode_of(mode: Any) -> OutOfBounds:
    """The policy of a mode: its name, a member of JAX's GatherScatterMode, or None, which lax.gather takes as promise_in_bounds.

    ValueError for anything else, "one_hot" included, with which JAX gathers nothing.
    """
    policy = OutOfBounds.PROMISE if mode is None else None
    if isinstance(mode, str):
        policy = MODES.get(mode)
    elif type(mode).__name__ == "GatherScatterMode":
        policy = MEMBERS.get(mode.name)
    if policy is None:
        raise ValueError(f"mode is {mode!r}, expected {alternatives(map(repr, MODES))}, such a GatherScatterMode, or None")
    return policy


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    """The bytes of one number in a type, cast as NumPy casts (9.5 to 9, 300 to 44 in uint8, NaN to the least int32).

    value: None for JAX's default: NaN, the least signed and the greatest unsigned integer, True. TypeError for what is not one
    number, arrays of one element included, and for a complex number in a real type; OverflowError for an integer of more than 64
    bits in an integer type.
    """
    if value is None:
        return _NANS.get(dtype.name) or _default(dtype).tobytes()
    array = np.asarray(_number(value))
    if array.dtype.kind == "O":  # an integer of more than 64 bits
        array = np.asarray(_rounded(value, dtype))
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"fill_value is {value!r}, a complex number, but the operand has type {dtype}")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a value that does not fit is cast all the same
        filled = array.astype(dtype)
        return _NANS[dtype.name] if dtype.name in _NANS and np.isnan(filled) else filled.tobytes()


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether a type is an integer type, int4 and the like included, for which NumPy has no kind."""
    return dtype.name.startswith(("int", "uint"))


def _number(value: Any) -> Any:
    plain = isinstance(value, bool | int | float | complex)
    if plain or (isinstance(value, np.generic) and not isinstance(value, NO_NUMBERS)):
        return value
    raise TypeError(f"fill_value is {value!r} of type {type(value).__name__}, expected one number (array.item() gives it)")


def _rounded(value: int, dtype: np.dtype[Any]) -> float | bool:
    """An integer of more than 64 bits as a number that NumPy can cast to a type."""
    try:
        if not is_integer(dtype):
            return True if dtype.kind == "b" else float(value)
    except OverflowError:
        pass
    raise OverflowError(f"fill_value is an integer of {value.bit_length()} bits, which a cast to {dtype} cannot start from")


def _default(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return np.array(True, dtype)
    if is_integer(dtype):
        limits = _limits(dtype)
        return np.array(limits.max if dtype.name.startswith("uint") else limits.min, dtype)
    return np.array(complex(np.nan, 0) if dtype.kind == "c" else np.nan, dtype)


def _limits(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype)
    import ml_dtypes  # whose type it is

    return ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call] # it ships no types
