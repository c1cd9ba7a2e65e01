"""Turns dask, zarr and NumPy arrays and files into chunked tables, and loads their chunks."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

import dask.array as da
import numpy as np
from dask import config
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph, execute_graph
from dask.array.core import normalize_chunks
from dask.sizeof import sizeof
from dask.tokenize import tokenize
from dask.utils import ensure_dict
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.addresses import address_of
from dmlgather.directml.dxdispatch.npy import read_header
from dmlgather.distributed.chunk_grid import Chunks, GridIndex, cells
from dmlgather.distributed.memory_limits import byte_count
from dmlgather.files import FileError, open_regular
from dmlgather.host import give_memory_back
from dmlgather.package import missing_extra

P = ParamSpec("P")
T = TypeVar("T")

EMBEDDED_TASKS = 64
"""The most tasks to embed in the task that needs their chunk. More tasks stay separate, for several workers."""

EMBEDDED_BYTES = 2**20
"""The most bytes of arguments to embed. Larger arguments stay in separate tasks, and are sent only once."""


@dataclass(frozen=True, slots=True)
class Load:
    """A chunk that is not computed yet. A task gets it as an argument, and calls it to compute the chunk."""

    key: Any
    graph: Mapping[Any, GraphNode] = field(repr=False)

    def __call__(self) -> Any:
        return execute_graph(dict(self.graph), keys={self.key})[self.key]

    def __dask_tokenize__(self) -> Any:
        return self.key


def loaded(payload: Any) -> Any:
    """Return the chunk for a task. `payload`: the chunk, or the `Load` that computes it.

    The host waits until a GPU has written the chunk.
    """
    chunk = payload() if isinstance(payload, Load) else payload
    arrays.wait(chunk, for_all=True)
    return chunk


def synchronised(task: Callable[P, T]) -> Callable[P, T]:
    """Return a function that runs `task`, and waits until the GPU has written the result.

    Dask passes the result to threads that use other streams. It may also free the arguments, so that other tasks overwrite
    their memory.
    """

    @wraps(task)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        result = task(*args, **kwargs)
        if result is not None:
            arrays.wait(result)
        return result

    return run


class _ResultArray(da.Array):  # type: ignore[misc] # dask's classes are Any to mypy
    """The dask array that callers get. Its `compute` waits until a GPU has concatenated the chunks."""

    refuse: Callable[[], None] | None = None
    """A function that raises MemoryLimitError if `compute` needs more memory than the limit."""

    def __dask_postcompute__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self.refuse is not None:
            self.refuse()
        return _concatenate, super().__dask_postcompute__()

    def __dask_postpersist__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rebuild, arguments = super().__dask_postpersist__()
        return _persisted, (rebuild, *arguments)


@synchronised
def _concatenate(chunks: Any, concatenate: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    give_memory_back()  # during the concatenation, the result exists twice
    return concatenate(chunks, *arguments)


def _persisted(graph: Any, rebuild: Callable[..., da.Array], *arguments: Any, **named: Any) -> da.Array:
    return result_array(rebuild(graph, *arguments, **named))


def result_array(array: da.Array, refuse: Callable[[], None] | None = None) -> da.Array:
    """Return the dask array that a caller gets. All tasks of `array` must be decorated with `synchronised`.

    `refuse`: a function that raises MemoryLimitError if `compute` needs too much memory.
    """
    result = _ResultArray(array.dask, array.name, array.chunks, meta=array._meta)
    result.refuse = refuse
    return result


class ChunkLoads:
    """The chunks of a dask array as arguments of tasks.

    The tasks that compute a chunk are embedded in the task that needs the chunk (`Load`), unless other tasks need them, too.
    Then the argument is a reference to the chunk.
    """

    def __init__(self, array: da.Array, grid_indices: Iterable[GridIndex]) -> None:
        """`grid_indices`: the only chunks that `of` accepts."""
        self._array = array
        self._loads = _own_loads(array, [(array.name, *grid_index) for grid_index in grid_indices])
        self._depends = False

    def of(self, grid_index: GridIndex) -> Load | TaskRef:
        """Return the argument that gives a chunk to a task. The task passes it to `loaded`."""
        key = (self._array.name, *grid_index)
        if key in self._loads:
            return self._loads[key]
        self._depends = True
        return TaskRef(key)

    @property
    def graph(self) -> tuple[da.Array, ...]:
        """The dependencies of a graph that reads these chunks: the array if `of` has returned a reference, otherwise none."""
        return (self._array,) if self._depends else ()


def _own_loads(array: da.Array, keys: list[Any]) -> dict[Any, Load]:
    """Return a `Load` for each chunk that shares no task with another chunk. The keys are the keys of the chunks."""
    if not keys:
        return {}
    graph = convert_legacy_graph(ensure_dict(array.__dask_optimize__(array.__dask_graph__(), keys)))
    closures = {key: _closure(graph, key) for key in keys}
    users = Counter(name for names in closures.values() if names is not None for name in names)
    return {
        key: Load(key, {name: graph[name] for name in names})
        for key, names in closures.items()
        if names is not None and all(users[name] == 1 or isinstance(graph[name], DataNode) for name in names)
    }


def _closure(graph: Mapping[Any, GraphNode], key: Any) -> list[Any] | None:
    """Return the keys of all tasks that compute a chunk, or None if they cannot be embedded."""
    names: list[Any] = []
    stack, seen, bytes_ = [key], {key}, 0
    while stack:
        name = stack.pop()
        node = graph.get(name)
        if node is None or len(names) == EMBEDDED_TASKS:
            return None
        bytes_ += _bytes_of(node)
        if bytes_ > EMBEDDED_BYTES:
            return None
        names.append(name)
        new = [dependency for dependency in node.dependencies if dependency not in seen]
        seen.update(new)
        stack += new
    return names


def _bytes_of(node: GraphNode) -> int:
    """Return the size of a task's arguments in bytes. Results of other tasks do not count."""
    if isinstance(node, DataNode):
        in_memory = node.value.nbytes if hasattr(node.value, "__dlpack__") and hasattr(node.value, "nbytes") else 0
        return max(int(sizeof(node.value)), int(in_memory))
    if isinstance(node, Alias):
        return 0
    if isinstance(node, Task) and node.has_subgraph():
        return sum(map(_bytes_of, node.args[0].values()))
    return int(sizeof(node.args)) + int(sizeof(node.kwargs)) if isinstance(node, Task) else 0


def as_table(table: Any) -> da.Array:
    """Return a table as a dask array with known chunk sizes. Of a file, only the header is read.

    The chunks of a zarr array with shards are its shards. NumPy arrays and .npy files get chunks of dask's size
    `array.chunk-size`.
    """
    if isinstance(table, str | os.PathLike):
        table = _opened(os.fspath(table))
    if _is_zarr(table, "Array"):
        table = _stored(table)
    if isinstance(table, np.memmap):
        table = _mapped(table)
    if isinstance(table, np.ndarray):
        if table.dtype.hasobject:
            raise TypeError(f"the table has type {table.dtype}: objects are stored outside of their array and cannot be moved")
        table = da.from_array(table, asarray=not isinstance(table, np.ma.MaskedArray))
    if not isinstance(table, da.Array):
        raise TypeError(f"table is of type {_name_of(table)}, expected a dask, zarr or NumPy array or a path: {_remedy(table)}")
    meta = table._meta
    if isinstance(meta, np.ma.MaskedArray):
        raise TypeError("table has masked chunks, whose masks would be lost: use dask.array.ma.filled(table, value)")
    if not isinstance(meta, np.ndarray) and not hasattr(meta, "__dlpack__"):
        raise TypeError(f"table has chunks of type {_name_of(meta)}, expected NumPy's, CuPy's or any with __dlpack__")
    check_chunks("table", table)
    return table


def check_chunks(name: str, array: da.Array) -> None:
    """Raise ValueError if the sizes of some chunks are unknown.

    Also wait until the GPU has done its work so far, because dask's own tasks do not wait.
    """
    if any(math.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"{name} has chunks of unknown size ({array.chunks}), but the tasks depend on these sizes: call "
            f"{name}.compute_chunk_sizes() first"
        )
    arrays.wait(array._meta, for_all=True)


def _remedy(table: Any) -> str:
    if _is_zarr(table, "Group"):
        return f"name one of the group's arrays, {sorted(table.array_keys())}"
    if hasattr(table, "__dlpack__"):
        return "an array in memory is gathered on one device, or chunked with dask.array.from_array(table, chunks=…)"
    if isinstance(table, bytes):
        return "a path is a str or a pathlib.Path (os.fsdecode(table))"
    if isinstance(table, Sequence):
        return "numpy.asarray(table) makes an array"
    return "whatever dask reads becomes one with dask.array.from_array or dask.array.from_delayed"


def _is_zarr(table: Any, name: str) -> bool:
    cls = type(table)
    return cls.__module__.partition(".")[0] == "zarr" and cls.__name__ == name


def _name_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _opened(path: str) -> Any:
    """Return the dask array of a .npy file, or the zarr array of a zarr store."""
    if not path:
        raise ValueError("table is '', expected the path of a .npy file or of a zarr store, or an array")
    if path.startswith("~") and not Path(path).exists():
        raise FileNotFoundError(f"table: {path} does not exist, because ~ is not expanded: pass os.path.expanduser(path)")
    if "://" not in path and Path(path).suffix == ".npy" and not Path(path).is_dir():
        return _from_npy(Path(path).absolute())
    path = path if "://" in path else str(Path(path).absolute())
    try:
        import zarr
    except ModuleNotFoundError as error:
        raise missing_extra(f"table is the path {path!r}, which is no .npy file: a zarr store", "dask", error) from None
    try:
        opened = zarr.open(path, mode="r")
    except (FileNotFoundError, ValueError, OSError) as error:
        error_type = ValueError if "://" in path or Path(path).exists() else FileNotFoundError
        neither = f"table: {path} is neither a .npy file nor a zarr store"
        if Path(path).suffix == ".npz":
            raise error_type(f"{neither}: write an array of it with numpy.save(new_path, numpy.load(path)[name])") from None
        zarr_says = "" if Path(path).is_file() else f"; zarr says: {error}"
        raise error_type(f"{neither}: name one, or pass an array{zarr_says}") from None
    if _is_zarr(opened, "Group"):
        raise ValueError(f"table: {path} holds a zarr group: {_remedy(opened)} (the path of the store, then /, then the name)")
    return opened


@dataclass(frozen=True, slots=True)
class _ZarrTable:
    """A zarr array for `dask.array.from_array`. Each read checks that the array was neither deleted nor replaced.

    Without the check, zarr would return the fill value for all chunks of a deleted array.
    """

    array: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ndim: int

    def __getitem__(self, where: Any) -> Any:
        import zarr

        array = self.array
        try:
            elements = array[where]
        except Exception as error:
            error.add_note(f"table: elements {where} of the zarr array {array.store_path} could not be read")
            raise
        try:
            now = zarr.open_array(array.store, path=array.path, mode="r", zarr_format=array.metadata.zarr_format)
        except FileNotFoundError:
            raise FileNotFoundError(f"table: the zarr array {array.store_path} was deleted after the table was made") from None
        if (now.shape, now.dtype, now.chunks, now.shards) != (array.shape, array.dtype, array.chunks, array.shards):
            raise ValueError(f"table: the zarr array {array.store_path} has changed since the table was made: make it again")
        return elements


def _stored(array: Any) -> da.Array:
    chunks = array.shards or array.chunks
    meta = np.empty((0,) * array.ndim, array.dtype)
    return da.from_array(
        _ZarrTable(array, array.shape, array.dtype, array.ndim), chunks, name=f"from-zarr-{tokenize(array, chunks)}", meta=meta
    )


@dataclass(frozen=True, slots=True)
class NpyChunk:
    """A contiguous chunk of a .npy file. A call maps it into memory. `stamp`: the file's size and modification time."""

    path: Path
    stamp: tuple[int, int]
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str

    def __call__(self) -> NDArray[Any]:
        """Return the chunk as a memory-mapped array. Raise ValueError if the file has changed."""
        if _stamp(self.path) != self.stamp:
            raise ValueError(f"table: {self.path} has changed since the table was made from it: make the table again")
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, "F" if self.order == "F" else "C")
        return np.asarray(mapped)


def _from_npy(path: Path) -> da.Array:
    try:
        shape, fortran_order, dtype, offset = _header(path)
    except FileError as error:
        error_type = ValueError if path.exists() else FileNotFoundError
        raise error_type(f"table: {path} {error}") from None
    order = "F" if fortran_order and len(shape) > 1 else "C"
    chunks = _pieces(shape, dtype, order)
    stamp = _stamp(path)
    name = f"npy-{tokenize(path, stamp, offset, shape, dtype, order, chunks)}"
    graph: dict[Any, Task] = {}
    for cell in cells(chunks):
        key = (name, *cell.grid_index)
        graph[key] = Task(key, NpyChunk(path, stamp, offset, cell.shape, dtype, order))
        offset += math.prod(cell.shape) * dtype.itemsize
    return da.Array(graph, name, chunks, meta=np.empty((0,) * len(shape), dtype))


def _mapped(table: np.memmap[Any, Any]) -> da.Array:
    """Return a dask array of views of a memory-mapped file. `dask.array.from_array` would copy and hash the file."""
    values = np.asarray(table)
    chunks = _pieces(values.shape, values.dtype, "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C")
    file = Path(table.filename) if table.mode == "r" and table.filename is not None else None
    content = (file, _stamp(file)) if file is not None and file.exists() else uuid4().hex
    name = f"mapped-{tokenize(content, address_of(values), values.dtype, values.strides, chunks)}"
    graph = {(name, *cell.grid_index): values[cell.slices] for cell in cells(chunks)}
    return da.Array(graph, name, chunks, meta=np.empty((0,) * values.ndim, values.dtype))


def _pieces(shape: tuple[int, ...], dtype: np.dtype[Any], order: str) -> Chunks:
    """Return chunk sizes for a file. Only the slowest dimension is split, so that chunks are contiguous in the file."""
    if 0 in shape:
        return tuple((size,) for size in shape)
    size = config.get("array.chunk-size")
    size = int(size) if isinstance(size, float) and math.isfinite(size) else size  # Dask takes 1e8
    limit = byte_count("dask's setting array.chunk-size", size)
    slowest = 0 if order == "C" else len(shape) - 1
    spec = tuple("auto" if axis == slowest else -1 for axis in range(len(shape)))
    return normalize_chunks(spec, shape, limit, dtype=dtype)  # type: ignore[no-any-return]


def _header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read the header of a .npy file. Return shape, Fortran order, data type, and offset of the elements in bytes."""
    with open_regular(path) as (file, size):
        shape, fortran_order, dtype = read_header(file)
        offset = file.tell()
    if dtype.hasobject:
        raise FileError("holds pickled Python objects, which are never loaded; save an array of numbers")
    expected = math.prod(shape) * dtype.itemsize
    if size - offset != expected:
        raise FileError(
            f"has the wrong size: its header announces {expected} bytes ({dtype} of shape {shape}), but {size - offset} follow"
        )
    return shape, fortran_order, dtype, offset


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(f"table: {path} was deleted after the table was made") from None
    return status.st_size, status.st_mtime_ns
