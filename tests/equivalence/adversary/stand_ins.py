"""What stands for the operators that a proof may assume to give the same bits in two libraries: one function for both.

Where two programs are equal under such an assumption, they give the same bits with these functions in the place of the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from typing import Any

import numpy as np

from tests.equivalence.adversary.drafts import FLOATS, Array, numpy_dtype


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def _product(x: Array, y: Array) -> Array:
    """In one order for all libraries."""
    return np.asarray((x[..., :, :, None] * y[..., None, :, :]).sum(-2))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(lambda number: erf(float(number)), otypes=[np.float64])(x))


_OF_NUMPY = (
    *("abs", "add", "ceil", "cos", "divide", "exp", "floor", "log", "maximum", "minimum", "multiply", "negative", "power"),
    *("reciprocal", "sign", "sin", "sqrt", "subtract", "tanh", "equal", "greater", "greater_equal", "less", "less_equal"),
)

FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in _OF_NUMPY},
    "round": np.rint,
    "erf": _erf,
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(x.dtype.type(2)))),
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "silu": lambda x: x * _sigmoid(x),
    "softmax": _softmax,
    "log_softmax": lambda x, axis: np.log(_softmax(x, axis)),
    "cumsum": np.cumsum,
    "matmul": _product,
    "reduce_sum": lambda x, axis, keepdims: x.sum(axis, keepdims=keepdims),
    "reduce_mean": lambda x, axis, keepdims: x.mean(axis, keepdims=keepdims),
    "reduce_max": lambda x, axis, keepdims: x.max(axis, keepdims=keepdims),
}
"""The functions of real numbers, by the names that drafts have for them."""


def stand_in(name: str, *arrays: Array, **attributes: Any) -> Array:
    """What stands for an operator: its function, computed widely and rounded once. Every NaN is one NaN."""
    dtype = arrays[0].dtype
    wide = np.longdouble if dtype == np.float64 else np.float64
    with np.errstate(all="ignore"):
        found = np.asarray(FUNCTIONS[name](*(array.astype(wide) for array in arrays), **attributes))
        if found.dtype == bool:
            return found
        found = found.astype(dtype)
    found[np.isnan(found)] = np.nan
    return found


def fits(name: str | None, *arrays: Any) -> bool:
    """Whether there is a stand-in: for floats of one type."""
    return (
        name is not None
        and {array.dtype.name for array in arrays} <= {*FLOATS}
        and len({array.dtype.name for array in arrays}) == 1
    )


def cast(array: Array, to: str) -> Array | None:
    """What stands for a conversion from floats or to floats; None for another one. Integers end at the limits of their type."""
    own, dtype = array.dtype.name, numpy_dtype(to)
    if own not in FLOATS and to not in FLOATS:
        return None
    with np.errstate(all="ignore"):
        if to in FLOATS or to == "bool":
            found = np.asarray(array.astype(np.float32 if own == "bool" else array.dtype).astype(dtype))
            if to in FLOATS:
                found[np.isnan(found)] = np.nan
            return found
        limits, wide = np.iinfo(dtype), np.nan_to_num(array.astype(np.longdouble), posinf=np.inf, neginf=-np.inf)
        return np.asarray(np.clip(np.trunc(wide), int(limits.min), int(limits.max)).astype(dtype))
