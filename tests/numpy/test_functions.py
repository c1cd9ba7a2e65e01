"""dg.index: NumPy's bits and NumPy's errors, plans without arrays, policies, other libraries' arrays, and what errors say."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from dmlgather.dialects.problem import TensorType
from tests import seeds
from tests.chain_count import each_seed
from tests.dialects import drafting
from tests.dialects.brackets import KINDS
from tests.dialects.expressions import numpys
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.numpy.judged import check_call, run, told
from tests.numpy.judged_brackets import check_brackets
from tests.numpy.spelling import REFUSED

CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


@settings(max_examples=300, deadline=None)
@given(drafting.seeds)
def test_calls_give_what_numpy_gives(seed: int) -> None:
    check_call(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_brackets_of_each_kind_give_what_numpy_gives(kind: str) -> None:
    assert sum(each_seed(partial(check_brackets, kind=kind), 25)) > 5


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: type(entry).__name__)
def test_an_entry_that_numpy_refuses_raises_the_same_error(entry: Any) -> None:
    for key in (entry, (entry, 0), ([0], entry), (..., entry)):
        expected, found = numpys(CUBE, key), run(key, CUBE)
        assert isinstance(expected, Exception), key
        assert told(found) == told(expected), (key, expected, found)


def test_a_scalar_takes_brackets_without_dimensions() -> None:
    one = np.array(7.5)
    assert dg.index[()](one).shape == dg.index[...](one).shape == ()
    assert dg.index[None, True](one).tolist() == [[7.5]]
    assert (dg.index[()](CUBE) == CUBE).all()
    assert dg.index[1, 2, 3](CUBE).shape == ()


def test_a_result_has_at_most_64_dimensions() -> None:
    assert dg.index[(None,) * 61](CUBE).ndim == 64
    with pytest.raises(IndexError, match="the result would have 65 dimensions, expected at most 64"):
        dg.index[(None,) * 62](CUBE)


def test_a_result_is_a_copy() -> None:
    data = CUBE.copy()
    found = dg.index[1:](data)
    data[...] = 0
    assert found[0, 0, 0] == 12


@pytest.mark.parametrize(
    "placeholder", [((3,), "int64"), ((3,), np.int64), ((3,), np.dtype("int64")), TensorType((3,), np.dtype(np.int64))]
)
def test_placeholders_stand_for_index_arrays(placeholder: Any) -> None:
    ids = np.array([2, 0, 1])
    assert dg.index[:, placeholder].plan(((2, 3, 4), "int32")) == dg.index[:, ids].plan(CUBE)
    assert dg.index[placeholder].problem(CUBE).output.shape == (3, 3, 4)
    with pytest.raises(TypeError, match=r"dg.index\[:, int64 \[3\]\] has a placeholder for an index array: write the array"):
        dg.index[:, placeholder](CUBE)
    with pytest.raises(TypeError, match="has a placeholder"):
        assert dg.index[placeholder].indices


REFUSALS: Refusals = {
    TypeError: {
        "entry 1 is...a mask's values decide the result's shape: write the mask itself": lambda: dg.index[:, ((3,), bool)],
        "entry 1 is (('n',), 'int64'): size is 'n' of type str, expected an integer": lambda: dg.index[:, (("n",), "int64")],
        "entry 1 is ((3,), 'integer'): data type 'integer' not understood": lambda: dg.index[:, ((3,), "integer")],
    },
    IndexError: {
        "entry 1 is...an index array must have an integer type": lambda: dg.index[:, ((3,), "float32")],
        "entry 1 is 1.0, but must be an integer, a slice, ..., None, or an array of integers or bools": lambda: dg.index[:, 1.0],
        "entry 1 is of type float64 and shape [1], but must be": lambda: dg.index[:, [1.0]],
        "entry 0 is 18446744073709551616, which is no 64-bit integer: expected -9223372036854775808 … ": lambda: dg.index[2**64],
        "indices[1] = 3 is out of range for axis 1 of size 3: valid indices are -3 … 2": lambda: dg.index[:, [0, 3]](CUBE),
        "indices[1, 1] = 4 is out of range for axis 2 of size 4: valid indices are -4 … 3": (
            lambda: dg.index[[0, 1], :, [0, 4]](CUBE)
        ),
    },
    ValueError: {
        "entry 1 is...an index array has at least one dimension": lambda: dg.index[:, ((), "int64")],
        "entry 1 is...sizes of 0 or more": lambda: dg.index[:, ((-1,), "int64")],
        "entry 1 is [[0], [0, 1]], which NumPy cannot convert to an array": lambda: dg.index[:, [[0], [0, 1]]],
    },
    OverflowError: {
        "entry 0 is 9223372036854775808, which is no 64-bit integer: expected at most 9223372036854775807": (
            lambda: dg.index[2**63]
        ),
    },
}


@each_of(REFUSALS)
def test_an_error_names_the_entry_and_both_values(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    check_refused(call, error, message)


def test_a_policy_decides_where_an_index_is_out_of_range() -> None:
    ids = np.array([0, 9, -9])
    assert dg.index[:, ids](CUBE, out_of_bounds="clamp")[0, :, 0].tolist() == [0, 8, 0]
    assert dg.index[:, ids](CUBE, out_of_bounds=dg.Fill(-1))[0, :, 0].tolist() == [0, -1, -1]
    assert dg.index[:, ids].plan(CUBE, out_of_bounds=dg.Fill(-1)).fill == b"\xff" * 4
    assert dg.index[:, ids].plan(CUBE).out_of_bounds is dg.OutOfBounds.RAISE
    with pytest.raises(ValueError, match="out_of_bounds is 'wrap'"):
        dg.index[:, ids].plan(CUBE, out_of_bounds="wrap")


def test_a_result_is_written_to_an_array_that_is_given() -> None:
    out = np.full((2, 2, 4), -1, np.int32)
    for expression in (dg.index[:, [2, 0]], dg.index[:, [2, 0]][..., ::-1]):
        assert expression(CUBE, out=out) is out
        assert (out == expression(CUBE)).all()
    with pytest.raises(ValueError, match=r"^out is int32 \[2, 3, 4\], expected int32 \[2, 2, 4\]$"):
        dg.index[:, [2, 0]](CUBE, out=np.empty((2, 3, 4), np.int32))
    with pytest.raises(TypeError, match=r"^out is int64 \[2, 2, 4\], expected int32 \[2, 2, 4\]$"):
        dg.index[:, [2, 0]](CUBE, out=np.empty((2, 2, 4), np.int64))
    with pytest.raises(TypeError, match=r"^out: expected an array .*, got list"):
        dg.index[:, [2, 0]](CUBE, out=[0])
    data, ids = CUBE.copy(), np.array([[1, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"^out overlaps input 'x': pass another array$"):
        dg.index[:, [2, 0]](data, out=data[:, :2])
    with pytest.raises(ValueError, match=r"^out overlaps input 'indices': pass another array$"):
        dg.index[ids](ids[0].copy(), out=ids)
    with pytest.raises(ValueError, match=r"^out for 'result0' overlaps input 'indices0': pass another array$"):
        dg.index[ids].fused(ids[0]).run({"data": ids[0].copy(), "indices0": ids}, out={"result0": ids})
    with pytest.raises(ValueError, match=r"^out overlaps input 'indices of step 1': pass another array$"):
        dg.index[ids.copy()].take_along_axis(ids, 0)(np.array([1, 2]), out=ids)
    with pytest.raises(TypeError, match="stream"):
        dg.index[0](CUBE, stream=7)


def test_strings_and_wide_elements_are_moved() -> None:
    words = np.array([["a", "bc"], ["d", ""]])
    assert dg.index[::-1, [1, 0]](words).tolist() == [["", "d"], ["bc", "a"]]
    wide = np.arange(4).astype(np.complex128).reshape(2, 2)
    assert dg.index[[[1]], 0](wide).tolist() == [[2]]


def test_arrays_of_other_libraries_are_taken() -> None:
    jnp = pytest.importorskip("jax.numpy")
    data, ids, mask = jnp.asarray(CUBE), jnp.array([2, 0]), jnp.array([False, True])
    found = dg.index[mask, ids](data)
    assert type(found) is type(data)
    assert (np.asarray(found) == CUBE[np.array([False, True]), np.array([2, 0])]).all()
    with pytest.raises(TypeError, match="entry 0: expected a plain array, got a masked array"):
        dg.index[np.ma.array([0, 1])]
    own: Any = np.array([[0, 1]]).view(type("Own", (np.ndarray,), {}))
    assert (dg.index[own](CUBE) == CUBE[np.array([[0, 1]])]).all()


def test_an_expression_is_shown_as_it_is_written() -> None:
    expression = dg.index[1:, ..., None, ::-1, :3, ((2, 5), "int8"), np.array([True, False]), True, -1]
    assert repr(expression) == "dg.index[1:, ..., None, ::-1, :3, int8 [2, 5], bool [2], bool [], -1]"


def test_expressions_anew_are_fused_once_and_keep_no_array() -> None:
    """A loop writes `dg.index[ids](x)` with other ids each time; NumPy's results are the judge."""
    random = seeds.numpy_rng()
    given_up = weakref.ref(first := random.integers(-3, 3, 5))
    assert (dg.index[:, first](CUBE) == CUBE[:, first]).all()
    launches = dg.index[:, first].fused(CUBE).launches
    del first
    assert given_up() is None
    for _ in range(20):
        ids = random.integers(-3, 3, 5)
        assert (dg.index[:, ids](CUBE) == CUBE[:, ids]).all()
        assert dg.index[:, ids].fused(CUBE).launches is launches
    for key in ([0, 1], [[0]], [True, False], 1, True, slice(0, 1), slice(0, np.int64(1)), (slice(1), 1)):
        assert (dg.index[key](CUBE) == CUBE[np.array(key) if isinstance(key, list) else key]).all(), key


def test_equal_bounds_of_another_type_are_refused_as_ever() -> None:
    assert dg.index[1:].reshape(12)(CUBE).shape == (12,)
    for wrong in (dg.index[1.0:], dg.index[1:].reshape(12.0), dg.index[1:].transpose(0, 1, 2.0), dg.index[np.array([1, 2]) :]):
        with pytest.raises(TypeError):
            wrong(CUBE)
