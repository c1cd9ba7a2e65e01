"""What a table may be. Judges: NumPy's and zarr's own reading of the same files."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from dask.tokenize import tokenize

from dmlgather.distributed import gather, table_sources
from dmlgather.distributed.table_sources import ChunkLoads, as_table, loaded
from tests.distributed.counted import bits
from tests.distributed.standin import Standin

X = np.arange(2400.0).reshape(600, 4)


@pytest.fixture(autouse=True)
def _small_chunks() -> Any:
    with dask.config.set({"scheduler": "synchronous", "array.chunk-size": "4KiB"}):
        yield


@pytest.mark.parametrize(
    "values",
    [
        X,
        np.asfortranarray(X),
        X.astype(">f4"),
        X[:, 0],
        np.asfortranarray(X.reshape(10, 60, 4)),
        X[:0],
        X[:, :0],
        np.array(["ab", "c"]),
        (X % 3 > 0),
    ],
    ids=["rows", "columns", "big-endian", "vector", "columns of three", "no rows", "no columns", "text", "bool"],
)
def test_npy_files_are_read_chunk_by_chunk(tmp_path: Path, values: Any) -> None:
    np.save(tmp_path / "table.npy", values)
    table = as_table(tmp_path / "table.npy")
    assert bits(table.compute()) == bits(np.load(tmp_path / "table.npy"))
    assert (table.shape, table.dtype) == (values.shape, values.dtype)
    assert (table.npartitions > 1) == (values.nbytes > 4096)
    assert as_table(str(tmp_path / "table.npy")).name == table.name


def test_a_chunk_of_an_npy_file_maps_its_own_rows_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", X)
    chunk: Any = loaded(ChunkLoads(as_table(tmp_path / "table.npy"), [(1, 0)]).of((1, 0)))
    assert bits(chunk) == bits(X[128:256])
    while isinstance(chunk.base, np.ndarray):
        chunk = chunk.base
    assert isinstance(chunk, np.memmap)
    assert (chunk.offset, chunk.size) == (128 + 128 * 32, 128 * 4)
    assert not chunk.flags.writeable


def test_a_file_that_has_changed_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "table.npy"
    np.save(file, X)
    table = as_table(file)
    np.save(file, X[:1])
    with pytest.raises(ValueError, match="has changed since the table was made from it: make the table again"):
        table.compute()
    np.save(file, X + 1)
    os.utime(file, ns=(0, 0))
    assert as_table(file).name != table.name
    assert bits(as_table(file).compute()) == bits(X + 1)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", X)
    table = as_table(tmp_path / "table.npy")
    (tmp_path / "table.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"^table: .*table\.npy was deleted after the table was made$"):
        table.compute()


@pytest.mark.parametrize("size", [0, "0", "-1MiB", "abc", None, [1], float("inf")])
def test_a_chunk_size_of_dask_is_a_number_of_bytes(tmp_path: Path, size: Any) -> None:
    np.save(tmp_path / "table.npy", X)
    named = r"^dask's setting array\.chunk-size is .*, expected a"
    with dask.config.set({"array.chunk-size": size}), pytest.raises((TypeError, ValueError), match=named):
        as_table(tmp_path / "table.npy")


@pytest.mark.parametrize("size", [64, 64.0, "64", "64B", "0.064kB"])
def test_a_chunk_size_is_written_as_dask_takes_it(tmp_path: Path, size: Any) -> None:
    np.save(tmp_path / "table.npy", X)
    with dask.config.set({"array.chunk-size": size}):
        assert as_table(tmp_path / "table.npy").chunks[0] == da.zeros(X.shape, X.dtype, ("auto", -1)).chunks[0]


def test_a_corrupt_chunk_of_a_store_is_named(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "table.zarr", data=X, chunks=(128, 4))
    (tmp_path / "table.zarr" / "c" / "1" / "0").write_bytes(b"x" * 100)
    table = as_table(tmp_path / "table.zarr")
    assert bits(table[:128].compute()) == bits(X[:128])
    with pytest.raises(RuntimeError) as raised:
        table.compute()
    (note,) = raised.value.__notes__
    assert note.startswith("table: elements (slice(128, 256, None), slice(0, 4, None)) of the zarr array file://")
    assert note.endswith("table.zarr could not be read")


def test_zarr_arrays_and_stores_are_read_chunk_by_chunk(tmp_path: Path) -> None:
    rows = zarr.create_array(tmp_path / "rows.zarr", shape=X.shape, chunks=(128, 4), dtype=X.dtype)
    rows[:] = X
    group = zarr.open_group(tmp_path / "group.zarr", mode="w")
    shards = group.create_array("sharded", shape=X.shape, chunks=(10, 2), shards=(200, 4), dtype=X.dtype)
    shards[:] = X
    for source in (rows, tmp_path / "rows.zarr", str(tmp_path / "rows.zarr"), f"file://{tmp_path}/rows.zarr"):
        table = as_table(source)
        assert table.chunks == ((128, 128, 128, 128, 88), (4,))
        assert bits(table.compute()) == bits(X)
    for source in (shards, tmp_path / "group.zarr" / "sharded"):
        assert as_table(source).chunks == ((200, 200, 200), (4,))
        assert bits(as_table(source).compute()) == bits(X)
    with pytest.raises(TypeError, match=r"type zarr\..*Group, expected .* name one of the group's arrays, \['sharded'\]"):
        as_table(group)
    with pytest.raises(ValueError, match=r"group.zarr holds a zarr group: name one of the group's arrays, \['sharded'\]"):
        as_table(tmp_path / "group.zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_array_that_is_gone_is_not_read_as_its_fill_value(tmp_path: Path, version: Any) -> None:
    store = tmp_path / "table.zarr"

    def write(values: Any) -> Any:
        stated: Any = {"shape": values.shape, "dtype": values.dtype, "zarr_format": version}
        made = zarr.create_array(store, chunks=(128, 4), overwrite=True, **stated)
        made[:] = values
        return made

    for source in (write(X), store, str(store)):
        table = as_table(source)
        assert bits(table.compute()) == bits(X)
        write(X[:200])
        with pytest.raises(ValueError, match=r"the zarr array .*table.zarr has changed since the table was made: make it again"):
            table.compute()
        shutil.rmtree(store)
        with pytest.raises(FileNotFoundError, match=r"the zarr array .*table.zarr was deleted after the table was made"):
            table.compute()
        write(X)
    memory = zarr.create_array({}, shape=X.shape, chunks=(128, 4), dtype=X.dtype)
    memory[:] = X
    assert bits(as_table(memory).compute()) == bits(X)


def test_a_path_means_the_same_wherever_a_worker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr.create_array(tmp_path / "table.zarr", shape=X.shape, chunks=(128, 4), dtype=X.dtype)[:] = X
    np.save(tmp_path / "table.npy", X)
    monkeypatch.chdir(tmp_path)
    tables = [as_table("table.npy"), as_table(Path("table.zarr"))]
    monkeypatch.chdir(tmp_path.parent)
    for table in tables:
        assert bits(table.compute()) == bits(X)


def test_dask_arrays_stay_as_they_are() -> None:
    table = da.from_array(X, chunks=100)
    assert as_table(table) is table


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_mapped_file_is_neither_copied_nor_read(tmp_path: Path, order: Any) -> None:
    file = tmp_path / "table.npy"
    np.save(file, np.asarray(X, order=order))
    mapped = np.load(file, mmap_mode="r")
    views: Any = [mapped, mapped[:, 1:3], mapped[::-1]]
    for view in views:
        table = as_table(view)
        parts = [part for part in dict(table.dask).values() if isinstance(part, np.ndarray)]
        assert len(parts) == table.npartitions > 1
        assert all(np.shares_memory(part, view) for part in parts)
        assert bits(table.compute()) == bits(X[:, 1:3] if view is views[1] else X[::-1] if view is views[2] else X)
        assert bits(gather(view, [3, 599]).compute()) == bits(view[[3, 599]])
    assert len({as_table(view).name for view in views}) == 3
    name = as_table(mapped).name
    with mock.patch.object(table_sources, "tokenize", wraps=tokenize) as named:
        as_table(np.load(file, mmap_mode="r"))
        assert not [part for call in named.call_args_list for part in call.args if isinstance(part, np.ndarray)]
    writeable = np.load(file, mmap_mode="r+")
    assert as_table(writeable).name not in (as_table(writeable).name, name)  # it may hold something else by then


def test_numpy_arrays_are_cut_into_chunks(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", X)
    for table in (X, np.asfortranarray(X), np.load(tmp_path / "table.npy", mmap_mode="r")):
        found = as_table(table)
        assert found.npartitions > 1
        assert bits(found.compute()) == bits(X)
        assert as_table(table).name == found.name


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "table.npy"
    with pytest.raises(FileNotFoundError, match=r"table: .*table.npy does not exist"):
        as_table(file)
    with pytest.raises(FileNotFoundError, match=r"table: .*no.zarr is neither a .npy file nor a zarr store"):
        as_table(tmp_path / "no.zarr")
    np.save(file, np.array([{}], object))
    with pytest.raises(ValueError, match=r"table.npy holds pickled Python objects, which are never loaded"):
        as_table(file)
    file.write_bytes(pickle.dumps(X))
    with pytest.raises(ValueError, match=r"table.npy is no .npy file"):
        as_table(file)
    np.save(file, X)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"its header announces 19200 bytes \(float64 of shape .*\), but 19199 follow"):
        as_table(file)
    (tmp_path / "table.bin").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"table.bin is neither a .npy file nor a zarr store: name one, or pass an array$"):
        as_table(tmp_path / "table.bin")
    np.savez(tmp_path / "table.npz", X)
    with pytest.raises(ValueError, match=r"npz is neither .*: write an array of it with numpy.save\(new_path, numpy.load\("):
        as_table(tmp_path / "table.npz")
    with pytest.raises(FileNotFoundError, match=r"^table: ~/no-table.npy does not exist, because ~ is not expanded: pass "):
        as_table("~/no-table.npy")


class _NoArray:
    """What dask takes for an array, and nobody can read."""

    shape, dtype, ndim = (0,), np.dtype("f4"), 1

    def __getitem__(self, where: Any) -> _NoArray:
        return self


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (np.ma.masked_array(X), TypeError, r"masked chunks, .* use dask.array.ma.filled\(table, value\)"),
        (
            Standin(X),
            TypeError,
            r"standin.Standin, expected .* one device, or chunked with dask.array.from_array\(table, chunks=…\)",
        ),
        ([1], TypeError, r"builtins.list, expected a dask, .* or a path: numpy.asarray\(table\) makes an array$"),
        (b"table.npy", TypeError, r"builtins.bytes, .*: a path is a str or a pathlib.Path \(os.fsdecode\(table\)\)$"),
        (None, TypeError, "NoneType, expected a dask, zarr or NumPy array or a path: whatever dask reads becomes one"),
        (da.arange(9)[da.arange(9) > 3], ValueError, r"table has chunks of unknown size .* call table.compute_chunk_sizes\(\)"),
        (da.ma.masked_array(da.zeros(3)), TypeError, r"masked chunks, .* use dask.array.ma.filled\(table, value\)"),
        (da.zeros(3).map_blocks(id, meta=_NoArray(), dtype="f4"), TypeError, "chunks of type tests.*_NoArray, expected NumPy's"),
    ],
    ids=["masked NumPy", "stand-in", "list", "bytes", "none", "unknown sizes", "masked", "no arrays"],
)
def test_an_object_that_is_no_table_is_refused(table: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        as_table(table)


def test_a_store_without_zarr_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ModuleNotFoundError, match=r"a zarr store needs the package zarr, .*\(dmlgather's extra dask\)"):
        as_table(tmp_path)
