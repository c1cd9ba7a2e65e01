"""Elements that say where they stand: all of them found again, of every type."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmlgather.dialects.problem import TensorType
from dmlgather.differential.positions import Positions, decoded, random_elements
from tests import seeds

DIGITS: dict[Any, int] = {
    **dict.fromkeys(("float32", "float64", "int32", "uint32", "int64", "uint64", "int16", "uint16", "complex64", object), 1),
    **dict.fromkeys(("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8"), 2),
    "bool": 12,
}
"""The runs that 3063 elements take."""


def kind(name: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name) if isinstance(name, str) and hasattr(ml_dtypes, name) else name)
    return found


@pytest.mark.parametrize("name", DIGITS, ids=str)
def test_each_element_is_found_again(name: Any) -> None:
    shapes = {"a": (7, 9), "none": (0, 3), "b": (50, 60)}
    positions = Positions({label: TensorType(shape, kind(name)) for label, shape in shapes.items()})
    assert positions.digits == DIGITS[name]
    runs = [positions.elements(digit) for digit in range(positions.digits)]
    for label, shape in shapes.items():
        assert all((run[label].shape, run[label].dtype) == (shape, kind(name)) for run in runs)
        read = [decoded(run[label]) for run in runs]
        for place in [*product(*map(range, shape))][::11]:
            assert positions.origin([int(digit[place]) for digit in read]) == f"{label}[{place[0]}, {place[1]}]"
    for filled in (0, positions.radix - 1):
        assert positions.origin([filled] * positions.digits) is None


def test_the_narrowest_type_decides_how_many_runs_there_are() -> None:
    positions = Positions({"wide": TensorType((600_000,), kind("int64")), "narrow": TensorType((2,), kind("int8"))})
    assert positions.digits == 3
    read = [decoded(positions.elements(digit)["wide"]).astype(object) for digit in range(3)]
    assert (read[0] + 256 * read[1] + 65536 * read[2]).tolist() == list(range(1, 600_001))
    assert Positions({"scalar": TensorType((), kind("float32"))}).origin([1]) == "scalar"


@pytest.mark.parametrize(
    ("elements", "numbers"),
    [
        (np.array([1.0, 1.5, -2.0, np.nan, np.inf, 2.0**30]), [1, -1, -1, -1, -1, 2**30]),
        (np.array([3 + 0j, 3 + 1j], np.complex64), [3, -1]),
        (np.array(["12", "x", "-1", ""], object), [12, -1, -1, -1]),
        (np.array([-1, 7], np.int16), [-1, 7]),
        (np.array([-1, 7], np.int8), [255, 7]),
    ],
)
def test_an_element_that_holds_no_number_has_none(elements: Any, numbers: list[int]) -> None:
    assert decoded(elements).tolist() == numbers


@pytest.mark.parametrize("name", DIGITS, ids=str)
def test_random_elements_are_any_bits(name: Any) -> None:
    tensor = TensorType((20, 30), kind(name))
    found = random_elements(seeds.numpy_rng(), tensor)
    assert (found.shape, found.dtype) == (tensor.shape, tensor.dtype)
    if found.dtype.kind == "f" and isinstance(name, str) and hasattr(np, name):
        assert np.signbit(found[found == 0]).any()
        assert np.isnan(found).any()
        assert not np.signbit(found[found == 0]).all()
    different = {element.tobytes() for element in found.reshape(-1)} if name is not object else {*found.reshape(-1)}
    assert len(different) == 2 if name == "bool" else len(different) > 200
