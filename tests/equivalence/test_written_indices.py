"""Indices that are written between the brackets are constants: NumPy indexes distinct elements, and so knows what is equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlgather as dg

MASK = np.array([[True, False, True, False], [False, False, False, False], [True, True, False, True]])

SHAPE = (3, 4)

Written = Callable[[Any], Any]
"""What follows an array, or `dg.index`."""


def along(x: Any, indices: Any, axis: int) -> Any:
    return np.take_along_axis(x, np.asarray(indices), axis) if isinstance(x, np.ndarray) else x.take_along_axis(indices, axis)


PAIRS: dict[str, tuple[Written, Written]] = {
    "lists": (lambda x: x[[0, 1]], lambda x: x[[0, 2]]),
    "a list and a slice": (lambda x: x[[0, 1]], lambda x: x[:2]),
    "a list and a slice backwards": (lambda x: x[[2, 1, 0]], lambda x: x[::-1]),
    "negative indices": (lambda x: x[[-1, -3]], lambda x: x[[2, 0]]),
    "an array of two dimensions": (lambda x: x[np.array([[0, 2], [1, 1]])], lambda x: x[np.array([[0, 2], [1, 2]])]),
    "an array and what follows": (lambda x: x[np.array([[0, 2], [1, 1]], "int8")][:, 1], lambda x: x[[2, 1]]),
    "a mask": (lambda x: x[[True, False, True]], lambda x: x[::2]),
    "another mask": (lambda x: x[[True, False, True]], lambda x: x[[True, True, False]]),
    "a mask of two dimensions": (lambda x: x[MASK], lambda x: x[[0, 0, 2, 2, 2], [0, 2, 0, 1, 3]]),
    "another mask of two dimensions": (lambda x: x[MASK], lambda x: x[~MASK][:5]),
    "a mask that selects nothing": (lambda x: x[MASK & False], lambda x: x[[], []]),
    "True": (lambda x: x[True], lambda x: x[None]),
    "False": (lambda x: x[False], lambda x: x[None][:0]),
    "two arrays": (lambda x: x[[0, 2, 1], [3, 3, 0]], lambda x: x[[0, 2, 1]][[0, 1, 2], [3, 3, 0]]),
    "two arrays that are broadcast": (lambda x: x[[[0], [2]], [3, 1]], lambda x: x[::2, [3, 1]]),
    "two arrays in another order": (lambda x: x[[0, 2, 1], [3, 3, 0]], lambda x: x[[0, 1, 2], [3, 3, 0]]),
    "an array and a mask": (lambda x: x[[0, 2], [True, False, False, True]], lambda x: x[[0, 2], [0, 3]]),
    "along an axis": (lambda x: along(x, [[1], [0], [3]], 1), lambda x: along(x, [[1], [0], [2]], 1)),
    "along an axis, and a slice": (lambda x: along(x, [[1], [1], [1]], 1), lambda x: x[:, 1:2]),
    "along an axis, and two arrays": (
        lambda x: along(x, np.array([[1, 0], [0, 0], [3, 2]], np.int8), 1),
        lambda x: x[[[0], [1], [2]], [[1, 0], [0, 0], [3, 2]]],
    ),
}


@pytest.mark.parametrize("row", PAIRS)
def test_verdicts_about_indices_that_are_written(row: str) -> None:
    one, two = PAIRS[row]
    data = np.arange(12, dtype=np.float32).reshape(SHAPE)
    a, b = one(data), two(data)
    equal = a.shape == b.shape and bool((a == b).all())
    found = dg.equivalent(one(dg.index), two(dg.index), data)
    assert found.verdict == ("proven" if equal else "different"), found
    assert one(dg.index).graph(data).inputs == ("data",)


def test_written_indices_out_of_range_raise_for_all_inputs() -> None:
    assert dg.equivalent(dg.index[[0, 3]], dg.index[[-4]][[0, 0]], (SHAPE, "float32"))
    assert not dg.equivalent(dg.index[[0, 3]], dg.index[[0, 2]], (SHAPE, "float32"))
    with pytest.raises(IndexError):
        np.zeros(SHAPE)[[0, 3]]


I64 = "int64"


@pytest.mark.parametrize(
    ("expression", "function", "equal"),
    [
        (dg.index[((2,), I64)], lambda x, i: x[i], True),
        (dg.index[((2,), I64), [0, 1]], lambda x, i: x[i, np.array([0, 1])], True),
        (dg.index[((2,), I64), [0, 1]], lambda x, i: x[i, np.array([0, 2])], False),
        (dg.index[[1, 2], :, ((2,), "int32")], lambda x, i: x[np.array([1, 2]), :, i], True),
        (dg.index[[1, 2], :, ((2,), "int32")], lambda x, i: x[np.array([2, 1]), :, i], False),
        (dg.index[((2, 1), "int16"), MASK.any(0)], lambda x, i: x[i, np.array([0, 1, 2, 3])], True),
        (dg.index[[2, 0]][:, ((2,), I64)], lambda x, i: x[np.array([2, 0])[:, None], i], True),
    ],
)
def test_placeholders_are_inputs_beside_what_is_written(expression: Any, function: Any, equal: bool) -> None:
    """JAX's own indexing is the other program, where indices are in range."""
    graph = expression.graph(((3, 4, 5), "float32"))
    (name,) = graph.inputs[1:]
    types = [graph.types[each] for each in ("data", name)]
    example = [(each.shape, each.dtype) for each in types]
    found = dg.equivalent(expression, function, *example, given="valid")
    assert found.verdict == ("proven" if equal else "different"), found


def test_each_placeholder_is_an_input() -> None:
    expression = dg.index[((2, 1), "int32"), ((3,), "int32")]
    example = [(SHAPE, "float32"), ((2, 1), "int32"), ((3,), "int32")]
    assert dg.equivalent(expression, lambda x, i, j: x[i, j], *example, given="valid")
    assert not dg.equivalent(expression, lambda x, i, j: x[i, j[::-1]], *example, given="valid")
    assert expression.graph(example[0]).inputs == ("data", "indices0[0]", "indices0[1]")


def test_a_graph_holds_what_was_written_when_it_was_made() -> None:
    ids = np.array([0, 2])
    graph = dg.index[ids].graph((SHAPE, "float32"))
    ids[:] = 1
    assert dg.equivalent(graph, dg.index[::2], (SHAPE, "float32"))


@pytest.mark.parametrize("to", ["onnx", "openvino", "jax", "directml"])
def test_written_indices_are_constants_of_a_translation(to: str) -> None:
    made = dg.translate(dg.index[[2, 0, 2]], to, (SHAPE, "float32"))
    assert made.proof
    assert made.source.inputs == ("data",)
