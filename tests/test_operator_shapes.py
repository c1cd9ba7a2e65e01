"""Arrays without the leading 1s of the described sizes, and an operator's description of itself. Judge: NumPy's indexing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlgather as dg
from tests.gpus import placed

X = np.arange(20, dtype=np.float32).reshape(5, 4)
IDS = np.array([4, 0, -1])


def four_dimensions(**strides: Any) -> dg.GatherOperatorDesc:
    """Return a GATHER of table rows with the dimensions of feature level 1_0, and these strides."""
    sizes = {
        "input_tensor": ("FLOAT32", (1, 1, 5, 4)),
        "indices_tensor": ("INT64", (1, 1, 1, 3)),
        "output_tensor": ("FLOAT32", (1, 1, 3, 4)),
    }
    tensors = {
        name: dg.BufferTensorDesc(data_type=kind, sizes=of, strides=strides.get(name)) for name, (kind, of) in sizes.items()
    }
    return dg.GatherOperatorDesc(**tensors, axis=2, index_dimensions=1)


@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_leading_ones_may_be_left_out(rng: random.Random) -> None:
    op = dg.compile(four_dimensions())
    x = rng.choice((X, X[::-1].copy()[::-1], np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]))
    ids = rng.choice((IDS, np.repeat(IDS, 3)[::3], IDS[::-1].copy()[::-1], IDS.reshape(1, 3)))
    out = np.full((3, 4), np.nan, np.float32).reshape((1,) * rng.randrange(3) + (3, 4))
    x, ids = x.reshape((1,) * rng.randrange(3) + x.shape), ids.reshape((1,) * rng.randrange(2) + ids.shape)
    found = op(x, ids)
    assert found.shape == (1, 1, 3, 4)
    assert found.tobytes() == X[IDS].tobytes()
    assert op(x, ids, out=out) is out
    assert out.tobytes() == X[IDS].tobytes()
    out.fill(np.nan)
    op.bind(x, ids, out=out)()
    assert out.tobytes() == X[IDS].tobytes()


@pytest.mark.gpu
def test_leading_ones_may_be_left_out_on_a_gpu() -> None:
    found = dg.compile(four_dimensions())(placed(X), placed(np.repeat(IDS, 2)[::2])).get()
    assert found.shape == (1, 1, 3, 4)
    assert found.tobytes() == X[IDS].tobytes()


def test_sizes_other_than_leading_ones_may_not_be_left_out() -> None:
    op = dg.compile(four_dimensions())
    for x in (X[:4], X.reshape(1, 1, 1, 5, 4), X.reshape(5, 1, 4), X.T):
        with pytest.raises(
            ValueError, match=r"input_tensor: expected shape \(1, 1, 5, 4\), with or without leading 1s, or a one-dim"
        ):
            op(x, IDS)
    with pytest.raises(ValueError, match=r"out: expected|output_tensor: expected"):
        op(X, IDS, out=np.empty(4, np.float32))
    rows = dg.compile(dg.SliceOperatorDesc.of(((2, 1, 4), "float32"), dimension_count=4))
    assert rows(X[:2].reshape(2, 1, 4)).shape == (1, 2, 1, 4)
    with pytest.raises(ValueError, match="expected shape"):
        rows(X[:2])


def test_a_flat_array_for_a_strided_tensor_is_a_buffer() -> None:
    """Three elements with a stride of 0 are one element of the buffer."""
    op = dg.compile(four_dimensions(indices_tensor=(0, 0, 0, 0)))
    assert op(X, IDS).tobytes() == X[[4, 4, 4]].tobytes()
    assert op(X, IDS.reshape(1, 1, 1, 3)).tobytes() == X[IDS].tobytes()
    apart = dg.compile(four_dimensions(indices_tensor=(0, 0, 0, 2)))
    assert apart(X, np.array([4, 9, 0, 9, -1])).tobytes() == X[IDS].tobytes()
    with pytest.raises(ValueError, match=r"indices_tensor: expected shape \(1, 1, 1, 3\).*at least 40 bytes"):
        apart(X, IDS)
    with pytest.raises(ValueError, match="indices_tensor: expected shape"):
        op(X, np.repeat(IDS, 2)[::2])


@pytest.mark.parametrize(
    ("op", "shown"),
    [
        (
            dg.compile(dg.GatherOperatorDesc.of(X, IDS)),
            "GATHER axis 0: float32[5,4], int64[3] -> float32[3,4]; where the arrays are, out of bounds: clamp",
        ),
        (
            dg.compile(dg.GatherOperatorDesc.of(X, IDS), device="cpu", out_of_bounds=dg.Fill(2.5)),
            "GATHER axis 0: float32[5,4], int64[3] -> float32[3,4]; on cpu, out of bounds: Fill(2.5)",
        ),
        (
            dg.compile(dg.SliceOperatorDesc.of(X), device="reference"),
            "SLICE offsets {0,0}, sizes {5,4}, strides {1,1}: float32[5,4] -> float32[5,4]; on reference",
        ),
    ],
)
def test_repr_shows_operator_shapes_device_and_policy(op: dg.CompiledOperator, shown: str) -> None:
    assert repr(op) == f"<CompiledOperator {shown}>"


def test_repr_of_a_bound_operator_shows_its_device() -> None:
    bound = dg.compile(dg.GatherOperatorDesc.of(X, IDS), out_of_bounds="raise").bind(X, IDS, out=np.empty((3, 4), np.float32))
    assert repr(bound) == "<BoundOperator GATHER axis 0: float32[5,4], int64[3] -> float32[3,4]; on cpu, out of bounds: raise>"
