"""Gather of a chunked table: only the chunks that indices touch are loaded, each once per group of blocks, and only rows move.

    indices -> positions -> rows wanted of each chunk, for each block of indices -> tasks

take   loads a chunk and takes the rows of it that the blocks of a group want
pick   takes one block's rows out of those, where a group has several blocks
place  joins a block's rows and gathers them into their places: a chunk of the output
"""

from __future__ import annotations

from typing import Any

import dask.array as da
from dask.tokenize import tokenize

from dmlgather.dialects.problem import check_axis
from dmlgather.distributed.axis_rules import axis_rule
from dmlgather.distributed.gather_graph import gather_known, gather_lazy
from dmlgather.distributed.index_blocks import BLOCK_BYTES, IN_FLIGHT_BYTES, block_chunks, even
from dmlgather.distributed.routing import host_indices, routing_of, row_bytes
from dmlgather.distributed.table_sources import as_table, check_known
from dmlgather.distributed.worker_memory import check_limit, worker_memory, workers_now
from dmlgather.eager import type_of
from dmlgather.policy import Fill


def gather(
    table: Any,
    indices: Any,
    *,
    axis: int = 0,
    dialect: str = "directml",
    out_of_bounds: str | Fill | None = None,
    block_bytes: int = BLOCK_BYTES,
    in_flight_bytes: int = IN_FLIGHT_BYTES,
    memory_limit: int | None = None,
) -> da.Array:
    """output[lead…, i…, trail…] = table[lead…, indices[i…], trail…], of a table that is larger than a device or a machine.

    table: shape [lead…, axis, trail…]; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store. indices: integers
    of any rank, shape [i…]. A NumPy or CuPy array is resolved now, once and on the host, and only the chunks that it touches are
    in the graph; the blocks of a dask array are resolved in tasks of their own. dialect: whose rules say which types are taken,
    what a negative index means and what an index out of bounds does: "directml" (it is clamped), "onnx" (IndexError), "openvino"
    (its element is 0) or "lax" (there must be none). out_of_bounds: "clamp", "raise", "promise" or a Fill instead of the
    dialect's own.

    block_bytes: of output that one task makes. in_flight_bytes: of output of the blocks that share the loads of their chunks; a
    higher value loads a chunk less often and holds more memory. memory_limit: bytes of one worker; a gather that needs more (see
    `plan_gather`) is refused.

    Returns a dask array of shape [lead…, i…, trail…] and the table's type, with the table's kind of chunks, chunked as the table
    off the axis and by blocks along i…; nothing is loaded before it is computed.

    Raises TypeError for what is no table and types that the dialect lacks; ValueError for an axis out of range, chunks of unknown
    size and an unknown dialect or policy; DescriptorError for chunks that DirectML cannot describe; MemoryLimitError; under
    "raise" IndexError, at once, or when it is computed where the indices are a dask array.

    >>> import dask.array as da
    >>> table = da.arange(12, chunks=4).reshape(6, 2)
    >>> dg.distributed.gather(table, [5, 0, -1]).compute()
    array([[10, 11],
           [ 0,  1],
           [10, 11]])
    """
    memory_limit = check_limit(memory_limit)
    source = as_table(table)
    at = check_axis("axis", axis, source.ndim, "table")
    lazy = isinstance(indices, da.Array)
    if lazy:
        check_known("indices", indices)
        if memory_limit is not None:
            raise ValueError(
                f"memory_limit is {memory_limit} bytes, but what a gather needs is known only for indices in memory, and they "
                "are a dask array: leave it out, or pass indices.compute()"
            )
    given: Any = indices if lazy else host_indices(indices)
    rule = axis_rule(dialect, type_of("table", source), type_of("indices", given), at, out_of_bounds)
    row = row_bytes(source.chunks, at, rule.dtype)
    options = (at, dialect, out_of_bounds, block_bytes, in_flight_bytes)
    if lazy:
        blocks = given.rechunk(_block_chunks(given, row, block_bytes))
        return gather_lazy(source, rule, blocks, in_flight_bytes, tokenize(source.name, blocks.name, options))
    routing = routing_of(rule.resolve(given), source.chunks[at], row, block_bytes, in_flight_bytes)
    if memory_limit is not None:
        workers, threads = workers_now()
        worker_memory(routing, source.chunks[at], workers, threads).check(memory_limit, axis=at, workers=workers)
    return gather_known(source, rule, routing, tokenize(source.name, given, options))


def _block_chunks(indices: da.Array, bytes_each: int, block_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The chunks of indices, cut where one has more than a block's output."""
    largest = block_chunks([max(sizes) for sizes in indices.chunks], bytes_each, block_bytes)
    return tuple(
        tuple(part for size in sizes for part in even(size, max(limit[0], 1)))
        for sizes, limit in zip(indices.chunks, largest, strict=True)
    )
