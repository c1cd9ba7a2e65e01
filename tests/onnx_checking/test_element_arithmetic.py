"""Arithmetic on elements with names of sizes, compared with the same arithmetic on numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.onnx_checking.following.element_arithmetic import Arithmetic, applied, folded, over
from dmlgather.onnx_checking.sizes.expressions import OPERATIONS, Sizes
from dmlgather.onnx_checking.sizes.values import Unknown

SHAPES = st.sampled_from([((), (3,)), ((3,), (3,)), ((2, 1), (3,)), ((1,), (2, 3)), ((0,), (1,)), ((), ())])
NUMBERS = {"N": 5, "M": 8, "N + 1": 6}


def size_array(sizes: Sequence[Any]) -> Any:
    """A one-dimensional array of numbers, or objects where one is a name."""
    if any(isinstance(size, str) for size in sizes):
        return np.array([*sizes, None], object)[:-1]  # NumPy makes no texts of strings beside None
    return np.array(sizes, np.int64)


def _arithmetic(sizes: Sizes) -> Arithmetic:
    return Arithmetic(sizes, lambda reason, *_: Unknown(reason))


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


def _computed(sizes: Sizes, operation: str, *arrays: Any) -> Any:
    return over(applied(operation), _arithmetic(sizes), arrays, np.dtype(object))


def _unknown(array: Any) -> bool:
    return any(isinstance(each, Unknown) for each in array.flat)


@given(
    _pairs(), st.sampled_from([("add", np.add), ("multiply", np.multiply), ("minimum", np.minimum), ("subtract", np.subtract)])
)
def test_elements_are_computed_as_numpy_computes_numbers(pair: tuple[Any, Any], operation: tuple[str, Any]) -> None:
    sizes = Sizes()
    name, judge = operation
    result = _computed(sizes, name, *pair)
    expected = judge(*(_numbers(sizes, each) for each in pair))
    assert result.shape == expected.shape
    assert np.array_equal(_numbers(sizes, result), expected)


RELATIONS = [("less", np.less), ("greater_equal", np.greater_equal), ("equal", np.equal), ("not_equal", np.not_equal)]


@given(_pairs(), st.sampled_from(RELATIONS))
def test_comparisons_hold_for_numbers(pair: tuple[Any, Any], relation: tuple[str, Any]) -> None:
    sizes = Sizes()
    name, judge = relation
    result, expected = _computed(sizes, name, *pair), judge(*(_numbers(sizes, each) for each in pair))
    for one, two in zip(result.flat, expected.flat, strict=True):
        assert isinstance(one, Unknown) or one == two


JUDGES: Mapping[str, Callable[..., Any]] = {
    "divide": np.true_divide,
    "floor_divide": np.floor_divide,
    "truncate_divide": lambda left, right: (left - np.fmod(left, right)) // right,
    "floor_modulo": np.remainder,
    "truncate_modulo": np.fmod,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "negate": np.negative,
    "absolute": np.absolute,
    "floor": np.floor,
    "ceil": np.ceil,
    "truncate": np.trunc,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "where": np.where,
}


def test_each_operation_on_sizes_has_a_judge() -> None:
    assert {*OPERATIONS} <= JUDGES.keys()


@pytest.mark.parametrize("operation", JUDGES)
def test_each_operation_on_known_elements_is_that_on_numbers(operation: str) -> None:
    count = 3 if operation == "where" else getattr(JUDGES[operation], "nin", 2)
    columns: list[list[Any]]
    if operation in ("and", "or", "not"):
        columns = [[one, two][:count] for one in (False, True) for two in (False, True)]
    elif operation == "where":
        columns = [[True, 3, 4], [False, 3, 4]]
    elif operation == "divide":
        columns = [[-6, 2], [9, -3], [0, 5]]
    else:
        columns = [[one, two][:count] for one in (-7, 0, 6) for two in (-2, 3)]
    for column in columns:
        assert _arithmetic(Sizes())(operation, *column) == JUDGES[operation](*column), column


def test_elements_that_are_not_known() -> None:
    assert _unknown(_computed(Sizes(), "floor_divide", size_array(["N", 4]), np.array([2, 0])))
    assert _unknown(_computed(Sizes(), "less", size_array(["N"]), np.array([3])))
    compute, unknown = _arithmetic(Sizes()), Unknown("a reason")
    assert compute("and", False, unknown) is compute("not", True) is False
    assert compute("or", unknown, True) is True
    assert compute("where", unknown, 3, 3) == 3
    assert compute("where", unknown, 3, 4) is unknown


def test_halves() -> None:
    half = _computed(Sizes(), "multiply", size_array(["N"]), np.array(0.5, np.float32))
    assert half.tolist() == ["N/2"]
    assert _unknown(_computed(Sizes(), "multiply", size_array(["N"]), np.array(0.7, np.float32))), "floating point rounds it"


def test_several_arrays_from_the_left() -> None:
    result = over(folded("add"), _arithmetic(Sizes()), [size_array(["N"]), np.array([1]), size_array(["M"])], np.dtype(object))
    assert result.tolist() == ["M + N + 1"]


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="shape"):
        _computed(Sizes(), "add", size_array(["N", 1]), np.array([1, 2, 3]))
