"""What `dg.lax.gather` refuses of arrays and types, and which sizes it lets pass as JAX does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests.lax.judge import jax, lax
from tests.lax.specification import INTEGERS, TYPES
from tests.lax.test_refusals import ALL_INTEGERS, CUBE, PAIRS, Numbers, changed


def test_messages_list_every_type() -> None:
    assert sorted(ALL_INTEGERS.split(", ")) == sorted(dtype.name for dtype in INTEGERS)
    with pytest.raises(TypeError) as found:
        changed(operand=CUBE.astype("O"))(dg.lax.gather)
    assert set(str(found.value).partition("takes ")[2].split(", ")) == {dtype.name for dtype in TYPES}


def test_windows_without_elements_may_be_of_any_size() -> None:
    def shape(indices: tuple[int, ...], numbers: Any, sizes: tuple[int, ...]) -> Any:
        start_indices = np.zeros(indices, np.int32)
        right = lax.gather(CUBE[0], start_indices, lax.GatherDimensionNumbers(*numbers), sizes, mode="clip").shape
        found = dg.lax.gather(CUBE[0], start_indices, Numbers(*numbers), sizes, mode="clip")
        assert found.shape == right
        return found.shape

    assert shape((0, 1), ((1,), (0,), (0,)), (1, 9)) == (0, 9)
    assert shape((2, 0), ((1, 2), (), ()), (9, 0)) == (2, 9, 0)
    with pytest.raises(TypeError, match=r"slice_sizes\[0\] is 9; expected 0 … 4"):
        dg.lax.gather(CUBE[0], np.zeros((2, 0), np.int32), Numbers((1, 2), (), ()), (9, 1))
    with pytest.raises(TypeError, match=r"slice_sizes\[1\] is -1; expected 0 … 5"):
        dg.lax.gather(CUBE[0], np.zeros((0, 1), np.int32), Numbers((1,), (0,), (0,)), (1, -1))


def test_a_scalar_has_no_dimensions_to_name() -> None:
    with pytest.raises(TypeError, match=r"collapsed_slice_dims is \(0,\); .* which has rank 0 \(none\), and 0 is not one"):
        dg.lax.gather(CUBE[0, 0, 0], np.zeros((2, 0), np.int32), Numbers((), (0,), ()), ())


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_bad_index_under_raise_is_told_by_jaxs_names(device: str) -> None:
    starts = PAIRS.copy()
    starts[1, 4] = 3, 3
    windows = {"start_indices": starts, "slice_sizes": (1, 1, 3), "out_of_bounds": "raise", "device": device}
    with pytest.raises(
        IndexError,
        match=r"^start_indices\[1, 4, 1\] = 3 is out of range for a window of 3 along axis 2 of size 5: valid indices are 0 … 2$",
    ):
        changed(**windows)(dg.lax.gather)
    starts[1, 4] = -1, 2
    with pytest.raises(
        IndexError, match=r"^start_indices\[1, 4, 0\] = -1 is out of range for axis 1 of size 4: valid indices are 0 … 3$"
    ):
        changed(**windows)(dg.lax.gather)
    starts[1, 4] = 3, 2
    assert changed(**windows)(dg.lax.gather).shape == (3, 6, 3)


def test_arrays_of_jax_that_have_no_elements_here() -> None:
    def traced(operand: Any) -> Any:
        with pytest.raises(TypeError, match=r"^operand: expected an array, got a traced array \(float32\[3,4,5\]\)"):
            changed(operand=operand)(dg.lax.gather)
        assert changed(operand=operand)(dg.lax.gather.plan).shape == (3, 6, 5)
        return operand

    jax.jit(traced)(CUBE)
    with pytest.raises(
        TypeError, match=r"^operand: expected an array of numbers, got an array of type key<fry>: pass jax.random.key_data"
    ):
        changed(operand=jax.random.key(0))(dg.lax.gather)
    gone = jax.numpy.zeros((3, 4, 5))
    gone.delete()
    with pytest.raises(RuntimeError, match="expected an array, got a deleted or donated array"):
        changed(operand=gone)(dg.lax.gather)
