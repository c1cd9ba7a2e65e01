"""Arrays of sizes, compared with the same arithmetic on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.dialects.size_arrays import compared, elementwise, has_names, size_array, tidy
from dmlgather.dialects.sizes import Sizes

SHAPES = st.sampled_from([((), (3,)), ((3,), (3,)), ((2, 1), (3,)), ((1,), (2, 3)), ((0,), (1,)), ((), ())])
NUMBERS = {"N": 5, "M": 8, "N + 1": 6}


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    shapes = draw(SHAPES)
    elements = st.integers(-3, 9) | st.sampled_from(["N", "M"])
    made = [draw(st.lists(elements, min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))) for shape in shapes]
    first, second = (size_array(each).reshape(shape) for each, shape in zip(made, shapes, strict=True))
    return first, second


def _numbers(sizes: Sizes, array: Any) -> Any:
    values = [sizes.at(each if isinstance(each, str) else int(each), NUMBERS) for each in array.flat]
    return np.array(values, np.int64).reshape(array.shape)


@given(
    _pairs(), st.sampled_from([("add", np.add), ("multiply", np.multiply), ("minimum", np.minimum), ("subtract", np.subtract)])
)
def test_elements_are_computed_as_numpy_computes_numbers(pair: tuple[Any, Any], operation: tuple[str, Any]) -> None:
    sizes = Sizes()
    name, judge = operation
    result = elementwise(sizes, name, *pair)
    assert result is not None
    expected = judge(*(_numbers(sizes, each) for each in pair))
    assert result.shape == expected.shape
    assert np.array_equal(_numbers(sizes, result), expected)


@given(_pairs(), st.sampled_from([("<", np.less), (">=", np.greater_equal), ("=", np.equal)]))
def test_comparisons_hold_for_numbers(pair: tuple[Any, Any], relation: tuple[str, Any]) -> None:
    sizes = Sizes()
    name, judge = relation
    result = compared(sizes, name, *pair)
    if result is not None:
        assert np.array_equal(result, judge(*(_numbers(sizes, each) for each in pair)))


def test_an_element_that_is_not_known() -> None:
    assert elementwise(Sizes(), "floor_divide", size_array(["N", 4]), np.array([2, 0])) is None
    assert compared(Sizes(), "<", size_array(["N"]), np.array([3])) is None


def test_halves() -> None:
    half = elementwise(Sizes(), "multiply", size_array(["N"]), np.array(0.5, np.float32))
    assert half is not None
    assert half.tolist() == ["N/2"]
    assert elementwise(Sizes(), "multiply", size_array(["N"]), np.array(0.7, np.float32)) is None, "floating point rounds it"


def test_several_arrays_from_the_left() -> None:
    result = elementwise(Sizes(), "add", size_array(["N"]), np.array([1]), size_array(["M"]))
    assert result is not None
    assert result.tolist() == ["M + N + 1"]


def test_types() -> None:
    assert size_array([2, 3]).dtype == np.int64
    assert not has_names(size_array([]))
    assert has_names(size_array(["N", 2]))
    assert size_array(["N", 2]).tolist() == ["N", 2]
    assert tidy(np.array([2, 3], object), np.dtype(np.int32)).dtype == np.int32
    assert has_names(tidy(size_array(["N"]), np.dtype(np.int32)))


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="shape"):
        elementwise(Sizes(), "add", size_array(["N", 1]), np.array([1, 2, 3]))
