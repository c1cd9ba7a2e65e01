"""What can be a chunked table, and how its chunks are loaded."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

import dask.array as da
import numpy as np
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph, execute_graph
from dask.array.core import normalize_chunks
from dask.sizeof import sizeof
from dask.tokenize import tokenize
from dask.utils import ensure_dict
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.addresses import address_of
from dmlgather.directml.dxdispatch.npy import read_header
from dmlgather.distributed.chunk_grid import Chunks, Place, cells
from dmlgather.files import FileError, open_regular
from dmlgather.host import give_memory_back
from dmlgather.package import missing_extra

P = ParamSpec("P")
T = TypeVar("T")

EMBEDDED_TASKS = 64
"""The most tasks of a chunk that another task runs itself; more of them are spread over the workers."""

EMBEDDED_BYTES = 2**20
"""The most bytes of arguments that are sent with a task; a larger chunk in memory is sent once, as a task of its own."""


@dataclass(frozen=True, slots=True)
class Load:
    """A chunk's own tasks, which a task that needs the chunk runs."""

    key: Any
    graph: Mapping[Any, GraphNode] = field(repr=False)

    def __call__(self) -> Any:
        """The chunk."""
        return execute_graph(dict(self.graph), keys={self.key})[self.key]

    def __dask_tokenize__(self) -> Any:
        return self.key


def loaded(payload: Any) -> Any:
    """The chunk, inside a task: a `Load` is run, and any other payload is the chunk itself.

    A chunk on a GPU may have been written on any stream, by another thread or a task of Dask's, and nobody tells on which. So the
    GPU is waited for.
    """
    chunk = payload() if isinstance(payload, Load) else payload
    arrays.wait(chunk, for_all=True)
    return chunk


def handed_on(task: Callable[P, T]) -> Callable[P, T]:
    """`task`, which ends when its result on a GPU is there, and what it was given has been read: Dask hands the result to other
    threads, and what it drops of the rest may be written again at once.
    """

    @wraps(task)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        result = task(*args, **kwargs)
        if result is not None:
            arrays.wait(result)
        return result

    return run


class _Concluded(da.Array):  # type: ignore[misc] # dask's classes are Any to mypy
    """A dask array whose `compute` gives what is there: dask joins chunks in a task of its own, on the stream of
    whatever thread that is, and does not wait.
    """

    refuse: Callable[[], None] | None = None
    """Raises where this process may not have the memory that `compute` needs."""

    def __dask_postcompute__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self.refuse is not None:
            self.refuse()
        return _joined, super().__dask_postcompute__()

    def __dask_postpersist__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rebuild, arguments = super().__dask_postpersist__()
        return _persisted, (rebuild, *arguments)


@handed_on
def _joined(chunks: Any, join: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    give_memory_back()  # what tasks have freed: the result is there twice now
    return join(chunks, *arguments)


def _persisted(graph: Any, rebuild: Callable[..., da.Array], *arguments: Any, **named: Any) -> da.Array:
    return concluded(rebuild(graph, *arguments, **named))


def concluded(array: da.Array, refuse: Callable[[], None] | None = None) -> da.Array:
    """What a function of this room returns. The tasks that make the chunks are `handed_on`. refuse: is called by `compute`."""
    found = _Concluded(array.dask, array.name, array.chunks, meta=array._meta)
    found.refuse = refuse
    return found


class ChunkLoads:
    """The chunks of an array, each as an argument for the tasks that need it."""

    def __init__(self, array: da.Array, places: Iterable[Place]) -> None:
        """places: of the chunks that will be asked for."""
        self._array = array
        self._loads = _own_loads(array, [(array.name, *place) for place in places])
        self._depends = False

    def of(self, place: Place) -> Load | TaskRef:
        """What a task takes in the place of a chunk; inside the task, `loaded` gives the chunk."""
        key = (self._array.name, *place)
        if key in self._loads:
            return self._loads[key]
        self._depends = True
        return TaskRef(key)

    @property
    def graph(self) -> tuple[da.Array, ...]:
        """The array if `of` has returned references to its tasks: a dependency for `HighLevelGraph.from_collections`."""
        return (self._array,) if self._depends else ()


def _own_loads(array: da.Array, keys: list[Any]) -> dict[Any, Load]:
    """How chunks are loaded by the tasks that need them, by key; a chunk whose tasks others need as well is left out."""
    if not keys:
        return {}
    graph = convert_legacy_graph(ensure_dict(array.__dask_optimize__(array.__dask_graph__(), keys)))
    reached = {key: _reached(graph, key) for key in keys}
    users = Counter(name for names in reached.values() if names is not None for name in names)
    return {
        key: Load(key, {name: graph[name] for name in names})
        for key, names in reached.items()
        if names is not None and all(users[name] == 1 or isinstance(graph[name], DataNode) for name in names)
    }


def _reached(graph: Mapping[Any, GraphNode], key: Any) -> list[Any] | None:
    """The names of all tasks that make a chunk; None if they are too many or too large, or if one runs elsewhere already."""
    names: list[Any] = []
    waiting, seen, bytes_ = [key], {key}, 0
    while waiting:
        name = waiting.pop()
        node = graph.get(name)
        if node is None or len(names) == EMBEDDED_TASKS:
            return None
        bytes_ += _bytes_of(node)
        if bytes_ > EMBEDDED_BYTES:
            return None
        names.append(name)
        new = [needed for needed in node.dependencies if needed not in seen]
        seen.update(new)
        waiting += new
    return names


def _bytes_of(node: GraphNode) -> int:
    """Bytes of a task's arguments, without references to other tasks; of all its parts where it is a fused task."""
    if isinstance(node, DataNode):
        in_memory = node.value.nbytes if hasattr(node.value, "__dlpack__") and hasattr(node.value, "nbytes") else 0
        return max(int(sizeof(node.value)), int(in_memory))
    if isinstance(node, Alias):
        return 0
    if isinstance(node, Task) and node.has_subgraph():
        return sum(map(_bytes_of, node.args[0].values()))
    return int(sizeof(node.args)) + int(sizeof(node.kwargs)) if isinstance(node, Task) else 0


# Tables from what a caller passes: a dask, zarr or NumPy array, or the path of a .npy file or of a zarr store.


def as_table(table: Any) -> da.Array:
    """`table` as a dask array of known chunks, shape [lead…, axis, trail…]; only headers are read.

    table: a dask array (as it is); a zarr array, chunked as it is stored (by shards where there are any); a NumPy array, of which
    a copy in chunks of dask's `array.chunk-size` becomes part of the task graph, or the array itself where it is a numpy.memmap;
    the path of a .npy file, memory-mapped in the tasks and cut into chunks of that size, each of which is one piece of the file;
    the path or URL of a zarr array. Workers open the same path: they must have access to it.

    Raises TypeError for anything else, ValueError for chunks of unknown size and for a file that holds no such array,
    FileNotFoundError.
    """
    if isinstance(table, str | os.PathLike):
        table = _opened(os.fspath(table))
    if _is_zarr(table, "Array"):
        table = _stored(table)
    if isinstance(table, np.memmap):
        table = _mapped(table)
    if isinstance(table, np.ndarray):
        if table.dtype.hasobject:
            raise TypeError(f"the table has type {table.dtype}: objects lie outside of their array and are not moved")
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
    """ValueError for chunks of unknown size. Those on a GPU are there then: dask's own tasks, which cut and join them, wait for
    nobody who wrote them.
    """
    if any(math.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"{name} has chunks of unknown size ({array.chunks}), which decide what each task takes: call "
            f"{name}.compute_chunk_sizes() first"
        )
    arrays.wait(array._meta, for_all=True)


def _remedy(table: Any) -> str:
    if _is_zarr(table, "Group"):
        return f"name one of the group's arrays, {sorted(table.array_keys())}"
    if hasattr(table, "__dlpack__"):
        return "an array in memory is gathered on one device, or chunked with dask.array.from_array(table, chunks=…)"
    return "whatever dask reads becomes one with dask.array.from_array or dask.array.from_delayed"


def _is_zarr(table: Any, name: str) -> bool:
    kind = type(table)
    return kind.__module__.partition(".")[0] == "zarr" and kind.__name__ == name


def _name_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _opened(path: str) -> Any:
    """The dask array of a .npy file, or the zarr array of a store."""
    if not path:
        raise ValueError("table is '', expected the path of a .npy file or of a zarr store, or an array")
    if "://" not in path and Path(path).suffix == ".npy" and not Path(path).is_dir():
        return _from_npy(Path(path).absolute())
    path = path if "://" in path else str(Path(path).absolute())
    try:
        import zarr
    except ModuleNotFoundError as error:
        raise missing_extra(f"table is the path {path!r}, which is no .npy file: a zarr store", "dask", error) from None
    try:
        found = zarr.open(path, mode="r")
    except (FileNotFoundError, ValueError, OSError) as error:
        kind = ValueError if "://" in path or Path(path).exists() else FileNotFoundError
        message = f"table: {path} is neither a .npy file nor a zarr store: name one, or pass an array; zarr says: {error}"
        raise kind(message) from None
    if _is_zarr(found, "Group"):
        raise ValueError(f"table: {path} holds a zarr group: {_remedy(found)} (the path of the store, then /, then the name)")
    return found


@dataclass(frozen=True, slots=True)
class _ZarrTable:
    """A zarr array, as dask reads one. zarr gives the fill value for chunks that a store does not hold, and so for all of an
    array that is gone: whether it is there, its metadata tell.
    """

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return self.array.ndim  # type: ignore[no-any-return]

    def __getitem__(self, where: Any) -> Any:
        """Return elements. FileNotFoundError where the array is gone, ValueError where another one is in its place."""
        import zarr

        found, array = self.array[where], self.array
        try:
            now = zarr.open_array(array.store, path=array.path, mode="r", zarr_format=array.metadata.zarr_format)
        except FileNotFoundError:
            raise FileNotFoundError(f"table: the zarr array {array.store_path} is gone since the table was made") from None
        if (now.shape, now.dtype, now.chunks, now.shards) != (array.shape, array.dtype, array.chunks, array.shards):
            raise ValueError(f"table: the zarr array {array.store_path} has changed since the table was made: make it again")
        return found


def _stored(array: Any) -> da.Array:
    chunks = array.shards or array.chunks
    meta = np.empty((0,) * array.ndim, array.dtype)
    return da.from_array(_ZarrTable(array), chunks, name=f"from-zarr-{tokenize(array, chunks)}", meta=meta)


@dataclass(frozen=True, slots=True)
class NpyChunk:
    """Elements of a .npy file that lie one after the other; called in a task, it reads them.

    stamp: the file's size in bytes and time of change when the table was made. offset: bytes. shape: of the chunk. order: "C" or
    "F".
    """

    path: Path
    stamp: tuple[int, int]
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str

    def __call__(self) -> NDArray[Any]:
        """The chunk, memory-mapped, so that only what is taken of it is read. ValueError when the file has changed."""
        if _stamp(self.path) != self.stamp:
            raise ValueError(f"table: {self.path} has changed since the table was made of it: make the table again")
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, "F" if self.order == "F" else "C")
        return np.asarray(mapped)


def _from_npy(path: Path) -> da.Array:
    try:
        shape, fortran_order, dtype, offset = _header(path)
    except FileError as error:
        kind = ValueError if path.exists() else FileNotFoundError
        raise kind(f"table: {path} {error}") from None
    order = "F" if fortran_order and len(shape) > 1 else "C"
    chunks = _pieces(shape, dtype, order)
    stamp = _stamp(path)
    name = f"npy-{tokenize(path, stamp, offset, shape, dtype, order, chunks)}"
    graph: dict[Any, Task] = {}
    for cell in cells(chunks):  # in the order of the file
        key = (name, *cell.place)
        graph[key] = Task(key, NpyChunk(path, stamp, offset, cell.shape, dtype, order))
        offset += math.prod(cell.shape) * dtype.itemsize
    return da.Array(graph, name, chunks, meta=np.empty((0,) * len(shape), dtype))


def _mapped(table: np.memmap[Any, Any]) -> da.Array:
    """Return a table of views: `dask.array.from_array` would copy all of the file into memory, and read it for the name."""
    values = np.asarray(table)
    chunks = _pieces(values.shape, values.dtype, "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C")
    file = Path(table.filename) if table.mode == "r" and table.filename is not None else None
    content = (file, _stamp(file)) if file is not None and file.exists() else uuid4().hex
    name = f"mapped-{tokenize(content, address_of(values), values.dtype, values.strides, chunks)}"
    graph = {(name, *cell.place): values[cell.slices] for cell in cells(chunks)}
    return da.Array(graph, name, chunks, meta=np.empty((0,) * values.ndim, values.dtype))


def _pieces(shape: tuple[int, ...], dtype: np.dtype[Any], order: str) -> Chunks:
    """Return chunks that are cut along the dimension that moves slowest, so that a chunk's elements lie one after the other."""
    if 0 in shape:
        return tuple((size,) for size in shape)
    slowest = 0 if order == "C" else len(shape) - 1
    wanted = tuple("auto" if axis == slowest else -1 for axis in range(len(shape)))
    return normalize_chunks(wanted, shape, dtype=dtype)  # type: ignore[no-any-return]


def _header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether the first dimension moves fastest, type, and where the elements begin, bytes. FileError."""
    with open_regular(path) as (file, size):
        shape, fortran_order, dtype = read_header(file)
        offset = file.tell()
    if dtype.hasobject:
        raise FileError("holds pickled Python objects, which are never loaded; save an array of numbers")
    expected = math.prod(shape) * dtype.itemsize
    if size - offset != expected:
        raise FileError(
            f"has the wrong size: its header says {dtype} of shape {shape}, {expected} bytes, and {size - offset} follow"
        )
    return shape, fortran_order, dtype, offset


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
