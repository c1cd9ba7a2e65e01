"""What is kept of calls that have run: prepared calls by the signatures of arrays, and how calls of a key run again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache, partial
from typing import Any

from dmlgather.backends import arrays, prepared_call
from dmlgather.backends.adapter import Again
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import Signature, logical
from dmlgather.backends.prepared_call import CALLS_KEPT, PreparedCall, prepare_call
from dmlgather.dialects.problem import Problem
from dmlgather.plan import OutOfBounds


@lru_cache(maxsize=CALLS_KEPT)
def prepared(problem: Problem, policy: tuple[OutOfBounds, bytes], device: Device, *signatures: Signature) -> PreparedCall:
    """The problem on views of these signatures, inputs first, in the memory of the device that runs it.

    ValueError where no plan can say how it walks over their strides, and for arrays that cannot be read or written there.
    """
    *inputs, out = map(logical, (*problem.arguments, "out"), signatures)
    lower = partial(problem.lower, out_of_bounds=policy[0], fill=policy[1])
    return prepare_call(lower, device, inputs, out, signatures)


def write(call: PreparedCall, problem: Problem, inputs: Sequence[Any], out: Any) -> None:
    """Run a problem's call on views. IndexError for a bad index under RAISE, for which a GPU is waited for."""
    outcome = call.run(inputs, out, wait=True)
    if outcome is not None:
        outcome.raise_for_bad_index(problem.arguments[-1], problem.lookup_axes, problem.lookup_windows)


@lru_cache(maxsize=CALLS_KEPT)
def known(_owner: Hashable, _key: Hashable) -> list[Again]:
    """What runs calls of a key again: nothing until one has run and left it here."""
    return []


def repeats(call: PreparedCall, given: Sequence[Any]) -> list[Again]:
    """What runs calls like one that has run, on `given` as they are. Nothing where an array has to be looked at in each call, and
    for arrays of several libraries on a GPU, whose streams have to be.

    given: the inputs, then `out`, or None for a new array.
    """
    present = [array for array in given if array is not None]
    if any(arrays.signature(array) is None for array in present):
        return []
    adapters = [arrays.adapter_of(array) for array in present]
    if call.device.on_gpu and len({*adapters}) > 1:
        return []
    return [call.again(adapters)]


def forget() -> None:
    """Drop what was prepared for earlier calls: for tests."""
    known.cache_clear()
    prepared.cache_clear()
    prepared_call.forget_programs()
