"""Gather of a chunked table: only the chunks that indices touch are loaded, each once per group of blocks, and only rows move.

indices --resolve--> positions --split by chunk, sorted, unique--> rows wanted of each chunk

take   loads a chunk and takes the rows of it that the blocks of a group want
pick   takes one block's rows out of those, where a group has several blocks
place  puts a block's rows behind each other and gathers them into their places: a chunk of the output
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
from dask.tokenize import tokenize
from numpy.typing import NDArray

from dmlgather.dialects.problem import check_axis
from dmlgather.distributed.axis_rules import AxisRule, axis_rule
from dmlgather.distributed.gather_graph import GatherGraph
from dmlgather.distributed.index_blocks import BLOCK_BYTES, IN_FLIGHT_BYTES, block_chunks, even
from dmlgather.distributed.routing import host_indices, route, row_bytes
from dmlgather.distributed.table_sources import as_table, check_known
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

    table: shape [lead…, axis, trail…]; a dask array, a zarr array, or the path of a .npy file or a zarr store. indices: integers
    of any rank, shape [i…]. A NumPy or CuPy array is resolved now, once and on the host, and only the chunks that it touches are
    in the graph; the blocks of a dask array are resolved in tasks of their own. dialect: whose rules say which types are taken,
    what a negative index means and what becomes of one out of bounds: "directml" (clamped), "onnx" (IndexError), "openvino"
    (filled with 0) or "lax" (promised not to be). out_of_bounds: "clamp", "raise", "promise" or a Fill in the place of the
    dialect's own.

    block_bytes: of output that one task puts together. in_flight_bytes: of output of the blocks that share the loads of their
    chunks: more of them load a chunk less often and hold more memory. memory_limit: bytes of one worker; where the gather would
    need more (see `plan_gather`), it is refused.

    Returns a dask array of shape [lead…, i…, trail…] and the table's type, with the table's kind of chunks, chunked as the table
    off the axis and by blocks along i…; nothing is loaded before it is computed.

    Raises TypeError for what is no table and types that the dialect lacks; ValueError for an axis out of range, chunks of unknown
    size and an unknown dialect or policy; DescriptorError for chunks that DirectML cannot describe; MemoryLimitError; under
    "raise" IndexError, at once, or when it is computed where the indices are a dask array.
    """
    source = as_table(table)
    at = check_axis("axis", axis, source.ndim, "table")
    lazy = isinstance(indices, da.Array)
    given = indices if lazy else host_indices(indices)
    reads = 0 not in source.shape[:at] + source.shape[at + 1 :]
    rule = axis_rule(dialect, source.shape[at], source.dtype, given.dtype, out_of_bounds, axis=at, reads=reads)
    options = _Options(at, dialect, out_of_bounds, block_bytes, in_flight_bytes)
    if lazy:
        return _gather_lazy(source, given, rule, options, memory_limit)
    if memory_limit is not None:
        _check_memory(source, given, memory_limit, options)
    width = row_bytes(source.chunks, at, source.dtype)
    routing = route(rule.resolve(given), source.chunks[at], width, block_bytes, in_flight_bytes)
    graph = GatherGraph(source, at, rule, routing.index_chunks, tokenize(source.name, given, options))
    graph.add_known(routing)
    return graph.array


class _Options(NamedTuple):
    """What is asked for besides table and indices."""

    axis: int
    dialect: str
    out_of_bounds: str | Fill | None
    block_bytes: int
    in_flight_bytes: int


def _gather_lazy(table: da.Array, indices: da.Array, rule: AxisRule, options: _Options, memory_limit: int | None) -> da.Array:
    if memory_limit is not None:
        raise ValueError(
            f"memory_limit is {memory_limit} bytes, but what a gather needs is known only for indices in memory, and they are a "
            "dask array: leave it out, or pass indices.compute()"
        )
    check_known("indices", indices)
    blocks = _cut(indices, row_bytes(table.chunks, options.axis, table.dtype), options.block_bytes)
    graph = GatherGraph(table, options.axis, rule, blocks.chunks, tokenize(table.name, blocks.name, options))
    graph.add_lazy(blocks, options.in_flight_bytes)
    return graph.array


def _cut(indices: da.Array, bytes_each: int, block_bytes: int) -> da.Array:
    """The indices, their chunks cut where one has more than a block's output."""
    largest = block_chunks([max(sizes, default=0) for sizes in indices.chunks], bytes_each, block_bytes)
    wanted = tuple(
        tuple(part for size in sizes for part in even(size, max(limit[0], 1)))
        for sizes, limit in zip(indices.chunks, largest, strict=True)
    )
    return indices if wanted == indices.chunks else indices.rechunk(wanted)


def _check_memory(table: da.Array, indices: NDArray[Any], memory_limit: int, options: _Options) -> None:
    """MemoryLimitError where the gather's plan needs more than a worker may have."""
    from dmlgather.distributed.forecasting import plan_gather

    workers, threads = _workers()
    plan_gather(
        table.chunks,
        indices,
        dtype=table.dtype,
        workers=workers,
        threads=threads,
        memory_limit=memory_limit,
        **options._asdict(),
    )


def _workers() -> tuple[int, int]:
    """The number of workers, and of threads of one at most: of the current client, else of dask's threaded scheduler."""
    from dask.system import CPU_COUNT

    try:
        from distributed import get_client

        threads = list(get_client().nthreads().values())
    except (ImportError, ValueError):  # no distributed, no client
        threads = []
    return (len(threads), max(threads)) if threads else (1, CPU_COUNT)
