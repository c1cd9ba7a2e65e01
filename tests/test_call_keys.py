"""Keys of calls: equal for calls with the same meaning, different for others, and absent if a key cannot distinguish them."""

from __future__ import annotations

import re
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum, IntEnum
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends.arrays import signature
from dmlgather.calls.keys import LONGEST, read_call

DATA = np.zeros((4, 3), np.float32)
Numbers = namedtuple("Numbers", "first second")


class Mode(Enum):
    CLIP = 1


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Pair:
    first: Any


@dataclass
class Open:
    first: Any


class Integer(int):
    """An integer of unknown meaning."""


class Free(tuple[int, ...]):
    """A tuple with attributes."""


def key(*args: Any, **kwargs: Any) -> Any:
    """Return the key of a call with the array argument `data`."""
    return read_call(args, kwargs, {0: 0, "data": 0}, [None], signature)


ALIKE: tuple[Any, ...] = (
    *(1, True, 1.0, "1", np.int64(1), np.float64(1), np.int32(1), np.array(1), np.array([1]), Mode.CLIP, Level.LOW, Pair(1)),
    *(0, False, 0.0, -0.0, np.array(0.0), np.array(-0.0), None, "", (), []),
    *((1,), [1], (True,), ("1",), Numbers(1, 2), Numbers(True, 2), (1, 2), [1, 2], (1, True), (1, 1)),
    *(dg.Fill(1), dg.Fill(True), dg.Fill(1.0), dg.Fill(0.0), dg.Fill(-0.0), Pair(True), Pair((1,)), Pair((True,))),
    *(dg.lax.GatherDimensionNumbers((1,), (0,), (0,)), dg.lax.GatherDimensionNumbers((1,), (0,), (1,))),
)


def test_arguments_of_different_types_have_different_keys() -> None:
    keys = [key(DATA, value) for value in ALIKE]
    assert None not in keys
    for (left, one), (right, other) in combinations(zip(ALIKE, keys, strict=True), 2):
        assert one != other, (left, right)


def test_equal_calls_have_equal_keys() -> None:
    def call() -> Any:
        numbers = dg.lax.GatherDimensionNumbers((1,), (0,), (0,))
        return key(DATA.copy(), [1, 2], (3,), 1.5, np.array([1, 2]), numbers, mode=Mode.CLIP, fill=dg.Fill(float("nan")))

    assert call() == call()
    assert hash(call()) == hash(call())


def label(value: object) -> str:
    """Return a value's name in test ids. Addresses would differ between parallel test processes."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize(
    "other",
    [DATA.astype("f8"), DATA.astype(">f4"), DATA[:3], DATA.T, np.asfortranarray(DATA), DATA[::-1], DATA.reshape(4, 3, 1)],
)
def test_a_key_contains_an_arrays_type_shape_and_strides(other: Any) -> None:
    assert key(other) != key(DATA)
    assert key(data=other) != key(data=DATA)


def test_an_array_passed_by_name_fills_its_slot() -> None:
    inputs: list[Any] = [None, None]
    slots: dict[int | str, int] = {0: 0, "data": 0, 1: 1, "indices": 1}
    indices = np.zeros(2, np.int64)
    assert read_call((), {"indices": indices, "data": DATA}, slots, inputs, signature) is not None
    assert inputs[0] is DATA
    assert inputs[1] is indices


@pytest.mark.parametrize(
    "value",
    [
        *(Integer(1), [Integer(1)], Free((1,)), [[1]], {1: 2}, {1}, object(), Open(1), Pair(Open(1)), Pair([[1]]), Fraction(1)),
        *(np.zeros(LONGEST + 1), [0] * (LONGEST + 1), np.array([None]), np.zeros(1).view(np.recarray)),
        *((1, np.int64(1)), Numbers(1, object()), dg.Fill(Fraction(1)), [1.5], 1j),
    ],
    ids=label,
)
def test_a_call_with_an_opaque_argument_has_no_key(value: Any) -> None:
    assert key(DATA, value) is None
    assert key(DATA, name=value) is None


@pytest.mark.parametrize("array", [np.ma.array([1]), np.zeros(1).view(np.recarray), [1], np.float32(1), None])
def test_only_plain_arrays_have_a_key(array: Any) -> None:
    assert key(array) is None
    assert key(data=array) is None
