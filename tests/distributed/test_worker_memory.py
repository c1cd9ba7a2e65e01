"""Memory of a worker. Judges: the model written out by hand, and what `gather` and `plan_gather` refuse."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import dask.threaded
import numpy as np
import pytest
from dask.system import CPU_COUNT

from dmlgather.cli import common
from dmlgather.distributed import MemoryLimitError, chunked_gather, gather, plan_gather
from dmlgather.distributed.memory_model import worker_memory, workers_now
from dmlgather.distributed.routing import even, routing_of
from dmlgather.wording import amount
from tests import seeds


def test_the_model_by_hand() -> None:
    # Chunks of 4, 4 and 2 rows of 8 bytes; blocks of two indices, groups of two blocks.
    routing = routing_of(np.array([0, 3, 5, 5, 9, -1]), (4, 4, 2), 8, 16, 32)
    found = worker_memory(routing, (4, 4, 2), workers=2, threads=3)
    assert (found.take_bytes, found.place_bytes, found.held_bytes) == ((4 + 2) * 8, 3 * 2 * 8, 2 * 8)
    assert found.total_bytes == 3 * 48 + 16
    assert str(found) == "3 threads x max(chunk and its rows 48 bytes, 3 blocks 48 bytes) + rows held 16 bytes"


@pytest.mark.parametrize(
    ("sizes", "indices", "most"),
    [
        ((1000, 1000), [0], "the largest chunk and the rows taken of it, 4004 bytes on 2 threads"),
        ((1, 1), [0] * 1000, "three times the largest block, 12000 bytes on 2 threads"),
        ((2,) * 900, np.arange(1800), "the rows of a group held by one of 3 workers, 2400 bytes"),
    ],
)
def test_more_memory_than_allowed_is_refused(sizes: tuple[int, ...], indices: object, most: str) -> None:
    block_bytes = 40 if "held" in most else 10**6
    options = {"workers": 3, "threads": 2, "block_bytes": block_bytes}
    peak = plan_gather((sizes,), indices, **options).peak_bytes_per_worker  # type: ignore[arg-type]
    assert plan_gather((sizes,), indices, memory_limit=peak, **options).memory_limit == peak  # type: ignore[arg-type]
    with pytest.raises(MemoryLimitError, match=f"needs {peak} bytes .* memory_limit is {peak - 1} bytes.*{most}: "):
        plan_gather((sizes,), indices, memory_limit=peak - 1, **options)  # type: ignore[arg-type]


BLOCKS = r"block_bytes and in_flight_bytes of (\d+) meet it$"
CHUNKS = r"make them at most \d+ bytes, (\d+) rows? along axis 0 .*, with block_bytes and in_flight_bytes of (\d+)$"
LEAST = r"and no chunks along axis 0 do: rows of \d+ bytes need (\d+) bytes on \d+ threads?; "


def _plan(drawn: dict[str, Any], limit: int, rows: int, block: int | None = None) -> Any:
    """Return the forecast of a gather of a table in chunks of at most `rows`. block: bytes of a block, and of a group."""
    chunks = (even(drawn["count"], rows), (drawn["width"],))
    blocks: Any = {} if block is None else {"block_bytes": block, "in_flight_bytes": block}
    return plan_gather(chunks, drawn["indices"], dtype="f4", workers=1, threads=drawn["threads"], memory_limit=limit, **blocks)


def test_what_the_error_advises_meets_the_limit() -> None:
    rng, seen = seeds.numpy_rng(), set()
    for _ in range(200):
        count, threads, limit = int(rng.integers(1, 400)), int(rng.integers(1, 4)), int(2 ** rng.uniform(1, 15))
        indices = rng.integers(0, count, int(rng.integers(1, 600)))
        drawn = {"count": count, "width": int(rng.integers(1, 5)), "indices": indices, "threads": threads}
        rows = int(rng.integers(1, count + 1))
        try:
            _plan(drawn, limit, rows)
        except MemoryLimitError as error:
            text = str(error)
        else:
            continue
        form = next(form for form in (BLOCKS, CHUNKS, LEAST) if re.search(form, text))
        numbers = [*map(int, *(found.groups() for found in re.finditer(form, text)))]
        seen.add(form)
        if form is BLOCKS:
            assert _plan(drawn, limit, rows, numbers[0])
        elif form is CHUNKS:
            assert _plan(drawn, limit, *numbers)
            with pytest.raises(MemoryLimitError):  # no block_bytes would do
                _plan(drawn, limit, rows, 1)
        else:
            assert numbers[0] > limit
            assert _plan(drawn, numbers[0], 1, 1)
    assert seen == {BLOCKS, CHUNKS, LEAST}


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


FUNCTIONS: Any = ((plan_gather, ((10,), (2,))), (gather, np.zeros((10, 2))))


@pytest.mark.parametrize("limit", [1e9, True])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    for function, table in FUNCTIONS:
        with pytest.raises(
            TypeError, match=r"memory_limit is .* of type \w+, expected an integer of bytes, such as 2 \* 10\*\*9, or a text such"
        ):
            function(table, [1], memory_limit=limit)


@pytest.mark.parametrize(
    ("limit", "words"),
    [("much", "expected a number of bytes such as '500MiB'"), ("", "expected a number"), (0, "at least 1"), (-1, "at least 1")],
)
def test_what_is_no_limit(limit: Any, words: str) -> None:
    for function, table in FUNCTIONS:
        with pytest.raises(ValueError, match=rf"memory_limit is {limit!r}, expected {words.removeprefix('expected ')}"):
            function(table, [1], memory_limit=limit)


@pytest.mark.parametrize(("text", "limit"), [("1GB", 10**9), ("1.5 KiB", 1536), ("2000", 2000)])
def test_a_limit_may_be_text_as_of_the_command(text: str, limit: int) -> None:
    assert common.memory_limit(text) == limit
    assert plan_gather(((10,), (2,)), [1], threads=1, memory_limit=text).memory_limit == limit
    gather(np.zeros((1, 1)), [0], memory_limit=text)


def test_a_file_has_no_rechunk_and_the_message_says_what_has(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, np.zeros((1000, 8)))
    words = (
        r"rechunk\(…\); those of a .npy file, given by its path, "
        r"by dask.config.set\(\{'array.chunk-size': '(\d+)B'\}\)\), .* of (\d+)$"
    )
    with mock.patch.object(chunked_gather, "workers_now", return_value=(1, 2)):
        with pytest.raises(MemoryLimitError, match=words) as raised:
            gather(path, [3], memory_limit="2KiB")
        found = re.search(words, str(raised.value))
        assert found is not None
        with dask.config.set({"array.chunk-size": f"{found[1]}B"}):
            gather(path, [3], memory_limit="2KiB", block_bytes=int(found[2]), in_flight_bytes=int(found[2]))


def test_threads_are_those_that_dask_is_configured_to_use() -> None:
    """Three tasks that wait for each other end only if dask runs three threads."""
    together = threading.Barrier(3, timeout=60)
    with dask.config.set(num_workers=3):
        assert workers_now() == (1, 3)
        dask.threaded.get({f"wait {number}": (together.wait,) for number in range(3)}, [f"wait {number}" for number in range(3)])
