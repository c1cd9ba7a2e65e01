"""GatherElements of a chunked table. The axis has one chunk, so each chunk of the output reads one chunk of the table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph
from dask.tokenize import tokenize

from dmlgather.backends import arrays
from dmlgather.calls.arguments import Fill, type_of
from dmlgather.calls.eager import execute
from dmlgather.dialects.problem import check_axis
from dmlgather.directml import BufferTensorDesc, DataType, GatherElementsOperatorDesc
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.distributed.axis_rules import AxisRule, axis_rule
from dmlgather.distributed.chunk_grid import FILE_CHUNKS, Chunks, cells, replace_axis
from dmlgather.distributed.chunk_operators import check, check_sizes, check_type, compiled, take
from dmlgather.distributed.routing import host_indices
from dmlgather.distributed.table_sources import ChunkLoads, as_table, check_chunks, loaded, result_array, synchronised
from dmlgather.distributed.tasks import empty_like
from dmlgather.onnx.problems.gather import GatherElements
from dmlgather.plan import OutOfBounds
from dmlgather.wording import alternatives


def gather_elements(
    table: Any, indices: Any, *, axis: int = 0, dialect: str = "directml", out_of_bounds: str | Fill | None = None
) -> da.Array:
    """Return output[c…] = table[c… with the coordinate of `axis` replaced by indices[c…]], as a dask array.

    `table`: shape [n…]; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store; one chunk along `axis`.
    `indices`: a NumPy, CuPy or dask array with the rank of the table. Except along `axis`, it has the sizes of the table;
    dialect "onnx" also takes smaller sizes. The indices are rechunked like the table, except along `axis`. Along `axis`, a dask
    array keeps its chunks, and each chunk of indices loads the chunk of the table again.
    `dialect`: "directml" (an index out of bounds is clamped) or "onnx" (it is an IndexError).
    `out_of_bounds`: what an index out of bounds does: "clamp", "raise", "promise" or a Fill. None means the dialect's rule.

    The result has the shape of `indices`, the table's data type, and chunks of the table's array library. Chunks of the table
    that no index reads are not loaded.

    Raise TypeError if `table` is none of the listed kinds, and for types that the dialect lacks. Raise ValueError for another
    dialect, an unknown out_of_bounds, wrong ranks or sizes, and an axis that is out of range or has several chunks. Raise
    DescriptorError for chunks that DirectML cannot describe. Under "raise", raise IndexError at once; for indices in a dask
    array, `compute` raises IndexError.

    >>> import dask.array as da
    >>> table = da.asarray([[10, 11, 12], [20, 21, 22]]).rechunk((1, 3))
    >>> dg.distributed.gather_elements(table, [[2, 0], [1, -1]], axis=1).compute()
    array([[12, 10],
           [21, 22]])
    """
    if dialect not in _DIALECTS:
        expected = alternatives(map(repr, _DIALECTS))
        raise ValueError(f"dialect is {dialect!r}, which has no gather of elements: expected {expected}")
    source = as_table(table)
    at = check_axis("axis", axis, source.ndim, "table")
    lazy = isinstance(indices, da.Array)
    if lazy:
        check_chunks("indices", indices)
    adopted: Any = indices if lazy else arrays.adopt(host_indices(indices) if isinstance(indices, Sequence) else indices)[0]
    rule = axis_rule(dialect, type_of("table", source), type_of("indices", adopted), at, out_of_bounds)
    check_shapes, run = _DIALECTS[dialect]
    check_shapes(source, adopted, at)
    if len(sizes := source.chunks[at]) > 1:
        shown = ", ".join(map(str, sizes[:4])) + ", …" * (len(sizes) > 4)
        raise ValueError(
            f"table has {len(sizes)} chunks along axis {at} (sizes {shown}), expected one, because an index may refer to any "
            f"of them: call table.rechunk({{{at}: -1}}) first ({FILE_CHUNKS.format(source.nbytes)}), or gather whole rows with "
            "distributed.gather"
        )
    if not lazy and (rule.out_of_bounds is OutOfBounds.RAISE or not rule.extent):
        rule.resolve(host_indices(adopted))
    chunks = _index_chunks(source.chunks, adopted, at)
    chunked = adopted.rechunk(chunks) if lazy else da.from_array(adopted, chunks=chunks, asarray=False)
    return result_array(_graph(source, chunked, rule, partial(run, rule, out_of_bounds)))


def _graph(table: da.Array, indices: da.Array, rule: AxisRule, run: Callable[[Any, Any], Any]) -> da.Array:
    name = f"gather-elements-{tokenize(table.name, indices.name, rule, run)}"
    sources = {cell.grid_index: replace_axis(cell.grid_index, rule.axis, 0) for cell in cells(indices.chunks) if not cell.empty}
    loads = ChunkLoads(table, set(sources.values()) if rule.extent else ())
    index_loads = ChunkLoads(indices, sources)
    tasks: dict[Any, Task] = {}
    for cell in cells(indices.chunks):
        key = (name, *cell.grid_index)
        if cell.grid_index in sources:
            payload = loads.of(sources[cell.grid_index]) if rule.extent else table._meta
            tasks[key] = Task(key, gather_chunk, run, rule, payload, index_loads.of(cell.grid_index), cell.first)
        else:
            tasks[key] = Task(key, empty_like, table._meta, cell.shape)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[*loads.graph, *index_loads.graph])
    return da.Array(graph, name, indices.chunks, meta=table._meta)


@synchronised
def gather_chunk(run: Callable[[Any, Any], Any], rule: AxisRule, payload: Any, indices: Any, first: tuple[int, ...]) -> Any:
    """Compute one chunk of the output. `first`: the coordinates of the first index in the whole index array.

    `payload`, `indices`: a chunk of the table and a chunk of the indices. Each is an array, or the `Load` that computes it.
    """
    chunk, index_chunk = loaded(payload), loaded(indices)
    with arrays.in_order([chunk, index_chunk]):
        array, device = arrays.adopt(chunk)
        check_type(array, rule.dtype)
        if not rule.extent:  # no operator has an axis of size 0
            rule.resolve(host_indices(index_chunk), first)
            empty = empty_like(chunk, replace_axis(index_chunk.shape, rule.axis, 0))
            return take(empty, rule.axis, np.zeros(index_chunk.shape[rule.axis], np.int64), rule.fill)
        adopted, home = arrays.adopt(index_chunk)
        try:
            return run(chunk, arrays.move(adopted, home, device))
        except IndexError:
            rule.resolve(host_indices(index_chunk), first)  # raises an error with the coordinates in the whole index array
            raise


def elements_descriptor(
    shape: Sequence[int], dtype: np.dtype[Any], indices: Sequence[int], index_dtype: np.dtype[Any], axis: int
) -> GatherElementsOperatorDesc:
    """Return the GATHER_ELEMENTS descriptor for one chunk. It is not validated."""
    check_sizes("DML_OPERATOR_GATHER_ELEMENTS", "InputTensor", shape)
    data_type, index_type = DataType[dtype.name.upper()], DataType[index_dtype.name.upper()]
    return GatherElementsOperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=shape),
        indices_tensor=BufferTensorDesc(data_type=index_type, sizes=indices),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=indices),
        axis=axis,
    )


def _axis_chunks(indices: Any, axis: int) -> tuple[int, ...]:
    return indices.chunks[axis] if isinstance(indices, da.Array) else (indices.shape[axis],)


def _index_chunks(chunks: Chunks, indices: Any, axis: int) -> Chunks:
    """Return the chunk sizes for the indices: like the table, except along `axis`.

    Chunks of the table beyond the end of a smaller index array are left out. `chunks`: the chunk sizes of the table.
    """
    cropped = [
        tuple(min(size, end - begin) for begin, size in zip(accumulate(sizes, initial=0), sizes, strict=False) if begin < end)
        for sizes, end in zip(chunks, indices.shape, strict=True)
    ]
    return replace_axis([sizes or (0,) for sizes in cropped], axis, _axis_chunks(indices, axis))


def _check_onnx(table: da.Array, indices: Any, axis: int) -> None:
    GatherElements(type_of("data", table), type_of("indices", indices), axis)


def _run_onnx(rule: AxisRule, out_of_bounds: str | Fill | None, chunk: Any, indices: Any) -> Any:
    problem = GatherElements(type_of("data", chunk), type_of("indices", indices), rule.axis)
    return execute(problem, (chunk, indices), out_of_bounds=out_of_bounds)


def _check_directml(table: da.Array, indices: Any, axis: int) -> None:
    shapes = f"table has shape {table.shape} and indices have {tuple(indices.shape)}"
    if indices.ndim != table.ndim:
        raise ValueError(f"{shapes}, but GATHER_ELEMENTS takes equal ranks: reshape the indices")
    if replace_axis(indices.shape, axis) != replace_axis(table.shape, axis):
        raise ValueError(
            f"{shapes}, but GATHER_ELEMENTS takes equal sizes along all axes other than {axis}: slice the table there, or use "
            "dialect 'onnx', which takes smaller indices"
        )
    largest = [max(sizes) for sizes in table.chunks]
    output = replace_axis(largest, axis, max(_axis_chunks(indices, axis)))
    if prod(output) > ELEMENT_LIMIT:
        raise ValueError(
            f"a chunk of the output has shape {output}, {prod(output)} elements, but a descriptor has at most "
            f"{ELEMENT_LIMIT}: cut the indices into smaller chunks along axis {axis} (dask.array.from_array), or rechunk "
            "the table"
        )
    if 0 not in largest and 0 not in output:
        check(elements_descriptor(largest, table.dtype, output, indices.dtype, axis))


def _run_directml(rule: AxisRule, _: Any, chunk: Any, indices: Any) -> Any:
    desc = elements_descriptor(chunk.shape, rule.dtype, indices.shape, indices.dtype, rule.axis)
    # One operator per thread, because raise_if_bad checks only the operator's last call.
    operator = compiled(desc, rule.out_of_bounds, rule.fill, threading.get_ident())
    result = operator(chunk, indices)
    operator.raise_if_bad()
    return result


_DIALECTS: dict[str, tuple[Callable[[da.Array, Any, int], None], Callable[..., Any]]] = {
    "directml": (_check_directml, _run_directml),
    "onnx": (_check_onnx, _run_onnx),
}
"""For each dialect, the function that checks shapes, and the function that gathers from one chunk."""
