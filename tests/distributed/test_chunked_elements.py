"""GatherElements of chunked tables. Judges: NumPy with the policy written out, and one device on the whole array."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import dask.array as da
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.distributed.chunked_elements import gather_elements
from dmlgather.distributed.routing import even
from tests.distributed.counted import CountedTable, bits, chunks_of, random_bits
from tests.distributed.standin import Standin, assert_stays, table_of

pytestmark = pytest.mark.usefixtures("synchronous")

pytestmark = pytest.mark.usefixtures("synchronous")

TYPES = {
    "directml": ("f2", "f4", "f8", "i1", "u8"),
    "onnx": ("f4", "i1", "u8", "?", "c8", "c16", ml_dtypes.bfloat16),
}
INDEX_TYPES = {"directml": ("i4", "i8", "u4", "u8"), "onnx": ("i4", "i8")}
POLICIES = (None, "clamp", "raise", "promise", dg.Fill(1))


class Expected:
    """What GatherElements is by NumPy: `bad` marks the indices that are out of range, `values` are the result under a policy."""

    def __init__(self, x: NDArray[Any], indices: NDArray[Any], axis: int, policy: Any) -> None:
        extent = x.shape[axis]
        exact = indices.astype(object)
        places = np.where(exact < 0, exact + extent, exact)
        self.bad = ((places < 0) | (places >= extent)).astype(bool)
        cropped = x[tuple(slice(None) if at == axis else slice(size) for at, size in enumerate(indices.shape))]
        if extent:
            self.values = np.take_along_axis(cropped, np.clip(places, 0, extent - 1).astype(np.int64), axis)
        else:
            self.values = np.zeros(indices.shape, x.dtype)
        if isinstance(policy, dg.Fill):
            self.values = np.where(self.bad, np.asarray(policy.value, x.dtype), self.values)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_elements_are_the_wholes_and_load_no_chunk_in_vain(seed: int) -> None:
    rng = random.Random(seed)
    dialect = rng.choice(list(TYPES))
    dtype: np.dtype[Any] = np.dtype(rng.choice(TYPES[dialect]))
    shape = [rng.choice([0, 1, 2, 4, 7]) if rng.random() < 0.2 else rng.randint(1, 7) for _ in range(rng.randint(1, 3))]
    axis = rng.randrange(len(shape))
    x = random_bits(rng, shape, dtype)
    chunks = list(chunks_of(rng, shape))
    chunks[axis] = (shape[axis],)
    counted = CountedTable(x, tuple(chunks))

    sizes = [rng.randint(0, size) if dialect == "onnx" else size for size in shape]
    sizes[axis] = rng.choice([0, 1, 3, 8])
    index_type = np.dtype(rng.choice(INDEX_TYPES[dialect]))
    beyond = rng.choice([0, 0, 2, 2**31 - 20])
    low, high = -shape[axis] - beyond if index_type.kind == "i" else 0, max(shape[axis] + beyond, 1)
    indices = np.array([rng.randrange(low, high) for _ in range(int(np.prod(sizes)))], index_type).reshape(sizes)
    if indices.size and rng.random() < 0.2:
        indices.flat[0] = rng.choice([np.iinfo(index_type).min, np.iinfo(index_type).max])
    lazy = rng.random() < 0.6
    cut = chunks_of(rng, sizes)
    given_indices: Any = da.from_array(indices, chunks=cut) if lazy else indices
    along = len(cut[axis]) if lazy else 1
    policy = rng.choice(POLICIES)

    expected = Expected(x, indices, axis, policy)
    raises = policy == "raise" or (policy is None and dialect == "onnx")
    fills = isinstance(policy, dg.Fill)

    def result() -> Any:
        found = gather_elements(counted.table, given_indices, axis=axis - len(shape), dialect=dialect, out_of_bounds=policy)
        assert (found.shape, found.dtype) == (indices.shape, x.dtype)
        assert counted.loads == []
        return found.compute()

    if raises and expected.bad.any():
        with pytest.raises(IndexError, match="is out of range for axis"):
            result()
    elif not (shape[axis] or fills) and indices.size:
        with pytest.raises(ValueError, match=r"of size 0.*nothing to read"):
            result()
    else:
        assert bits(result()) == bits(expected.values)
        if dialect == "onnx" and shape[axis]:
            assert bits(dg.onnx.gather_elements(x, indices, axis, out_of_bounds=policy)) == bits(expected.values)
        elif indices.size and x.size:
            assert bits(one_device(x, indices, axis, policy)) == bits(expected.values)
        assert max((counted.loads.count(place) for place in counted.loads), default=0) <= along
        assert set(counted.loads) == touched(chunks, sizes, axis)


def one_device(x: NDArray[Any], indices: NDArray[Any], axis: int, policy: Any) -> Any:
    desc = dg.GatherElementsOperatorDesc.of(x, indices, axis=axis)
    return dg.compile(desc, out_of_bounds=policy)(x, indices).reshape(indices.shape)


def touched(chunks: Any, sizes: Any, axis: int) -> set[tuple[int, ...]]:
    """The chunks that have an element at coordinates off the axis at which there is an index."""
    if 0 in sizes or not sum(chunks[axis]):
        return set()
    numbers = [np.repeat(np.arange(len(each)), each)[: sizes[at] if at != axis else None] for at, each in enumerate(chunks)]
    numbers[axis] = np.array([0])
    return {tuple(int(each[at]) for each, at in zip(numbers, place, strict=True)) for place in np.ndindex(*map(len, numbers))}


@pytest.mark.parametrize("dialect", ["directml", "onnx"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_bad_index_is_named_by_its_place_in_the_whole(dialect: str, lazy: bool) -> None:
    """Indices in memory raise when they are given."""
    indices = np.zeros((6, 8), np.int64)
    indices[4, 7] = -9
    table = da.ones((6, 3), chunks=(2, 3), dtype="f4")
    given_indices = da.from_array(indices, chunks=(6, 5)) if lazy else indices
    message = r"\w+\[4, 7\] = -9 is out of range for axis 1 of size 3: valid indices are -3 … 2"
    call = partial(gather_elements, table, given_indices, axis=1, dialect=dialect, out_of_bounds="raise")
    with pytest.raises(IndexError, match=message):
        (call().compute if lazy else call)()


@pytest.mark.parametrize("dialect", ["directml", "onnx"])
@pytest.mark.parametrize("policy", ["clamp", dg.Fill(2)], ids=str)
@pytest.mark.parametrize(
    "kind",
    [np.asarray, Standin, lambda values: table_of(values, ((2, 4), even(values.shape[1], 3)))],
    ids=["NumPy", "own", "lazy"],
)
def test_chunks_stay_of_their_kind(dialect: str, policy: Any, kind: Any) -> None:
    x = np.arange(6 * 4, dtype=np.float32).reshape(6, 4)
    for extent, size in ((4, 5), (4, 0), (0, 5)):
        indices = np.arange(6 * size).reshape(6, size) - 9
        if not extent and policy == "clamp":
            continue
        result = gather_elements(
            table_of(x[:, :extent], ((1, 0, 5), (extent,))), kind(indices), axis=1, dialect=dialect, out_of_bounds=policy
        )
        assert_stays(result, Expected(x[:, :extent], indices, 1, policy).values)


@pytest.mark.gpu
@pytest.mark.parametrize("dialect", ["directml", "onnx"])
@pytest.mark.parametrize("of_cupy", [False, True])
def test_chunks_of_cupy_stay_on_the_gpu(cupy: Any, dialect: str, of_cupy: bool) -> None:
    x, indices = np.arange(60, dtype=np.float32).reshape(12, 5), np.arange(84).reshape(12, 7) - 40
    asked = da.from_array(cupy.asarray(indices) if of_cupy else indices, chunks=(12, 3), asarray=False)
    table = da.from_array(cupy.asarray(x), chunks=(5, 5), asarray=False)
    for policy in ("clamp", dg.Fill(2)):
        result = gather_elements(table, asked, axis=1, dialect=dialect, out_of_bounds=policy)
        found = result.compute(scheduler="threads")
        assert type(found) is cupy.ndarray
        assert bits(found.get()) == bits(Expected(x, indices, 1, policy).values)
    raising = gather_elements(table, asked, axis=1, dialect=dialect, out_of_bounds="raise")
    with pytest.raises(IndexError, match=r"\w+\[\d+, \d+\] = .* is out of range for axis 1 of size 5"):
        raising.compute(scheduler="threads")


ZEROS = da.zeros((4, 6), chunks=(2, 3), dtype="f4")
INDICES = np.zeros((4, 2), np.int64)
REFUSED = [
    (
        lambda: gather_elements(ZEROS, INDICES, axis=1),
        ValueError,
        r"2 chunks along axis 1 \(sizes 3, 3\).* table.rechunk\({1: -1}\)",
    ),
    (lambda: gather_elements(ZEROS, INDICES, axis=1, dialect="lax"), ValueError, "'lax', .* expected 'directml' or 'onnx'"),
    (lambda: gather_elements(ZEROS, INDICES, axis=2), ValueError, "axis is 2, but table has rank 2: expected -2 … 1"),
    (lambda: gather_elements(ZEROS, INDICES[:3], axis=1), ValueError, r"\(4, 6\) and indices have \(3, 2\).*equal sizes"),
    (lambda: gather_elements(ZEROS, INDICES[0], axis=1), ValueError, "equal ranks"),
    (
        lambda: gather_elements(ZEROS, np.zeros((5, 2), int), axis=1, dialect="onnx"),
        ValueError,
        "indices has size 5 and data has size 4 in dimension 0",
    ),
    (lambda: gather_elements(ZEROS, INDICES.astype(float), axis=1), TypeError, "IndicesTensor has type float64"),
    (lambda: gather_elements(ZEROS.astype("c8"), INDICES, axis=1), TypeError, "InputTensor has type complex64"),
    (lambda: gather_elements(ZEROS, INDICES, axis=1, out_of_bounds="wrap"), ValueError, "out_of_bounds is 'wrap'"),
    (lambda: gather_elements(ZEROS, da.ones(9)[da.ones(9) > 0], axis=1), ValueError, "indices has chunks of unknown size"),
    (lambda: gather_elements(ZEROS, {3}, axis=1), TypeError, "expected an array"),
    (lambda: gather_elements(da.zeros((2**33,), dtype="f4", chunks=-1), INDICES[0]), dg.DescriptorError, "table.rechunk"),
    (
        lambda: gather_elements(da.zeros(9, dtype="f4"), da.zeros(2**33, dtype="i4", chunks=-1)),
        ValueError,
        "cut the indices into smaller",
    ),
    (
        lambda: gather_elements(da.zeros((1,) * 9, dtype="f4"), np.zeros((1,) * 9, int)),
        dg.DescriptorError,
        r"1 to 8 dimensions.* got 9; fix: merge dimensions of the table \(table.reshape",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_a_gather_that_cannot_be_is_refused_before_it_runs(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
