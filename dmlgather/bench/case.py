"""One benchmark case: a descriptor, its arrays, and NumPy's own spelling of the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import BufferTensorDesc, OperatorDesc

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Spelling:
    """How NumPy says it. text: as one would type it; x is the input, i the indices. call: from the input arrays to a new
    array. into: from the input arrays and the output to nothing, by NumPy's quickest way without a new array.
    """

    text: str
    call: Callable[..., Array]
    into: Callable[..., object]


@dataclass(frozen=True, slots=True)
class Problem:
    """A case at one size. arrays: the operator's inputs in the descriptor's order."""

    desc: OperatorDesc
    arrays: tuple[Array, ...]
    numpy: Spelling


@dataclass(frozen=True, slots=True)
class Case:
    """name: one word for tables. what: one line. make: the problem at a scale (1 = full size), with fresh random arrays."""

    name: str
    what: str
    make: Callable[[float], Problem]


def tensor(data_type: str, sizes: Sequence[int]) -> BufferTensorDesc:
    """A packed tensor."""
    return BufferTensorDesc(data_type=data_type, sizes=tuple(sizes))


def bits(sizes: Sequence[int], dtype: str) -> Array:
    """Random bits as an array: every NaN payload is as likely as every other."""
    count = int(np.prod(sizes)) * np.dtype(dtype).itemsize
    return np.frombuffer(np.random.default_rng().bytes(count), dtype).reshape(sizes)


def indices(limit: int, sizes: Sequence[int], dtype: str = "int64") -> Array:
    """Valid, uniformly random indices, none of them negative."""
    return np.random.default_rng().integers(0, limit, sizes).astype(dtype)


def scaled(size: int, scale: float) -> int:
    """`size` at a scale, at least 4."""
    return max(4, round(size * scale))
