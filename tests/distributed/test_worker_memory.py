"""Memory of a worker. Judges: the model written out by hand, and what `gather` and `plan_gather` refuse."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import dask.threaded
import numpy as np
import pytest
from dask.array.core import normalize_chunks
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster

from dmlgather.cli import common
from dmlgather.distributed import GatherForecast, MemoryLimitError, chunked_gather, gather, memory_limits, plan_gather
from dmlgather.distributed.memory_limits import DaskWorkers, dask_workers
from dmlgather.distributed.memory_model import worker_memory
from dmlgather.distributed.routing import routing_of
from dmlgather.wording import amount
from tests import seeds


def test_the_model_is_what_a_hand_computes() -> None:
    # Chunks of 4, 4 and 2 rows of 8 bytes; blocks of two indices, groups of two blocks.
    routing = routing_of(np.array([0, 3, 5, 5, 9, -1]), (4, 4, 2), 8, 16, 32)
    found = worker_memory(routing, (4, 4, 2), workers=2, threads=3)
    assert (found.take_bytes, found.place_bytes, found.held_bytes) == ((4 + 2) * 8, 3 * 2 * 8, 2 * 8)
    assert found.total_bytes == 3 * 48 + 16
    assert str(found) == "3 threads x max(chunk and its rows 48 bytes, 3 blocks 48 bytes) + rows of a group 16 bytes"


@pytest.mark.parametrize(
    ("sizes", "indices", "most"),
    [
        ((1000, 1000), [0], "the largest chunk and the rows taken of it, 3.91 KiB for each of 2 threads"),
        ((1, 1), [0] * 1000, "three times the largest block, 11.72 KiB for each of 2 threads"),
        ((2,) * 900, np.arange(1800), "the rows of a group on one of 3 workers, 2.344 KiB"),
    ],
)
def test_more_memory_than_allowed_is_refused(sizes: tuple[int, ...], indices: object, most: str) -> None:
    block_bytes = 40 if "group" in most else 10**6
    options = {"workers": 3, "threads": 2, "block_bytes": block_bytes}
    peak = plan_gather((sizes,), indices, **options).peak_bytes_per_worker  # type: ignore[arg-type]
    assert plan_gather((sizes,), indices, memory_limit=peak, **options).memory_limit == peak  # type: ignore[arg-type]
    with pytest.raises(
        MemoryLimitError, match=rf"needs {amount(peak)} \({peak} bytes\) .* memory_limit is {amount(peak - 1)}; .*{most}: "
    ):
        plan_gather((sizes,), indices, memory_limit=peak - 1, **options)  # type: ignore[arg-type]


SIZES = r"block_bytes=(\d+) and in_flight_bytes=(\d+)"
COST = r"\((?:(\S+ \S+) in (\d+) loads?|more than 10000 tasks)\)"
CHUNKS = rf"chunks of at most (\d+) bytes, (\d+) rows? along axis 0, with {SIZES} {COST}"
AS_THEY_ARE = rf"(?:use|or) {SIZES} (?:with the present chunks )?{COST}"
LEAST = r"no sizes along axis 0 meet it, because rows of \d+ bytes need (\d+) bytes on \d+ threads?; "
COMPUTE = r"\. But compute\(\) needs .* \((\d+) bytes\) even then: write the result block by block"


@dataclass
class _Drawn:
    """A gather of a table in chunks of at most `rows` rows, on one worker, with a limit."""

    count: int
    width: int
    indices: Any
    threads: int
    limit: int

    def plan(self, rows: int, sizes: Sequence[int] = (), limit: int | None = None) -> GatherForecast:
        chunks = normalize_chunks((rows, -1), (self.count, self.width))
        options: Any = dict(zip(("block_bytes", "in_flight_bytes"), sizes, strict=False))
        limit = self.limit if limit is None else limit
        return plan_gather(chunks, self.indices, dtype="f4", workers=1, threads=self.threads, memory_limit=limit, **options)

    def check(self, rows: int, sizes: Sequence[str], amount_loaded: str | None, loads: str | None) -> GatherForecast:
        """Check that sizes meet the limit, and that they cost what the error says."""
        forecast = self.plan(rows, [*map(int, sizes)])
        if loads is not None:
            assert sum(chunk.loads for chunk in forecast.touched) == int(loads)
            assert amount(forecast.bytes_loaded) == amount_loaded
        return forecast


def _random(rng: np.random.Generator) -> tuple[_Drawn, int]:
    scale = int(rng.choice([1, 2**12]))  # of 4 KiB, so that what any gather needs is a small part of some limits
    count, threads, limit = int(rng.integers(1, 400)), int(rng.integers(1, 4)), scale * int(2 ** rng.uniform(1, 18))
    indices = rng.integers(0, count, int(rng.integers(1, 600)))
    drawn = _Drawn(count, scale * int(rng.integers(1, 5)), indices, threads, limit)
    return drawn, int(rng.integers(1, count + 1))


def test_the_advice_of_an_error_meets_the_limit_at_its_cost() -> None:
    rng = seeds.numpy_rng()
    seen: set[Any] = set()
    large = [(_Drawn(10**6, 256, rng.integers(0, 10**6, 10**5), 2, limit * 2**20), 50_000) for limit in (100, 300)]
    for drawn, rows in (*large, *(_random(rng) for _ in range(100))):
        try:
            drawn.plan(rows)
        except MemoryLimitError as error:
            text = str(error)
        else:
            continue
        if least := re.search(LEAST, text):
            assert int(least[1]) > drawn.limit
            assert drawn.plan(1, [4 * drawn.width] * 2, int(least[1]))
            seen.add("least")
            continue
        chunks, same, compute = (re.search(form, text) for form in (CHUNKS, AS_THEY_ARE, COMPUTE))
        forecasts, fewer = [], None
        if chunks:
            assert int(chunks[1]) == int(chunks[2]) * 4 * drawn.width
            fewer = drawn.check(int(chunks[2]), chunks.groups()[2:4], chunks[5], chunks[6])
            forecasts.append(fewer)
        if same:
            forecasts.append(drawn.check(rows, same.groups()[:2], same[3], same[4]))
            assert fewer is None or same[3] is None or 2 * fewer.bytes_loaded < forecasts[1].bytes_loaded
            assert fewer is None or fewer.compute.total_bytes > drawn.limit or forecasts[1].compute.total_bytes <= drawn.limit
        needed = forecasts[0].compute.total_bytes
        assert (needed > drawn.limit) == bool(compute)
        assert not compute or (chunks and chunks[5] is None) or (same and same[3] is None) or int(compute[1]) == needed
        seen.add(("chunks" * bool(chunks), "same" * bool(same), bool(compute)))
    assert seen >= {"least", ("chunks", "same", True), ("chunks", "same", False), ("chunks", "", True), ("", "same", True)}


def test_a_forecast_counts_the_threads_that_a_gather_has() -> None:
    table, ids = da.zeros((1000, 3), chunks=(100, 3)), [0, 500]
    peak = plan_gather(table, ids).peak_bytes_per_worker
    assert peak == plan_gather(table.chunks, ids, dtype="float64", workers=1, threads=CPU_COUNT).peak_bytes_per_worker
    gather(table, ids, memory_limit=peak)
    with pytest.raises(MemoryLimitError, match=rf"\({peak} bytes\) for the gather"):
        gather(table, ids, memory_limit=peak - 1)


def test_a_limit_costs_no_second_routing() -> None:
    table = da.zeros((60, 4), chunks=(7, 4), dtype="f4")
    with mock.patch.object(memory_limits, "routing_of", wraps=routing_of) as routed:
        gather(table, np.arange(60), memory_limit=2**30)
    assert routed.call_count == 1


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (2**26, "64 MiB"), (2**55, "32 PiB")]
)
def test_amounts_have_the_largest_unit_that_fits(count: int, text: str) -> None:
    assert amount(count) == text


FUNCTIONS: Any = ((plan_gather, ((10,), (2,))), (gather, np.zeros((10, 2))))
ARGUMENTS = ("memory_limit", "block_bytes", "in_flight_bytes")


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize(
    ("size", "error", "words"),
    [
        (1e9, TypeError, r" of type float, expected an integer of bytes, such as 2 \* 10\*\*9, or a text such as '2GB'$"),
        (True, TypeError, " of type bool, expected an integer of bytes"),
        ("much", ValueError, ", expected a number of bytes such as '500MiB' or '2GB'$"),
        ("", ValueError, ", expected a number of bytes"),
        (0, ValueError, ", expected at least 1 byte$"),
        (-1, ValueError, ", expected at least 1 byte$"),
    ],
)
def test_a_size_is_a_number_of_bytes(argument: str, size: Any, error: type[Exception], words: str) -> None:
    for function, table in FUNCTIONS:
        with pytest.raises(error, match=f"^{argument} is {size!r}{words}"):
            function(table, [1], **{argument: size})


@pytest.mark.parametrize(("text", "size"), [("1GB", 10**9), ("1.5 KiB", 1536), ("2000", 2000)])
def test_a_size_may_be_text_as_of_the_command(text: str, size: int) -> None:
    assert common.memory_limit(text) == size
    assert plan_gather(((10,), (2,)), [1], threads=1, memory_limit=text).memory_limit == size
    gather(np.zeros((1, 1)), [0], memory_limit=text)
    table, ids = np.zeros((1000, 1), "f4"), np.arange(1000) % 990
    named: Any
    counted: Any
    for argument in ARGUMENTS[1:]:
        named, counted = ({"block_bytes": 4, argument: value} for value in (text, size))
        assert plan_gather(table, ids, **named) == plan_gather(table, ids, **counted)
        assert gather(table, ids, **named).name == gather(table, ids, **counted).name


def test_a_file_has_no_rechunk_and_the_message_says_what_has(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, np.zeros((1000, 8)))
    words = (
        rf"{SIZES}.*by table.rechunk\(…\); those of a .npy file, given by its path, "
        r"by dask.config.set\(\{'array.chunk-size': '(\d+)B'\}\); those of a zarr store, by writing it again$"
    )
    with mock.patch.object(chunked_gather, "dask_workers", return_value=DaskWorkers(1, 2, None)):
        with pytest.raises(MemoryLimitError, match=words) as raised:
            gather(path, [3], memory_limit="2KiB")
        found = re.search(words, str(raised.value))
        assert found is not None
        with dask.config.set({"array.chunk-size": f"{found[3]}B"}):
            gather(path, [3], memory_limit="2KiB", block_bytes=int(found[1]), in_flight_bytes=int(found[2]))


def test_threads_are_those_that_dask_is_configured_to_use() -> None:
    """Three tasks that wait for each other end only if dask runs three threads."""
    together = threading.Barrier(3, timeout=60)
    with dask.config.set(num_workers=3):
        assert dask_workers() == (1, 3, None)
        dask.threaded.get({f"wait {number}": (together.wait,) for number in range(3)}, [f"wait {number}" for number in range(3)])


def test_a_scheduler_that_runs_tasks_one_by_one_has_one_thread() -> None:
    with dask.config.set(scheduler="synchronous", num_workers=3):
        assert dask_workers() == (1, 1, None)
        assert plan_gather(((10,), (2,)), [1]).peak.threads == 1


def test_the_limit_of_the_workers_of_a_client_is_the_default() -> None:
    table, ids = da.zeros((1000, 8), chunks=(500, 8), dtype="f4"), np.arange(1000)
    needed = plan_gather(table, ids, workers=1, threads=2).peak_bytes_per_worker
    for limit in (needed, needed - 1, 0):
        with (
            LocalCluster(
                n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", memory_limit=limit
            ) as cluster,
            Client(cluster, set_as_default=True),
        ):
            forecast = plan_gather(table, ids)  # notes the limit, and raises no error
            assert forecast.memory_limit == (limit or None)
            assert (f", more than the {amount(limit)} allowed:" in str(forecast)) == (limit == needed - 1)
            gather(table, da.from_array(ids), block_bytes=1)  # indices that are not known yet have no limit
            gather(table, ids, memory_limit=needed)
            if limit == needed - 1:
                words = rf"\({needed} bytes\) for the gather, but the limit that Dask gives each worker is {amount(limit)}; "
                with pytest.raises(MemoryLimitError, match=words):
                    gather(table, ids)
            else:
                gather(table, ids)
