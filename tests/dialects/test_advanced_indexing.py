"""Index expressions against NumPy: random ones on arrays of any strides, the places of dimensions, and what errors say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.calls.eager import execute
from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing, Mask, indexing, stacked
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.windows import Window
from tests import seeds
from tests.dialects.expressions import numpys, some_data, some_expression
from tests.dialects.outcomes import tried
from tests.peers.numpy import NUMPY, Indexed

I64 = np.dtype(np.int64)
CUBE = TensorType((2, 3, 4, 5), np.dtype(np.float32))
IDS = TensorType((7,), I64)


def taken(data: NDArray[Any], expression: tuple[Any, ...]) -> NDArray[Any]:
    """What the problem gives, run on the CPU."""
    entries, arrays = list[Any](), list[NDArray[Any]]()
    for entry in expression:
        if isinstance(entry, np.ndarray) and entry.dtype != bool:
            entries.append(TensorType(entry.shape, entry.dtype))
            arrays.append(entry)
        elif isinstance(entry, np.ndarray | bool):
            entries.append(Mask.of(np.asarray(entry)))
            arrays += np.asarray(entry).nonzero() if np.ndim(entry) else []
        else:
            entries.append(entry)
    problem = indexing(TensorType(data.shape, data.dtype), entries)
    found: NDArray[Any] = execute(problem, (data, stacked(entries, arrays)) if isinstance(problem, AdvancedIndexing) else (data,))
    return found


def test_expressions_mean_what_they_mean_in_numpy() -> None:
    rng = seeds.rng()
    good = bad = 0
    for _ in range(300):
        data = some_data(rng)
        expression = some_expression(rng, data.shape)
        expected, found = numpys(data, expression), tried(taken, data, expression)
        case = f"{data.shape} {expression}: NumPy {expected!r}, here {found!r}"
        if isinstance(expected, Exception):
            bad += 1
            assert type(found) is type(expected), case
        elif NUMPY.known_fault(Indexed(data, expression, found)) is None:
            good += 1
            assert not isinstance(found, Exception), case
            assert found.shape == expected.shape, case
            assert found.tobytes() == expected.tobytes(), case
    assert good > 100
    assert bad > 5


@pytest.mark.parametrize(
    ("entries", "shape", "in_pytorch"),
    [
        ((slice(None), IDS), (2, 7, 4, 5), None),
        ((slice(None), 0, IDS), (2, 7, 5), None),
        ((0, slice(None), IDS), (7, 3, 5), (3, 7, 5)),
        ((IDS, 0, IDS), (7, 5), None),
        ((slice(None), IDS, None, IDS), (7, 2, 1, 5), None),
        ((slice(None), 0, ..., IDS, slice(None)), (7, 2, 5), (2, 7, 5)),
        ((slice(None), IDS, 0, None), (2, 7, 1, 5), None),
        ((Mask((2, 3), 4), slice(None), IDS), None, None),
    ],
)
def test_dimensions_of_index_arrays_stand_where_numpy_puts_them(
    entries: tuple[Any, ...], shape: tuple[int, ...] | None, in_pytorch: tuple[int, ...] | None
) -> None:
    if shape is None:
        with pytest.raises(IndexError, match=r"index arrays of shapes \[4\] \[7\] cannot be broadcast together"):
            indexing(CUBE, entries)
        return
    assert indexing(CUBE, entries).output.shape == shape
    assert indexing(CUBE, entries, integers_advance=False).output.shape == (in_pytorch or shape)


def test_one_index_array_is_the_indices_itself() -> None:
    ids = np.array([2, 0], np.int16)
    entries = (slice(None), slice(None), TensorType((2,), ids.dtype))
    problem = indexing(CUBE, entries)
    assert isinstance(problem, AdvancedIndexing)
    assert stacked(entries, [ids]) is ids
    assert (problem.lookup_axes, problem.indices) == ((2,), TensorType((2,), np.dtype(np.int16)))


def test_several_index_arrays_are_stacked_in_the_last_dimension() -> None:
    rows, columns = np.array([[0], [1]], np.int8), np.array([2, 3, 4], np.uint8)
    entries = (TensorType(rows.shape, rows.dtype), 1, slice(None), TensorType(columns.shape, columns.dtype))
    problem = indexing(CUBE, entries)
    assert isinstance(problem, AdvancedIndexing)
    assert problem.indices == TensorType((2, 3, 2), np.dtype(np.int16))
    found = stacked(entries, [rows, columns])
    assert TensorType(found.shape, found.dtype) == problem.indices
    assert found[1].tolist() == [[1, 2], [1, 3], [1, 4]]
    assert problem.plan().lookups[1].index_offset == 1


def test_without_index_arrays_nothing_is_looked_up() -> None:
    problem = indexing(CUBE, (1, ..., None, slice(None, None, -2)))
    assert problem == BasicIndexing(
        CUBE, (Window(1, 1, 1), Window.whole(3), Window.whole(4), Window(4, 3, -2)), kept=(1, 2, None, 3)
    )
    assert problem.output.shape == (3, 4, 1, 3)


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ((slice(None), 3), IndexError, r"entry 1 is 3, which is out of range for dimension 1 of size 3: valid .* are -3 … 2"),
        ((0,) * 5, IndexError, r"too many indices: the entries are for 5 dimensions, but data has 4, float32 \[2, 3, 4, 5\]"),
        ((..., 0, ...), IndexError, r"entries 0 and 2 are ellipses"),
        ((slice(None, None, 0),), ValueError, r"entry 0 is slice\(None, None, 0\): the step must not be 0"),
        ((slice(1.0),), TypeError, r"entry 0 is slice\(None, 1.0, None\): bounds and step must be integers or left out"),
        ((0, Mask((3, 5), 2)), IndexError, r"mask in entry 1 has size 5 in dimension 1, but dimension 2 of data has size 4"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused_with_the_facts(
    entries: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        indexing(CUBE, entries)


def test_the_constructors_check_what_they_are_given() -> None:
    whole = tuple(map(Window.whole, CUBE.shape))
    with pytest.raises(ValueError, match=r"dimension 3 of data is neither kept nor looked up, so Window.* must have one element"):
        BasicIndexing(CUBE, whole, kept=(0, 1, 2))
    with pytest.raises(ValueError, match=r"kept is \[0, 2, 1, 3\] and axes \[\]: no dimension of data may occur twice"):
        BasicIndexing(CUBE, whole, kept=(0, 2, 1, 3))
    with pytest.raises(ValueError, match=r"dimension 3 of data is looked up, so its window must be all of it, not Window"):
        AdvancedIndexing(CUBE, IDS, (*whole[:3], Window(0, 1, 1)), axes=(3,), kept=(0, 1, 2), place=3)
    with pytest.raises(ValueError, match=r"its last size must be the number of index arrays, 2"):
        AdvancedIndexing(CUBE, IDS, whole, axes=(2, 3), kept=(0, 1), place=2)
    with pytest.raises(ValueError, match=r"place is 4, expected 0 … 3"):
        AdvancedIndexing(CUBE, IDS, whole, axes=(3,), kept=(0, 1, 2), place=4)
    with pytest.raises(TypeError, match=r"indices has type float32, but must have an integer type"):
        AdvancedIndexing(CUBE, TensorType((7,), np.dtype(np.float32)), whole, axes=(3,), kept=(0, 1, 2), place=3)


def test_a_mask_without_elements_must_fit_too() -> None:
    """Where NumPy takes it for a dimension of any size: `tests.peers.numpy`."""
    mask = np.zeros(0, bool)
    with pytest.raises(IndexError, match="mask in entry 0 has size 0"):
        indexing(TensorType((3,), I64), (Mask.of(mask),))
