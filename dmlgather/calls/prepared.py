"""Caches: prepared calls by the signatures of arrays, and functions that repeat a call by the call's key."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache, partial
from typing import Any

from dmlgather.backends import arrays, prepared_call
from dmlgather.backends.adapter import Repeater
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import Signature, logical
from dmlgather.backends.prepared_call import CALLS_KEPT, PreparedCall, prepare_call
from dmlgather.dialects.problem import Problem
from dmlgather.plan import OutOfBounds


@lru_cache(maxsize=CALLS_KEPT)
def prepared(problem: Problem, policy: tuple[OutOfBounds, bytes], device: Device, *signatures: Signature) -> PreparedCall:
    """Return the prepared call of a problem for arrays with these signatures, from a cache.

    `signatures`: the inputs, then the output. Raises ValueError if the problem cannot use such arrays.
    """
    *inputs, out = map(logical, (*problem.arguments, "out"), signatures)
    lower = partial(problem.lower, out_of_bounds=policy[0], fill=policy[1])
    return prepare_call(lower, device, inputs, out, signatures)


def write(call: PreparedCall, problem: Problem, inputs: Sequence[Any], out: Any) -> None:
    """Run a prepared call of `problem`, so that it writes `out`. Under RAISE, wait for a GPU, and raise IndexError."""
    outcome = call.run(inputs, out, wait=True)
    if outcome is not None:
        outcome.raise_for_bad_index(problem.arguments[-1], problem.lookup_axes, problem.lookup_windows)


@lru_cache(maxsize=CALLS_KEPT)
def known(_owner: Hashable, _key: Hashable) -> list[Repeater]:
    """Return the cached functions that repeat calls with this key: a list, which is empty until a call fills it."""
    return []


def repeats(call: PreparedCall, args: Sequence[Any]) -> list[Repeater]:
    """Return [a function that repeats `call` on arrays like `args`], or [] if the call cannot be repeated.

    On a GPU, a call on arrays of several libraries cannot be repeated, because each call must order the libraries' streams.
    """
    present = [array for array in args if array is not None]
    if any(arrays.signature(array) is None for array in present):
        return []
    adapters = [arrays.adapter_of(array) for array in present]
    return [] if call.device.on_gpu and len({*adapters}) > 1 else [call.repeater(adapters)]


def forget() -> None:
    """Clear the caches of prepared calls and of programs. Only tests call it."""
    known.cache_clear()
    prepared.cache_clear()
    prepared_call.forget_programs()
