"""Rows of one chunk. Judge: NumPy's take on the chunk's bytes, with the filled row put behind them."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.distributed.chunk_operators import check, gather_descriptor, take
from tests import seeds
from tests.distributed import counted
from tests.distributed.standin import Standin

DTYPES = (*counted.DTYPES, np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.int4))


def drawn_chunk(rng: random.Random, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Any bits, packed or walked with strides of its own."""
    shape = [rng.choice([0, 1, 1, 2, 3, 5]) for _ in range(rng.randint(1, 4))]
    order = rng.sample(range(len(shape)), len(shape))
    steps = tuple(slice(None, None, rng.choice([1, 1, -1, 2])) for _ in shape)
    raw = np.frombuffer(rng.randbytes(16 * int(np.prod(shape, dtype=int)) * 2 ** len(shape)), np.uint8)
    count = int(np.prod([2 * size for size in shape], dtype=int))
    return raw[: count * dtype.itemsize].view(dtype).reshape([2 * size for size in shape])[steps].transpose(order)


def taken(chunk: NDArray[Any], axis: int, rows: NDArray[np.int64], fill: bytes | None) -> bytes:
    opaque = np.ascontiguousarray(chunk).view(f"V{chunk.itemsize}")
    if fill is not None:
        row = np.frombuffer(fill, opaque.dtype)
        sizes = [1 if dimension == axis else size for dimension, size in enumerate(chunk.shape)]
        opaque = np.concatenate([opaque, np.broadcast_to(row, sizes)], axis)
    return np.take(opaque, rows, axis).tobytes()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(DTYPES), st.booleans(), st.integers(0, 2**32))
def test_rows_keep_their_bits(dtype: np.dtype[Any], filled: bool, seed: int) -> None:
    rng = random.Random(seed)
    chunk = drawn_chunk(rng, dtype)
    axis = rng.randrange(chunk.ndim)
    fill = rng.choice([bytes(dtype.itemsize), rng.randbytes(dtype.itemsize)]) if filled else None
    highest = chunk.shape[axis] - (fill is None)
    shape = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))] if highest >= 0 else [0]
    rows = np.array([rng.randint(0, highest) for _ in range(int(np.prod(shape, dtype=int)))], np.int64).reshape(shape)
    found = take(chunk, axis, rows, fill, dtype)
    assert type(found) is np.ndarray
    assert found.dtype == dtype
    assert found.shape == (*chunk.shape[:axis], *shape, *chunk.shape[axis + 1 :])
    assert found.tobytes() == taken(chunk, axis, rows, fill)


@pytest.mark.parametrize("fill", [None, np.float32(-0.0).tobytes()])
@pytest.mark.parametrize("shape", [(4, 3), (0, 3), (4, 0)])
def test_another_librarys_chunk_stays_one(shape: tuple[int, int], fill: bytes | None) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    rows = np.array([[0, shape[0] - (fill is None)]]) if shape[0] or fill else np.empty((1, 0), np.int64)
    found = take(Standin(values), 0, rows, fill)
    assert type(found) is Standin
    assert found.shape == (*rows.shape, shape[1])
    assert found.tobytes() == taken(values, 0, rows, fill)


def test_chunks_of_strings_and_objects_are_refused() -> None:
    for strings in (np.array(["a", "b"]), np.array([1, None], object), np.zeros(2, [("name", object)])):
        with pytest.raises(TypeError, match="but only numbers of 1, 2, 4, 8 or 16 bytes are moved"):
            take(strings, 0, np.array([0]))


def test_descriptors_are_what_a_caller_would_write() -> None:
    written = dg.parse_descriptor(
        {
            "type": "DML_OPERATOR_GATHER",
            "desc": {
                "InputTensor": {"DataType": "UINT64", "Sizes": [3, 5, 2]},
                "IndicesTensor": {"DataType": "INT64", "Sizes": [1, 1, 7]},
                "OutputTensor": {"DataType": "UINT64", "Sizes": [3, 7, 2]},
                "Axis": 1,
                "IndexDimensions": 1,
            },
        }
    )
    assert gather_descriptor((3, 5), "c16", 1, 7) == written
    assert gather_descriptor((3, 5), "f2", 0, 7).input_tensor.data_type is dg.DataType.FLOAT16
    assert gather_descriptor((3, 5), "?", 0, 7).input_tensor.data_type is dg.DataType.UINT8
    for shape, dtype in (((3, 5), "c16"), ((1,) * 8, "f4"), ((2**16, 2**16 - 1), "u1")):
        check(gather_descriptor(shape, dtype, 0, 7))


@pytest.mark.parametrize(
    ("shape", "count", "code", "remedy"),
    [
        ((1,) * 9, 1, "DML102", r"merge dimensions of the table \(table\.reshape"),
        ((2**16, 2**16), 1, "DML108", r"rechunk the table into smaller chunks \(table\.rechunk"),
        ((2**33, 1), 1, "DML108", r"rechunk the table into smaller chunks \(table\.rechunk"),
        ((2, 1), 2**32, "DML108", "lower block_bytes and in_flight_bytes"),
        ((2, 2**16), 2**16, "DML108", "lower block_bytes and in_flight_bytes"),
    ],
)
def test_a_chunk_that_no_descriptor_can_say_has_a_remedy(shape: tuple[int, ...], count: int, code: str, remedy: str) -> None:
    with pytest.raises(dg.DescriptorError, match=remedy) as caught:
        check(gather_descriptor(shape, "f4", 0, count))
    assert {finding.code for finding in caught.value.report.errors} == {code}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "?", "c8", "c16", "u8", "f2", ml_dtypes.bfloat16], ids=str)
def test_chunks_on_a_gpu_keep_their_bits_there(cupy: Any, dtype: Any) -> None:
    rng = seeds.rng()
    raw = np.frombuffer(rng.randbytes(2 * 5 * 6 * 16), np.uint8)
    values = (raw & 1 if dtype == "?" else raw)[: 60 * np.dtype(dtype).itemsize].view(dtype).reshape(2, 5, 6)
    for chunk, ours in ((cupy.asarray(values), values), (cupy.asarray(values)[:, ::-1, ::2], values[:, ::-1, ::2])):
        for fill in (None, rng.randbytes(chunk.itemsize)):
            rows = np.array([[4, 0], [2, 4 if fill is None else 5]])
            found = take(chunk, 1, rows, fill)
            assert isinstance(found, cupy.ndarray)
            assert found.dtype == dtype
            assert found.get().tobytes() == taken(ours, 1, rows, fill)
