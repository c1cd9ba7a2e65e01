"""Slices of chunked arrays: each chunk gives its part of the window, in one task that loads and cuts it. Nothing is shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph
from dask.tokenize import tokenize

from dmlgather.backends import arrays
from dmlgather.dialects.onnx.slicing import Slice, Window
from dmlgather.dialects.problem import TensorType
from dmlgather.directml import BufferTensorDesc, DataType, Slice1OperatorDesc
from dmlgather.distributed.chunk_loads import chunk_loads, loaded
from dmlgather.distributed.chunk_operators import OPERATORS_KEPT, carried, check, check_sizes, check_type, words
from dmlgather.distributed.table_sources import as_table
from dmlgather.distributed.tasks import empty_like
from dmlgather.distributed.windows import Part, is_whole, parts
from dmlgather.onnx import bounds
from dmlgather.operator import CompiledOperator, compile  # noqa: A004 - the word users know


def slice(table: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> da.Array:  # noqa: A001 - the operator's name
    """output[c…] = table[start + step · c…], per dimension, with ONNX's clamping of starts and ends.

    table: shape [n…]; a dask array, a zarr array, or the path of a .npy file or a zarr store. starts, ends, axes, steps: equally
    many integers each, as sequences or as one-dimensional arrays in host memory. axes: default 0, 1, …; negative ones count
    from the end. steps: default 1; negative to walk backwards.

    Returns a dask array of the table's type and kind of chunks, each of which is cut out of one chunk of the table; chunks that
    give nothing are not loaded.

    Raises TypeError for what is no table, for elements that are no numbers, and for bounds on a GPU; ValueError for different
    lengths, axes out of range or named twice, and a step of 0; DescriptorError for chunks that DirectML cannot describe.
    """
    array = as_table(table)
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    shape = TensorType(array.shape, np.dtype(np.uint8))  # what is taken depends on no type
    problem = Slice(shape, **{name: bounds(name, values) for name, values in given.items()})
    return sliced(array, problem.windows)


def sliced(table: da.Array, windows: Sequence[Window]) -> da.Array:
    """The windows of a table of known chunks, one per dimension, inside it. TypeError and DescriptorError as `slice`."""
    taken = [parts(window, sizes) for window, sizes in zip(windows, table.chunks, strict=True)]
    _check_chunks(table, taken)
    chunks = tuple(tuple(part.window.count for part in each) or (0,) for each in taken)
    name = f"slice-{tokenize(table.name, tuple(windows))}"
    if not all(taken):
        return _empty(table, name, chunks)
    loads = chunk_loads(table, [tuple(part.chunk for part in each) for each in product(*taken)])
    tasks: dict[Any, Task] = {}
    for place in product(*(range(len(each)) for each in taken)):
        here = [each[number] for each, number in zip(taken, place, strict=True)]
        payload, _ = loads.of(tuple(part.chunk for part in here))
        tasks[name, *place] = Task((name, *place), cut, payload, tuple(part.window for part in here), table.dtype)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=loads.graph)
    return da.Array(graph, name, chunks, meta=table._meta)


def cut(payload: Any, windows: tuple[Window, ...], dtype: np.dtype[Any]) -> Any:
    """The windows of a chunk, which is loaded here where it has no task of its own, as the same kind of array.

    windows: one per dimension, with at least one element each. TypeError for a chunk of another type.
    """
    chunk = loaded(payload)
    array, _ = arrays.adopt(chunk)
    check_type(array, dtype)
    if all(map(is_whole, windows, array.shape)) and (not windows or getattr(array.flags, "writeable", True)):
        return chunk  # unless it is read-only, which memory is that may change behind its back, such as a file's
    operator = _operator(descriptor(array.shape, dtype, windows))
    moved = operator(words(array, *carried(dtype)))
    return arrays.hand_back(moved.view(dtype).reshape([window.count for window in windows]), chunk)


def descriptor(shape: Sequence[int], dtype: np.dtype[Any], windows: Sequence[Window]) -> Slice1OperatorDesc:
    """The SLICE1 that takes the windows of a chunk of `shape`, of words as `moving.descriptor` describes them.

    windows: one per dimension, with at least one element each. Whether it is a valid one is `moving.check`'s matter,
    but DescriptorError for a size that does not fit into the 32 bits that a descriptor has for it.
    """
    word, parts_each = carried(dtype)
    every = [*windows, *(Window(0, size, 1) for size in parts_each)]
    check_sizes("InputTensor", shape, "DML_OPERATOR_SLICE1")
    spans = [(window.count - 1) * window.step for window in every]
    data_type = DataType[word.name.upper()]
    return Slice1OperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=(*shape, *parts_each)),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=[window.count for window in every]),
        input_window_offsets=[window.start + min(span, 0) for window, span in zip(every, spans, strict=True)],
        input_window_sizes=[1 + abs(span) for span in spans],
        input_window_strides=[window.step for window in every],
    )


@lru_cache(OPERATORS_KEPT)
def _operator(desc: Slice1OperatorDesc) -> CompiledOperator:
    return compile(desc)


def _check_chunks(table: da.Array, taken: Sequence[Sequence[Part]]) -> None:
    """TypeError for elements that do not move, DescriptorError for chunks that DirectML cannot describe."""
    carried(table.dtype)
    if table.ndim and all(taken):  # a scalar has no window but itself
        largest = [max(sizes[part.chunk] for part in each) for each, sizes in zip(taken, table.chunks, strict=True)]
        check(descriptor(largest, table.dtype, [Window(0, size, 1) for size in largest]))


def _empty(table: da.Array, name: str, chunks: tuple[tuple[int, ...], ...]) -> da.Array:
    """An array without elements, of the table's kind."""
    places = product(*(range(len(sizes)) for sizes in chunks))
    shapes = product(*chunks)
    tasks: dict[Any, Task] = {
        (name, *place): Task((name, *place), empty_like, table._meta, shape) for place, shape in zip(places, shapes, strict=True)
    }
    return da.Array(tasks, name, chunks, meta=table._meta)
