"""Descriptors over chunked tables. Judge: the same descriptor compiled for one device, over the whole table."""

from __future__ import annotations

import random
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.directml.shapes import gather_batch
from dmlgather.distributed import run
from tests import seeds, strategies
from tests.distributed.counted import bits, chunks_of
from tests.distributed.standin import Standin, table_of

pytestmark = pytest.mark.usefixtures("synchronous")

X = np.arange(35, dtype=np.float32).reshape(1, 5, 7)
IN_CHUNKS = ("GATHER", "GATHER_ELEMENTS", "SLICE", "SLICE1")
POLICIES = (None, "clamp", "raise", "promise", dg.Fill(1))


def tensor(sizes: tuple[int, ...], data_type: str = "FLOAT32") -> dg.BufferTensorDesc:
    return dg.BufferTensorDesc(data_type=data_type, sizes=sizes)


def gather_desc(indices: tuple[int, ...], output: tuple[int, ...], count: int, **stated: Any) -> dg.GatherOperatorDesc:
    tensors = {"input_tensor": tensor(X.shape), "indices_tensor": tensor(indices, "INT32"), "output_tensor": tensor(output)}
    return dg.GatherOperatorDesc(**{**tensors, "axis": 1, "index_dimensions": count, **stated})


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_legal_descriptors_give_what_one_device_gives(seed: int) -> None:
    drawn = strategies.problem(seed)
    desc, rng = drawn.desc, random.Random(seed)
    arrays = [_logical(desc.tensor(name), flat) for name, flat in zip(desc.operator.tensors, drawn.inputs, strict=False)]
    policy = rng.choice(POLICIES) if len(arrays) > 1 else None
    chunks = list(chunks_of(rng, arrays[0].shape))
    if isinstance(desc, dg.GatherElementsOperatorDesc):
        chunks[desc.axis] = (arrays[0].shape[desc.axis],)
    indices = arrays[1:]
    if indices and rng.random() < 0.5:
        indices = [da.from_array(each, chunks=chunks_of(rng, each.shape)) for each in indices]

    def compute() -> Any:
        return run(
            desc, da.from_array(arrays[0], chunks=tuple(chunks)), *indices, level=drawn.level, out_of_bounds=policy
        ).compute()

    if desc.operator.name not in IN_CHUNKS or (isinstance(desc, dg.GatherOperatorDesc) and gather_batch(desc)):
        with pytest.raises(ValueError, match=r"several dimensions at once|does not run on chunked tables|must not have"):
            compute()
        return
    try:
        expected = dg.compile(desc, level=drawn.level, out_of_bounds=policy)(*arrays)
    except IndexError:
        with pytest.raises(IndexError, match="is out of range"):
            compute()
        return
    assert bits(compute()) == bits(expected)


def _logical(described: dg.BufferTensorDesc, flat: NDArray[np.uint8]) -> NDArray[Any]:
    """The elements that a tensor has in its buffer."""
    dtype = np.dtype(described.data_type.name.lower())
    strides = [step * dtype.itemsize for step in described.element_strides]
    whole = flat[: flat.size // dtype.itemsize * dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(whole, described.sizes, strides).copy()


def test_a_table_may_be_more_than_a_device_addresses() -> None:
    rows = 2**31
    table = da.map_blocks(_numbers, chunks=((2**24,) * 128, (4,)), dtype="f4", meta=np.empty((0, 0), "f4"))
    tensors = {"input_tensor": tensor((rows, 4)), "indices_tensor": tensor((1, 3), "INT64")}
    desc = dg.GatherOperatorDesc(**tensors, output_tensor=tensor((3, 4)), axis=0, index_dimensions=1)
    with pytest.raises(dg.DescriptorError, match="DML108"):
        dg.compile(desc)
    lazy = run(desc, table, np.array([[5, -1, 2**40]]))
    assert lazy.shape == (3, 4)
    slicing = dg.SliceOperatorDesc(
        input_tensor=tensor((rows, 4)), output_tensor=tensor((2, 2)), offsets=(7, 1), sizes=(2, 2), strides=(2**30, 2)
    )
    assert run(slicing, table).chunks == ((1, 1), (2,))
    wrong = desc.model_copy(update={"output_tensor": tensor((2, 4))})
    with pytest.raises(dg.DescriptorError, match="DML302") as error:
        run(wrong, table, np.array([[5, -1, 2**40]]))
    assert {found.code for found in error.value.report.errors} == {"DML302"}


def _numbers() -> NDArray[Any]:
    raise AssertionError("nothing is loaded")


def test_sizes_are_aligned_as_directml_aligns_them() -> None:
    for indices, output, count in (((1, 2, 3), (2, 3, 7), 2), ((1, 1, 1), (1, 1, 7), 0), ((1, 1, 4), (1, 4, 7), 1)):
        desc = gather_desc(indices, output, count)
        wanted = seeds.numpy_rng().integers(-9, 9, indices, np.int32)
        for table in (da.from_array(X, chunks=2), table_of(X, ((1,), (3, 2), (7,)))):
            lazy = run(desc, table, wanted)
            found = lazy.compute()
            assert (type(found), lazy.shape) == (type(lazy._meta), output)
            assert found.tobytes() == dg.compile(desc)(X, wanted).tobytes()
            assert type(found) in (np.ndarray, Standin)


def test_bool_is_taken_for_uint8() -> None:
    stated = {"input_tensor": tensor(X.shape, "UINT8"), "output_tensor": tensor((1, 2, 7), "UINT8")}
    desc, wanted = gather_desc((1, 1, 2), (), 1, **stated), np.array([[[4, 1]]], np.int32)
    assert bits(run(desc, da.from_array(X % 3 > 0, chunks=2), wanted).compute()) == bits(dg.compile(desc)(X % 3 > 0, wanted))


SLICE = dg.SliceOperatorDesc(
    input_tensor=tensor(X.shape), output_tensor=tensor((1, 2, 7)), offsets=(0, 1, 0), sizes=(1, 2, 7), strides=(1, 1, 1)
)
GATHER = gather_desc((1, 1, 2), (1, 2, 7), 1)
WANTED = np.zeros((1, 1, 2), np.int32)


@pytest.mark.parametrize(
    ("desc", "arrays", "error", "words"),
    [
        (SLICE, (X, WANTED), TypeError, "SLICE takes no indices, got ndarray: leave them out"),
        (GATHER, (X,), TypeError, r"GATHER takes indices of shape \(1, 1, 2\), got none"),
        (GATHER, (X[0, 1:], WANTED), ValueError, r"table has shape \(4, 7\), expected \(1, 5, 7\), the Sizes"),
        (GATHER, (X, WANTED[None]), ValueError, r"indices has shape \(1, 1, 1, 2\), expected \(1, 1, 2\), the Sizes"),
        (GATHER, (X.astype("f8"), WANTED), TypeError, r"table: expected float32 elements .* got float64; convert"),
        (GATHER, (X, WANTED.astype("i8")), TypeError, r"indices: expected int32 elements .* got int64; convert"),
        (gather_desc((1, 1, 2), (1, 3, 7), 1), (X, WANTED), dg.DescriptorError, "DML302"),
        ("GATHER", (X, WANTED), TypeError, "expected an operator descriptor such as GatherOperatorDesc, got str"),
    ],
    ids=["indices", "no indices", "shape", "index shape", "type", "index type", "illegal", "no descriptor"],
)
def test_arrays_that_a_descriptor_does_not_say_are_refused(desc: Any, arrays: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(desc, da.from_array(arrays[0], chunks=2), *arrays[1:])


def test_leading_ones_may_be_left_out() -> None:
    x, ids = np.arange(20, dtype=np.float32).reshape(5, 4), np.array([4, 0, -1])
    desc = dg.GatherOperatorDesc.of(x, ids, dimension_count=4)
    for indices in (ids, da.from_array(ids, chunks=2), ids.reshape(1, 3)):
        found = run(desc, da.from_array(x, chunks=(2, 2)), indices).compute()
        assert found.shape == (1, 1, 3, 4)
        assert found.tobytes() == x[ids].tobytes()
    with pytest.raises(ValueError, match=r"table has shape \(5, 1, 4\), expected \(1, 1, 5, 4\)"):
        run(desc, x.reshape(5, 1, 4), ids)


def test_the_way_around_names_dask_for_a_file(tmp_path: Any) -> None:
    np.save(tmp_path / "table.npy", np.zeros((64, 4)))
    desc = dg.GatherElementsOperatorDesc.of(((64, 4), "float64"), ((2, 4), "int64"))
    advice = r"those of a .npy file, given by its path, by dask.config.set\(\{'array.chunk-size': '2048B'\}"
    with dask.config.set({"array.chunk-size": "64B"}), pytest.raises(ValueError, match=advice):
        run(desc, tmp_path / "table.npy", np.zeros((2, 4), int))
    with dask.config.set({"array.chunk-size": "2048B"}):
        assert not run(desc, tmp_path / "table.npy", np.zeros((2, 4), int)).compute().any()
