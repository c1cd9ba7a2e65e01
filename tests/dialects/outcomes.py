"""What a call comes to, and what two of them are compared by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Refusal:
    """A peer did not take or not run a call. kind: the exception that stands for its message."""

    kind: type[Exception]
    message: str


def outcome(function: Any, *args: Any, **named: Any) -> Array | type[Exception]:
    """The array a function returns, or the kind of exception it raises."""
    try:
        result: Array = function(*args, **named)
    except (IndexError, TypeError, ValueError) as error:
        return type(error)
    assert isinstance(result, np.ndarray)
    return result


def tried(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a function returns, or the exception that it raises for what it is given."""
    try:
        return function(*args, **named)
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        return error


def content(found: Array | type[Exception]) -> object:
    """What two outcomes are compared by: type, shape and every bit."""
    if isinstance(found, type):
        return found
    return found.dtype, found.shape, found.tolist() if found.dtype.kind in "OT" else found.tobytes()


def check_good(call: object, right: Array, arrays: Sequence[Array], run: Callable[..., Array]) -> None:
    """The CPU and the reference give that result of a call, bit for bit, in an array of its own, and change no array."""
    before = [content(array.copy()) for array in arrays]
    for device in ("cpu", "reference"):
        found = outcome(run, call, device=device)
        assert content(found) == content(right), f"{call} on {device}: got {found!r}, right is {right!r}"
        assert isinstance(found, np.ndarray)
        assert found.flags.c_contiguous
        assert not any(np.shares_memory(found, array) for array in arrays)
    assert [content(array) for array in arrays] == before


def check_broken(call: object, raises: type[Exception], ours: object, specified: object, verdict: object = None) -> None:
    """The function, its specification and the peer, if it is a judge of the call, refuse it for the same kind of reason."""
    assert specified is raises, f"the specification of {call}"
    assert ours is raises, f"{call}: got {ours!r}"
    if verdict is not None:
        assert isinstance(verdict, Refusal), f"the peer takes {call}"
        assert verdict.kind is raises, f"{call}: the peer says {verdict.message}"
