"""GatherElements of a chunked table, along an axis that is one chunk: each chunk of the output reads one chunk of the table."""

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
from dmlgather.distributed.table_sources import ChunkLoads, as_table, check_chunks, concluded, handed_on, loaded
from dmlgather.distributed.tasks import empty_like
from dmlgather.onnx.problems.gather import GatherElements
from dmlgather.plan import OutOfBounds
from dmlgather.wording import alternatives


def gather_elements(
    table: Any, indices: Any, *, axis: int = 0, dialect: str = "directml", out_of_bounds: str | Fill | None = None
) -> da.Array:
    """output[c…] = table[c… with the one at `axis` replaced by indices[c…]].

    table: shape [n…]; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store; in one chunk along `axis`.
    indices: NumPy, CuPy or dask, of the same rank and, off the axis, of the same sizes as the table; dialect "onnx" also takes
    smaller ones there. Off the axis they are cut as the table is; along it, a dask array keeps its chunks, each of which loads
    the table's again. dialect: "directml" (an index out of bounds is clamped) or "onnx" (it is an IndexError). out_of_bounds:
    "clamp", "raise", "promise" or a Fill instead of the dialect's own.

    Returns a dask array of the shape of `indices` and the table's type, with the table's kind of chunks. Chunks of the table
    of which no element is wanted are not loaded.

    Raises TypeError for what is no table and types that the dialect lacks; ValueError for another dialect, an axis that is out of
    range or in several chunks, another rank or other sizes, and an unknown policy; DescriptorError for chunks that DirectML
    cannot describe; under "raise" IndexError, at once, or when it is computed where the indices are a dask array.

    >>> import dask.array as da
    >>> table = da.asarray([[10, 11, 12], [20, 21, 22]]).rechunk((1, 3))
    >>> dg.distributed.gather_elements(table, [[2, 0], [1, -1]], axis=1).compute()
    array([[12, 10],
           [21, 22]])
    """
    if dialect not in _DIALECTS:
        known = alternatives(map(repr, _DIALECTS))
        raise ValueError(f"dialect is {dialect!r}, which has no gather of elements: expected {known}")
    source = as_table(table)
    at = check_axis("axis", axis, source.ndim, "table")
    lazy = isinstance(indices, da.Array)
    if lazy:
        check_chunks("indices", indices)
    given: Any = indices if lazy else arrays.adopt(host_indices(indices) if isinstance(indices, Sequence) else indices)[0]
    rule = axis_rule(dialect, type_of("table", source), type_of("indices", given), at, out_of_bounds)
    check_shapes, run = _DIALECTS[dialect]
    check_shapes(source, given, at)
    if len(sizes := source.chunks[at]) > 1:
        shown = ", ".join(map(str, sizes[:4])) + ", …" * (len(sizes) > 4)
        raise ValueError(
            f"table has {len(sizes)} chunks along axis {at} (sizes {shown}), and elements of any of them may be wanted "
            f"anywhere: expected one; call table.rechunk({{{at}: -1}}) first ({FILE_CHUNKS.format(source.nbytes)}), or gather "
            "whole rows with distributed.gather"
        )
    if not lazy and (rule.out_of_bounds is OutOfBounds.RAISE or not rule.extent):
        rule.resolve(host_indices(given))
    chunks = _index_chunks(source.chunks, given, at)
    given = given.rechunk(chunks) if lazy else da.from_array(given, chunks=chunks, asarray=False)
    return concluded(_graph(source, given, rule, partial(run, rule, out_of_bounds)))


def _graph(table: da.Array, indices: da.Array, rule: AxisRule, run: Callable[[Any, Any], Any]) -> da.Array:
    name = f"gather-elements-{tokenize(table.name, indices.name, rule, run)}"
    source = {cell.place: replace_axis(cell.place, rule.axis, 0) for cell in cells(indices.chunks) if not cell.empty}
    loads = ChunkLoads(table, set(source.values()) if rule.extent else ())
    of_indices = ChunkLoads(indices, source)
    tasks: dict[Any, Task] = {}
    for cell in cells(indices.chunks):
        key = (name, *cell.place)
        if cell.place in source:
            payload = loads.of(source[cell.place]) if rule.extent else table._meta
            tasks[key] = Task(key, gather_chunk, run, rule, payload, of_indices.of(cell.place), cell.first)
        else:
            tasks[key] = Task(key, empty_like, table._meta, cell.shape)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[*loads.graph, *of_indices.graph])
    return da.Array(graph, name, indices.chunks, meta=table._meta)


@handed_on
def gather_chunk(run: Callable[[Any, Any], Any], rule: AxisRule, payload: Any, indices: Any, first: tuple[int, ...]) -> Any:
    """A chunk of the output, as the same kind of array as the table's chunk.

    run: what gathers from a chunk by indices. payload: of that chunk, which is loaded here where it has no task of its own; any
    array of the table's kind where the axis has no elements. indices: another payload, not empty. first: where they begin in the
    whole, for messages. IndexError under RAISE.
    """
    chunk, wanted = loaded(payload), loaded(indices)
    with arrays.in_order([chunk, wanted]):
        array, device = arrays.adopt(chunk)
        check_type(array, rule.dtype)
        if not rule.extent:  # no operator reads an axis without elements
            rule.resolve(host_indices(wanted), first)
            nothing = empty_like(chunk, replace_axis(wanted.shape, rule.axis, 0))
            return take(nothing, rule.axis, np.zeros(wanted.shape[rule.axis], np.int64), rule.fill)
        found, home = arrays.adopt(wanted)
        try:
            return run(chunk, arrays.move(found, home, device))
        except IndexError:
            rule.resolve(host_indices(wanted), first)  # which names its place in all of the indices
            raise


def elements_descriptor(
    shape: Sequence[int], dtype: np.dtype[Any], indices: Sequence[int], index_dtype: np.dtype[Any], axis: int
) -> GatherElementsOperatorDesc:
    """GATHER_ELEMENTS of a chunk of `shape` by indices of a shape, for types that DirectML has. DescriptorError for a size that
    does not fit into a descriptor's 32 bits.
    """
    check_sizes("DML_OPERATOR_GATHER_ELEMENTS", "InputTensor", shape)
    data_type, index_type = (DataType[each.name.upper()] for each in (dtype, index_dtype))
    return GatherElementsOperatorDesc(
        input_tensor=BufferTensorDesc(data_type=data_type, sizes=shape),
        indices_tensor=BufferTensorDesc(data_type=index_type, sizes=indices),
        output_tensor=BufferTensorDesc(data_type=data_type, sizes=indices),
        axis=axis,
    )


def _along(indices: Any, axis: int) -> tuple[int, ...]:
    """The chunks of the indices along the axis."""
    return indices.chunks[axis] if isinstance(indices, da.Array) else (indices.shape[axis],)


def _index_chunks(chunks: Chunks, indices: Any, axis: int) -> Chunks:
    """The chunks of the indices: their own along the axis, elsewhere the table's as far as the indices reach."""
    reached = [
        tuple(min(size, end - begin) for begin, size in zip(accumulate(sizes, initial=0), sizes, strict=False) if begin < end)
        for sizes, end in zip(chunks, indices.shape, strict=True)
    ]
    return replace_axis([sizes or (0,) for sizes in reached], axis, _along(indices, axis))


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
            f"{shapes}, but off the axis ({axis}) GATHER_ELEMENTS takes equal sizes: slice the table there, or use "
            "dialect 'onnx', which takes smaller indices"
        )
    largest = [max(sizes) for sizes in table.chunks]
    wanted = replace_axis(largest, axis, max(_along(indices, axis)))
    if prod(wanted) > ELEMENT_LIMIT:
        raise ValueError(
            f"a chunk of the output has shape {wanted}, {prod(wanted)} elements, but a descriptor has at most "
            f"{ELEMENT_LIMIT}: cut the indices into smaller chunks along axis {axis} (dask.array.from_array), or rechunk "
            "the table"
        )
    if 0 not in largest and 0 not in wanted:
        check(elements_descriptor(largest, table.dtype, wanted, indices.dtype, axis))


def _run_directml(rule: AxisRule, _: Any, chunk: Any, indices: Any) -> Any:
    desc = elements_descriptor(chunk.shape, rule.dtype, indices.shape, indices.dtype, rule.axis)
    # An operator of the thread's own, since it knows of its last call alone whether an index was bad.
    operator = compiled(desc, rule.out_of_bounds, rule.fill, threading.get_ident())
    found = operator(chunk, indices)
    operator.raise_if_bad()
    return found


_DIALECTS: dict[str, tuple[Callable[[da.Array, Any, int], None], Callable[..., Any]]] = {
    "directml": (_check_directml, _run_directml),
    "onnx": (_check_onnx, _run_onnx),
}
"""How each dialect checks the shapes before there are values, and how it runs on a chunk."""
