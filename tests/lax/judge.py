"""JAX as a live judge, on the CPU. Many calls are compiled at once, which costs a fifth of compiling each by itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects.outcomes import Array, Refusal, content
from tests.lax.specification import Call

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before JAX looks for GPUs and TPUs, and warns that there are none

jax: Any = import_module("jax")
"""JAX; everything in the tests that needs it takes it from here."""

lax: Any = jax.lax

QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options of its compiler that halve its time."""

ONE_NAN = tuple(map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2)))
"""Types in which JAX's fill mode makes every NaN the same one, on the CPU; a gather moves bits."""


def judged_content(array: Array) -> object:
    """What JAX judges of an array: type, shape and every bit, but for those of numbers that JAX rewrites on the CPU: which NaN it
    is, in every mode when compiled `QUICKLY`, and subnormal bfloat16 numbers, of which some programs make zeros.
    """
    if array.dtype == ml_dtypes.bfloat16:
        bits = array.view(np.uint16)
        array = np.where(bits & 0x7F80, bits, bits & 0x8000).astype(np.uint16).view(array.dtype)
    if array.dtype in ONE_NAN:
        with np.errstate(invalid="ignore"):  # some NaNs are signalling ones
            array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return content(array)


def judge(calls: Sequence[Call]) -> list[Array]:
    """What JAX returns for good calls, all of one x64 mode."""
    (x64,) = {call.x64 for call in calls}
    arrays = [(np.array(call.operand, order="C"), np.array(call.start_indices, order="C")) for call in calls]

    def all_of_them(given: Any) -> list[Any]:
        return [_gather(call, *pair) for call, pair in zip(calls, given, strict=True)]

    with jax.enable_x64(x64), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* encountered in cast", RuntimeWarning)  # of fill values that do not fit
        compiled = jax.jit(all_of_them, compiler_options=QUICKLY)
        return [np.asarray(result) for result in compiled(arrays)]


def refusal(call: Call) -> Array | Refusal:
    """What JAX makes of a broken call; nothing is compiled where it refuses it."""
    try:
        with jax.enable_x64(call.x64), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=np.exceptions.ComplexWarning)  # which says so before it refuses
            return np.asarray(_gather(call, call.operand, call.start_indices))
    except Exception as error:
        return Refusal(type(error), str(error))


def _gather(call: Call, operand: Any, start_indices: Any) -> Any:
    numbers = lax.GatherDimensionNumbers(*call.numbers)
    return lax.gather(operand, start_indices, numbers, call.slice_sizes, mode=call.mode, fill_value=call.fill_value)
