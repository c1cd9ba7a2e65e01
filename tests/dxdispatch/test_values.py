"""Initial values: what their types hold, and the bytes they become. The judges are NumPy's conversions and explicit loops."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.chunks import CHUNK
from dmlgather.directml import DataType
from dmlgather.directml.dxdispatch.values import Constant, ValueFitError, Values, listed, progression, scalar
from dmlgather.directml.elements import dtype_of

TYPES = {
    "FLOAT64": "<f8", "FLOAT32": "<f4", "FLOAT16": "<f2",
    "INT64": "<i8", "INT32": "<i4", "INT16": "<i2", "INT8": "<i1",
    "UINT64": "<u8", "UINT32": "<u4", "UINT16": "<u2", "UINT8": "<u1",
}  # fmt: skip
INTEGERS = {name: np.dtype(code).itemsize for name, code in TYPES.items() if "INT" in name}


def written(values: Values) -> bytes:
    out = np.full(values.count, 0xA5, np.uint8).astype(dtype_of(values.data_type))
    values.write(out)
    return out.tobytes()


def _range(name: str) -> tuple[int, int]:
    bits = 8 * INTEGERS[name]
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_hold_their_range_and_nothing_else(name: str) -> None:
    data_type, (low, high) = DataType[name], _range(name)
    assert written(listed(data_type, [low, 0, high])) == np.array([low, 0, high], TYPES[name]).tobytes()
    for outside in (low - 1, high + 1, 2**70, -(2**70)):
        with pytest.raises(ValueFitError, match=f"{outside} does not fit {name}, which holds {low} … {high}") as caught:
            listed(data_type, [0, low, outside])
        assert caught.value.index == 2
    wrongs: list[Any] = [1.5, 1.0, "nan", True, None, "1", [1], {}]
    for wrong in wrongs:
        with pytest.raises(ValueFitError):
            scalar(data_type, wrong)


@pytest.mark.parametrize(("name", "largest"), [("FLOAT16", 65504.0), ("FLOAT32", 3.4028234663852886e38)])
def test_floats_hold_their_range(name: str, largest: float) -> None:
    data_type = DataType[name]
    assert written(listed(data_type, [largest, -largest, 1])) == np.array([largest, -largest, 1], TYPES[name]).tobytes()
    for outside in (largest * 1.01, -largest * 1.01, 10**39, 10**310):
        with pytest.raises(ValueFitError, match=f"does not fit {name}") as caught:
            listed(data_type, [1.5, outside])
        assert caught.value.index == 1


@pytest.mark.parametrize("name", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_names_of_numbers(name: str) -> None:
    got = np.frombuffer(written(listed(DataType[name], ["nan", "inf", "-inf", "NaN", 2])), dtype_of(DataType[name]))
    assert np.isnan(got[[0, 3]]).all()
    assert got[[1, 2, 4]].tolist() == [float("inf"), float("-inf"), 2.0]
    for wrong in ("infinity", "x", "1", True, None):
        with pytest.raises(ValueFitError, match="expected a number"):
            scalar(DataType[name], wrong)


@given(st.sampled_from(["FLOAT16", "FLOAT32", "FLOAT64"]), st.data())
def test_floats_are_rounded_as_numpy_rounds(name: str, data: Any) -> None:
    """Values up to twice the largest, of which NumPy makes infinity of those that do not fit."""
    largest = min(float(np.finfo(TYPES[name]).max), 1e308)
    numbers = st.floats(-2 * largest, 2 * largest) | st.floats(-1e-4, 1e-4) | st.integers(-(2**60), 2**60)
    values = data.draw(st.lists(numbers | st.sampled_from([65519.0, 65519.99, 65520.0, 2049, 2.0**-25, 3.4028235677973366e38])))
    with np.errstate(over="ignore"):
        expected = np.array(values, np.float64).astype(TYPES[name])
    if np.isfinite(expected).all():
        assert written(listed(DataType[name], values)) == expected.tobytes()
    else:
        with pytest.raises(ValueFitError) as caught:
            listed(DataType[name], values)
        assert caught.value.index == np.argmin(np.isfinite(expected))


@pytest.mark.parametrize("name", TYPES)
def test_constant(name: str) -> None:
    values = Constant(DataType[name], 7, scalar(DataType[name], 3))
    assert written(values) == np.full(7, 3, TYPES[name]).tobytes()
    assert values.bytes == 7 * np.dtype(TYPES[name]).itemsize


@given(st.sampled_from(sorted(INTEGERS)), st.data())
def test_integer_progression(name: str, data: Any) -> None:
    low, high = _range(name)
    start, delta = data.draw(st.integers(low, high)), data.draw(st.integers(max(low, -1000), min(high, 1000)))
    count = data.draw(st.integers(1, 300))
    expected = [start + number * delta for number in range(count)]
    fits = all(low <= value <= high for value in expected)
    dtype = dtype_of(DataType[name])
    arguments = DataType[name], count, dtype.type(start), dtype.type(delta)
    if fits:
        assert written(progression(*arguments)) == np.array(expected, TYPES[name]).tobytes()
    else:
        first = next(number for number, value in enumerate(expected) if not low <= value <= high)
        with pytest.raises(ValueFitError, match=f"^value {first} of the sequence would be {expected[first]}, "):
            progression(*arguments)


@pytest.mark.parametrize("name", ["FLOAT16", "FLOAT32", "FLOAT64"])
@pytest.mark.parametrize(("start", "delta"), [(1, 2.5), (0.1, 0.1), (-3, 1e-3), (2000, 1), ("nan", 1), ("inf", -1)])
def test_float_progression_adds_in_its_type(name: str, start: Any, delta: Any) -> None:
    data_type = DataType[name]
    dtype = dtype_of(data_type)
    first, step = dtype.type(scalar(data_type, start)), dtype.type(scalar(data_type, delta))
    expected = []
    value = first
    for _ in range(3000):
        expected.append(value)
        value = dtype.type(value + step)
    assert written(progression(data_type, 3000, first, step)) == np.array(expected, dtype).tobytes()


def test_long_progression_crosses_chunks() -> None:
    count = 2**21 + 5
    values = progression(DataType.UINT32, count, np.uint32(7), np.uint32(3))
    assert written(values) == (7 + 3 * np.arange(count, dtype=np.uint64)).astype("<u4").tobytes()


class Parts(np.ndarray[Any, Any]):
    """An array that notes how many elements are written at a time."""

    written: ClassVar[list[int]] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        self.written.append(self[key].size)
        super().__setitem__(key, value)


def test_many_values_are_written_in_interruptible_parts() -> None:
    out = np.zeros(2 * CHUNK + 3, np.uint8).view(Parts)
    Parts.written.clear()
    Constant(DataType.UINT8, out.size, np.uint8(7)).write(out)
    assert (out == 7).all()
    assert (sum(Parts.written), max(Parts.written) <= CHUNK) == (out.size, True)


def test_float_progression_may_not_reach_infinity() -> None:
    with pytest.raises(ValueFitError, match="value 66 of the sequence would be infinity, which does not fit FLOAT16"):
        progression(DataType.FLOAT16, 100, np.float16(0), np.float16(1000))
    stalled = progression(DataType.FLOAT16, 10**6, np.float16(0), np.float16(1))  # 2048 + 1 rounds to 2048
    assert np.frombuffer(written(stalled), "<f2").max() == 2048


def test_types_cover_directml() -> None:
    assert set(TYPES) == {item.name for item in DataType if item.whole_bytes}
