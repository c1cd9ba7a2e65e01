"""Slices a chunked table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph
from dask.tokenize import tokenize

from dmlgather.backends import arrays
from dmlgather.calls.arguments import slice_bounds
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.windows import Window
from dmlgather.directml import BufferTensorDesc, DataType, OperatorDesc, Slice1OperatorDesc, lower
from dmlgather.distributed.chunk_grid import cells
from dmlgather.distributed.chunk_operators import as_words, check, check_sizes, check_type, compiled, word_of
from dmlgather.distributed.table_sources import ChunkLoads, as_table, loaded, result_array, synchronised
from dmlgather.distributed.tasks import empty_like
from dmlgather.onnx.problems.slice import Slice

WIDEST_STEP = 2**31 - 1
"""Largest absolute value of a step in a SLICE1 descriptor."""


@dataclass(frozen=True, slots=True)
class ChunkWindow:
    """The elements of a slice that lie in one chunk, along one axis. Positions in `window` count from the start of the chunk."""

    chunk: int
    window: Window


def chunk_windows(window: Window, sizes: Sequence[int]) -> tuple[ChunkWindow, ...]:
    """Cut a slice along one axis at the borders of chunks. Return the pieces in the order of the result.

    If the step exceeds WIDEST_STEP, each piece has one element. A piece of one element gets step 1.
    """
    borders = list(enumerate(pairwise((0, *accumulate(sizes)))))
    windows = []
    for chunk, (begin, end) in borders if window.step > 0 else reversed(borders):
        steps = _steps_inside(window, begin, end)
        count = len(steps) if abs(window.step) <= WIDEST_STEP else 1
        for first in steps[:: max(count, 1)]:
            start = window.start + first * window.step - begin
            windows.append(ChunkWindow(chunk, Window(start, count, window.step if count > 1 else 1)))
    return tuple(windows)


def windows_of(desc: OperatorDesc) -> tuple[Window, ...]:
    """Return the windows that a valid SLICE or SLICE1 descriptor copies along each dimension of its input."""
    input_tensor = desc.tensor("input_tensor")
    packed = type(input_tensor)(data_type=input_tensor.data_type, sizes=input_tensor.sizes).layout()
    plan = lower(desc, {"input_tensor": packed})
    starts = packed.position(plan.in_offset)
    assert starts is not None
    steps = [in_stride // stride for in_stride, stride in zip(plan.in_strides, packed.strides, strict=True)]
    return tuple(map(Window, starts, plan.shape, steps))


def _steps_inside(window: Window, begin: int, end: int) -> range:
    """Return all k from 0 to count - 1 with begin <= start + step · k < end."""
    if window.step > 0:
        first, stop = (-((window.start - border) // window.step) for border in (begin, end))
    else:
        first, stop = ((window.start - border) // -window.step + 1 for border in (end, begin))
    return range(max(first, 0), min(stop, window.count))


def slice(table: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> da.Array:  # noqa: A001 - the operator's name
    """Return table[start:end:step, …] as a dask array. As in ONNX, starts and ends are clamped to the axis.

    `table`: shape [n…]; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store.
    `starts`, `ends`, `axes`, `steps`: integers, as sequences or one-dimensional arrays in host memory, all of one length.
    `axes`: the axes to slice; default 0, 1, …. Negative axes count from the end.
    `steps`: default 1. A negative step goes backwards.

    The result has the table's data type, and chunks of the table's array library. Each task loads one chunk of the table and
    cuts a chunk of the result out of it, so no data moves between workers. Chunks outside the slice are not loaded.

    Raise TypeError if `table` is none of the listed kinds, for elements that are no numbers, and if starts, ends, axes or steps
    are on a GPU. Raise ValueError for different lengths, axes out of range, repeated axes, and a step of 0. Raise
    DescriptorError for chunks that DirectML cannot describe.

    >>> import dask.array as da
    >>> dg.distributed.slice(da.arange(10, chunks=4), starts=[-1], ends=[0], steps=[-3]).compute()
    array([9, 6, 3])
    """
    array = as_table(table)
    data = TensorType(array.shape, np.dtype(np.uint8))  # the windows do not depend on the type
    return result_array(sliced(array, Slice(data, **slice_bounds(starts, ends, axes, steps)).windows))


def sliced(table: da.Array, windows: Sequence[Window]) -> da.Array:
    """Return a slice of a table as a dask array. `windows`: one per dimension."""
    axis_windows = [chunk_windows(window, sizes) for window, sizes in zip(windows, table.chunks, strict=True)]
    word_of(table.dtype)  # raises TypeError for strings and objects
    if table.ndim and all(axis_windows):  # a scalar needs no operator
        largest = [max(sizes[part.chunk] for part in parts) for parts, sizes in zip(axis_windows, table.chunks, strict=True)]
        check(slice_descriptor(largest, table.dtype, [Window.whole(size) for size in largest]))
    chunks = tuple(tuple(part.window.count for part in parts) or (0,) for parts in axis_windows)
    name = f"slice-{tokenize(table.name, tuple(windows))}"
    keys = {(name, *cell.grid_index): cell.shape for cell in cells(chunks)}
    if not all(axis_windows):
        empty = {key: Task(key, empty_like, table._meta, shape) for key, shape in keys.items()}
        return da.Array(empty, name, chunks, meta=table._meta)
    grid_indices = [tuple(part.chunk for part in parts) for parts in product(*axis_windows)]
    loads = ChunkLoads(table, grid_indices)
    tasks: dict[Any, Task] = {}
    for key, grid_index, parts in zip(keys, grid_indices, product(*axis_windows), strict=True):
        tasks[key] = Task(key, cut, loads.of(grid_index), tuple(part.window for part in parts), table.dtype)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=loads.graph)
    return da.Array(graph, name, chunks, meta=table._meta)


@synchronised
def cut(payload: Any, windows: tuple[Window, ...], dtype: np.dtype[Any]) -> Any:
    """Copy a slice of one chunk, as an array of the chunk's library. `payload`: the chunk, or the `Load` that computes it."""
    chunk = loaded(payload)
    with arrays.in_order([chunk]):
        array, _ = arrays.adopt(chunk)
        check_type(array, dtype)
        whole = tuple(Window.whole(size) for size in array.shape)
        if windows == whole and (not windows or getattr(array.flags, "writeable", True)):
            return chunk  # a read-only chunk is copied, because a mapped file may change later
        operator = compiled(slice_descriptor(array.shape, dtype, windows))
        moved = operator(as_words(array, *word_of(dtype)))
        return arrays.hand_back(moved.view(dtype).reshape([window.count for window in windows]), chunk)


def slice_descriptor(shape: Sequence[int], dtype: np.dtype[Any], windows: Sequence[Window]) -> Slice1OperatorDesc:
    """Return the SLICE1 descriptor that copies a slice of a chunk. It is not validated. No window may be empty."""
    word, parts = word_of(dtype)
    word_windows = [*windows, *(Window.whole(size) for size in parts)]
    check_sizes("DML_OPERATOR_SLICE1", "InputTensor", shape)
    spans = [(window.count - 1) * window.step for window in word_windows]
    data_type = DataType[word.name.upper()]
    return Slice1OperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=(*shape, *parts)),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=[window.count for window in word_windows]),
        input_window_offsets=[window.start + min(span, 0) for window, span in zip(word_windows, spans, strict=True)],
        input_window_sizes=[1 + abs(span) for span in spans],
        input_window_strides=[window.step for window in word_windows],
    )
