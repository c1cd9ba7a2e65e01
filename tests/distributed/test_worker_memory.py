"""Memory of a worker. Judges: the model written out by hand, and what `gather` and `plan_gather` refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
import pytest
from dask.system import CPU_COUNT

from dmlgather.distributed import MemoryLimitError, chunked_gather, gather, plan_gather
from dmlgather.distributed.memory_model import worker_memory
from dmlgather.distributed.routing import routing_of
from dmlgather.wording import amount


def test_the_model_by_hand() -> None:
    # Chunks of 4, 4 and 2 rows of 8 bytes; blocks of two indices, groups of two blocks.
    routing = routing_of(np.array([0, 3, 5, 5, 9, -1]), (4, 4, 2), 8, 16, 32)
    found = worker_memory(routing, (4, 4, 2), workers=2, threads=3)
    assert (found.take_bytes, found.place_bytes, found.held_bytes) == ((4 + 2) * 8, 3 * 2 * 8, 2 * 8)
    assert found.total_bytes == 3 * 48 + 16
    assert str(found) == "3 threads x max(chunk and its rows 48 bytes, 3 blocks 48 bytes) + rows held 16 bytes"


@pytest.mark.parametrize(
    ("sizes", "indices", "most", "remedy"),
    [
        (
            (1000, 1000),
            [0],
            "the largest chunk and the rows taken of it, 4004 bytes on 2 threads",
            r"along axis 0 \(table\.rechunk",
        ),
        ((1, 1), [0] * 1000, "three times the largest block, 12000 bytes on 2 threads", "lower block_bytes"),
        ((2,) * 900, np.arange(1800), "the rows of a group held by one of 3 workers, 2400 bytes", "lower in_flight_bytes or use"),
    ],
)
def test_more_memory_than_allowed_is_refused(sizes: tuple[int, ...], indices: object, most: str, remedy: str) -> None:
    block_bytes = 40 if "held" in most else 10**6
    options = {"workers": 3, "threads": 2, "block_bytes": block_bytes}
    peak = plan_gather((sizes,), indices, **options).peak_bytes_per_worker  # type: ignore[arg-type]
    assert plan_gather((sizes,), indices, memory_limit=peak, **options).memory_limit == peak  # type: ignore[arg-type]
    with pytest.raises(MemoryLimitError, match=f"needs {peak} bytes .* memory_limit is {peak - 1} bytes.*{most}: .*{remedy}"):
        plan_gather((sizes,), indices, memory_limit=peak - 1, **options)  # type: ignore[arg-type]


def test_a_forecast_counts_the_threads_that_a_gather_has() -> None:
    table, ids = da.zeros((1000, 3), chunks=(100, 3)), [0, 500]
    peak = plan_gather(table, ids).peak_bytes_per_worker
    assert peak == plan_gather(table.chunks, ids, dtype="float64", workers=1, threads=CPU_COUNT).peak_bytes_per_worker
    gather(table, ids, memory_limit=peak)
    with pytest.raises(MemoryLimitError, match=f"needs {peak} bytes"):
        gather(table, ids, memory_limit=peak - 1)


def test_a_limit_costs_no_second_routing() -> None:
    table = da.zeros((60, 4), chunks=(7, 4), dtype="f4")
    with mock.patch.object(chunked_gather, "routing_of", wraps=routing_of) as routed:
        gather(table, np.arange(60), memory_limit=2**30)
    assert routed.call_count == 1


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (2**26, "64 MiB"), (2**55, "32 PiB")]
)
def test_amounts(count: int, text: str) -> None:
    assert amount(count) == text


@pytest.mark.parametrize("limit", ["1GB", 1e9, True])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    for function, table in ((plan_gather, ((10,), (2,))), (gather, np.zeros((10, 2)))):
        with pytest.raises(
            TypeError, match=r"memory_limit is .* of type \w+, expected an integer of bytes, such as 2 \* 10\*\*9"
        ):
            function(table, [1], memory_limit=limit)


def test_a_file_has_no_rechunk_and_the_message_says_what_has(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, np.zeros((1000, 8)))
    with pytest.raises(MemoryLimitError, match=r"a file becomes a dask array by dask.array.from_array\(numpy.load\(file, 'r'\)"):
        gather(path, [3], memory_limit=100)
