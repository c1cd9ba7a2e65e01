"""Slices of a chunked table, and the windows of DirectML's slices."""

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
from dmlgather.distributed.table_sources import ChunkLoads, as_table, concluded, handed_on, loaded
from dmlgather.distributed.tasks import empty_like
from dmlgather.onnx.problems.slice import Slice

WIDEST_STEP = 2**31 - 1
"""What SLICE1's strides hold, forwards and backwards."""


@dataclass(frozen=True, slots=True)
class ChunkWindow:
    """What one chunk gives of a window along one axis: the chunk's number, and the window in that chunk's own elements."""

    chunk: int
    window: Window


def chunk_windows(window: Window, sizes: Sequence[int]) -> tuple[ChunkWindow, ...]:
    """The window's elements chunk by chunk, in the window's order: the last chunk first where the step is negative.

    window: inside the axis, which the chunks make up, of these sizes in elements. Chunks without an element are left out. A step
    that is wider than `WIDEST_STEP` is taken element by element; a single element has step 1.
    """
    borders = list(enumerate(pairwise((0, *accumulate(sizes)))))
    found = []
    for chunk, (begin, end) in borders if window.step > 0 else reversed(borders):
        taken = _steps_inside(window, begin, end)
        count = len(taken) if abs(window.step) <= WIDEST_STEP else 1
        for first in taken[:: max(count, 1)]:
            start = window.start + first * window.step - begin
            found.append(ChunkWindow(chunk, Window(start, count, window.step if count > 1 else 1)))
    return tuple(found)


def windows_of(desc: OperatorDesc) -> tuple[Window, ...]:
    """What a SLICE or SLICE1 descriptor takes of each dimension of its input, as its lowering says.

    desc: without findings of severity ERROR.
    """
    input_tensor = desc.tensor("input_tensor")
    packed = type(input_tensor)(data_type=input_tensor.data_type, sizes=input_tensor.sizes).layout()
    plan = lower(desc, {"input_tensor": packed})
    starts = packed.position(plan.in_offset)
    assert starts is not None
    steps = [walk // stride for walk, stride in zip(plan.in_strides, packed.strides, strict=True)]
    return tuple(Window(*each) for each in zip(starts, plan.shape, steps, strict=True))


def _steps_inside(window: Window, begin: int, end: int) -> range:
    """The steps k, of the window's 0 … count - 1, with begin <= start + step · k < end."""
    if window.step > 0:
        first, stop = (-((window.start - border) // window.step) for border in (begin, end))
    else:
        first, stop = ((window.start - border) // -window.step + 1 for border in (end, begin))
    return range(max(first, 0), min(stop, window.count))


# Slice of a chunked array: one task loads one chunk and cuts an output chunk out of it. Nothing moves between workers.


def slice(table: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> da.Array:  # noqa: A001 - the operator's name
    """output[c…] = table[start + step · c…], per dimension, with ONNX's clamping of starts and ends.

    table: shape [n…]; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store. starts, ends, axes, steps: equally
    many integers each, as sequences or as one-dimensional arrays in host memory. axes: default 0, 1, …; negative ones count
    from the end. steps: default 1; negative to walk backwards.

    Returns a dask array of the table's type and kind of chunks, each of which is cut out of one chunk of the table; chunks that
    give nothing are not loaded.

    Raises TypeError for what is no table, for elements that are no numbers, and for bounds on a GPU; ValueError for different
    lengths, axes out of range or named twice, and a step of 0; DescriptorError for chunks that DirectML cannot describe.

    >>> import dask.array as da
    >>> dg.distributed.slice(da.arange(10, chunks=4), starts=[-1], ends=[0], steps=[-3]).compute()
    array([9, 6, 3])
    """
    array = as_table(table)
    data = TensorType(array.shape, np.dtype(np.uint8))  # what is taken depends on no type
    return concluded(sliced(array, Slice(data, **slice_bounds(starts, ends, axes, steps)).windows))


def sliced(table: da.Array, windows: Sequence[Window]) -> da.Array:
    """The windows of a table of known chunks, one per dimension, inside it. TypeError and DescriptorError as `slice`."""
    taken = [chunk_windows(window, sizes) for window, sizes in zip(windows, table.chunks, strict=True)]
    _check_chunks(table, taken)
    chunks = tuple(tuple(each.window.count for each in along) or (0,) for along in taken)
    name = f"slice-{tokenize(table.name, tuple(windows))}"
    keys = {(name, *cell.place): cell.shape for cell in cells(chunks)}
    if not all(taken):
        empty = {key: Task(key, empty_like, table._meta, shape) for key, shape in keys.items()}
        return da.Array(empty, name, chunks, meta=table._meta)
    places = [tuple(each.chunk for each in parts) for parts in product(*taken)]
    loads = ChunkLoads(table, places)
    tasks: dict[Any, Task] = {}
    for key, place, parts in zip(keys, places, product(*taken), strict=True):
        tasks[key] = Task(key, cut, loads.of(place), tuple(each.window for each in parts), table.dtype)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=loads.graph)
    return da.Array(graph, name, chunks, meta=table._meta)


@handed_on
def cut(payload: Any, windows: tuple[Window, ...], dtype: np.dtype[Any]) -> Any:
    """The windows of a chunk, which is loaded here where it has no task of its own, as the same kind of array.

    windows: one per dimension, with at least one element each. TypeError for a chunk of another type.
    """
    chunk = loaded(payload)
    with arrays.in_order([chunk]):
        array, _ = arrays.adopt(chunk)
        check_type(array, dtype)
        whole = tuple(Window.whole(size) for size in array.shape)
        if windows == whole and (not windows or getattr(array.flags, "writeable", True)):
            return chunk  # unless it is read-only: such memory may change later, as a file's does
        operator = compiled(slice_descriptor(array.shape, dtype, windows))
        moved = operator(as_words(array, *word_of(dtype)))
        return arrays.hand_back(moved.view(dtype).reshape([window.count for window in windows]), chunk)


def slice_descriptor(shape: Sequence[int], dtype: np.dtype[Any], windows: Sequence[Window]) -> Slice1OperatorDesc:
    """The SLICE1 that takes the windows of a chunk of `shape`, of words as `word_of` says; `check` says whether it is valid.

    windows: one per dimension, with at least one element each. DescriptorError for a size that does not fit into a descriptor's
    32 bits.
    """
    word, parts = word_of(dtype)
    every = [*windows, *(Window.whole(size) for size in parts)]
    check_sizes("DML_OPERATOR_SLICE1", "InputTensor", shape)
    spans = [(window.count - 1) * window.step for window in every]
    data_type = DataType[word.name.upper()]
    return Slice1OperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=(*shape, *parts)),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=[window.count for window in every]),
        input_window_offsets=[window.start + min(span, 0) for window, span in zip(every, spans, strict=True)],
        input_window_sizes=[1 + abs(span) for span in spans],
        input_window_strides=[window.step for window in every],
    )


def _check_chunks(table: da.Array, taken: Sequence[Sequence[ChunkWindow]]) -> None:
    """TypeError for elements that do not move, DescriptorError for chunks that DirectML cannot describe."""
    word_of(table.dtype)
    if table.ndim and all(taken):  # a scalar has no window but itself
        largest = [max(sizes[each.chunk] for each in along) for along, sizes in zip(taken, table.chunks, strict=True)]
        check(slice_descriptor(largest, table.dtype, [Window.whole(size) for size in largest]))
