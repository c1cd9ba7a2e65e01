"""The figures of traffic, and the command that compares them. Judge: counts worked out by hand."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.backends import reference
from dmlgather.backends.cuda import driver
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers, random_plan
from tests.kernels import matrix, nvrtc, traffic, traffic_record
from tests.kernels.must_move import must_move
from tests.kernels.occupancy import resident_blocks
from tests.kernels.plain_kernels import plain_launches
from tests.kernels.plans import row_gather, slice_of
from tests.kernels.ptx.compile import ptx_of
from tests.kernels.ptx.machine import Buffer, Counts, Module
from tests.kernels.traffic import INDICES, INPUT, OUTPUT, Figures, KernelRun, figures_of, sample
from tests.kernels.traffic_cases import groups
from tests.kernels.traffic_record import TABLES, TRAFFIC, CountedTable

GROUPS = {group.name: group for group in groups()}
SMALL = (
    "launch-floor",
    "250 rows of 1537 B",
    "4000 rows of 65 B",
    "1000 rows of 404 B",
    "20000 rows of 10 B",
    "inner axis, 500 rows of 1 KB",
)
"""Cases of the table that take little time."""


def counted(body: str, threads: int = 32) -> Counts:
    """Return the counts of one block. The input is 1 MiB of words, the output 64 KiB; t is the thread."""
    head = "struct Arguments { const unsigned* in; unsigned* out; };"
    source = f'{head} extern "C" __global__ void tried(const Arguments a) {{ const unsigned t = threadIdx.x; {body} }}'
    buffers = (Buffer(INPUT, None, size=2**20, readable=True), Buffer(OUTPUT, None, size=2**16, writable=True))
    arguments = np.array([INPUT, OUTPUT], np.uint64).tobytes()
    counts = Module(ptx_of(source), source).launch("tried", 1, arguments, buffers, block=threads, counts=True)
    assert counts is not None
    return counts


@pytest.mark.parametrize(
    ("place", "sectors", "lines", "useful"),
    [
        pytest.param("t", 4, 1, 128, id="in order"),
        pytest.param("31 - t", 4, 1, 128, id="backwards"),
        pytest.param("2 * t", 8, 2, 128, id="every other"),
        pytest.param("t + 4", 5, 2, 128, id="16 bytes into a line"),
        pytest.param("t + 8", 4, 2, 128, id="a sector into a line"),
        pytest.param("32 * t", 32, 32, 128, id="a line each"),
        pytest.param("0 * t", 1, 1, 4, id="one for all"),
        pytest.param("t / 8 * 64 + t % 8", 4, 4, 128, id="a sector of every other line"),
    ],
)
def test_a_request_of_single_elements_is_counted(place: str, sectors: int, lines: int, useful: int) -> None:
    loads = counted(f"a.out[t] = a.in[{place}];").loads[0]
    assert (loads.requests, loads.sectors, loads.lines, loads.bytes) == (1, sectors, lines, useful)
    if useful == 128:
        stores = counted(f"a.out[{place}] = a.in[t];").stores[1]
        assert (stores.requests, stores.sectors, stores.lines, stores.bytes) == (1, sectors, lines, useful)


@pytest.mark.parametrize(
    ("body", "requests", "sectors", "lines", "fetched"),
    [
        pytest.param("((uint4*)a.out)[t] = ((const uint4*)a.in)[t];", 1, 16, 4, 16, id="vectors"),
        pytest.param("if (t < 8) a.out[t] = a.in[t];", 1, 1, 1, 1, id="eight of the lanes"),
        pytest.param("a.out[t] = a.in[t] + a.in[t + 8];", 2, 8, 3, 5, id="overlapping"),
        pytest.param("if (t % 2) a.out[t] = a.in[t]; else a.out[t] = a.in[t + 32] + 1;", 2, 8, 2, 8, id="a branch"),
    ],
)
def test_requests_of_a_warp_are_counted(body: str, requests: int, sectors: int, lines: int, fetched: int) -> None:
    loads = counted(body).loads[0]
    assert (loads.requests, loads.sectors, loads.lines, loads.fetched) == (requests, sectors, lines, fetched)


def test_a_block_fetches_a_sector_once_for_all_its_warps() -> None:
    loads = counted("a.out[t] = a.in[t % 32];", threads=128).loads[0]
    assert (loads.requests, loads.sectors, loads.fetched) == (4, 16, 4)


@pytest.mark.parametrize(("step", "passes"), [(0, 1), (1, 1), (2, 2), (3, 1), (16, 16), (32, 32), (33, 1)])
def test_bank_conflicts_take_additional_passes(step: int, passes: int) -> None:
    shared = "__shared__ unsigned some[1088]; for (unsigned i = t; i < 1088; i += 32) some[i] = i; __syncthreads();"
    alike, apart = (counted(f"{shared} a.out[t] = some[t * {by}];") for by in (1, step))
    assert alike.shared_passes == alike.shared_least == 1088 // 32 + 1
    assert apart.shared_passes - alike.shared_passes == passes - 1


def test_idle_threads_count_as_warp_instructions() -> None:
    whole, part = counted("a.out[t] = a.in[t];"), counted("if (t < 8) a.out[t] = a.in[t];")
    assert whole.thread_instructions == 32 * whole.instructions
    assert part.thread_instructions < 32 * part.instructions


def figures(plan: IndexPlan, indices: Any = None, kind: str = "naive") -> Figures:
    """Return the figures of a plain kernel."""
    run = KernelRun.of_plain(plain_launches(plan, plan.element_bytes)[kind])
    return figures_of([run], plan, indices, must_move(plan, indices))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(
            slice_of((1024,), (1,)),
            {"fetched": 1, "stored": 1, "used": 1, "load_lines": 1, "store_lines": 1, "index_lines": 0, "passes": 0},
            id="a copy is ideal",
        ),
        pytest.param(slice_of((1024,), (2,)), {"fetched": 1, "load_lines": 2, "store_lines": 1}, id="every other element"),
        # The 256 threads of a block read 4 columns of 64 rows, half of the 64 sectors; the next block reads the other.
        pytest.param(
            slice_of((64, 64), (1, 64)), {"fetched": 2, "stored": 1, "load_lines": 32, "store_lines": 1}, id="transposed"
        ),
    ],
)
def test_naive_slices_have_the_figures_counted_by_hand(plan: IndexPlan, expected: dict[str, float]) -> None:
    found = figures(plan)
    assert {figure: getattr(found, figure) for figure in expected} == expected


ROWS_OF_24_BYTES = row_gather(200, 32, 6, 4)


def test_rows_of_24_bytes_store_half_of_their_sectors() -> None:
    """A warp moves a row, and a block 8 rows. Four rows lie in three sectors, and touch 1, 2, 2 and 1 of them. Two of 16 rows
    cross a line. Every fourth row of the table begins with a sector.
    """
    found = figures(ROWS_OF_24_BYTES, 4 * np.arange(32), "row")
    assert (found.fetched, found.stored, found.used) == (1, 2, 0.5)
    assert (found.index_lines, found.load_lines, found.store_lines) == (1, 1, traffic.rounded(18 / 16))


def test_a_row_that_a_block_reads_eight_times_is_fetched_once() -> None:
    """Eight sectors of indices and 32 of payload must be loaded. Four blocks each fetch two of indices and one of payload."""
    assert figures(ROWS_OF_24_BYTES, np.zeros(32, np.int64), "row").fetched == 12 / 40


@pytest.mark.parametrize("seed", range(40))
def test_plain_kernels_move_the_right_bytes(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice((1, 2, 4, 8))
    fixed: dict[str, Any] = {"index_type": IndexType.INT64, "out_of_bounds": OutOfBounds.CLAMP, "elements": 1500}
    plan = random_plan(rng, rank=rng.randint(1, 4), lookups=rng.randint(0, 2), element_bytes=size, **fixed)
    if plan.empty or any(lookup.limit == 0 for lookup in plan.lookups):
        return
    arrays = random_buffers(plan, rng)
    least = min((lookup.limit for lookup in plan.lookups), default=1)
    indices = np.random.default_rng(seed).integers(0, least, max(plan.index_extent, 1))
    expected = arrays.out.copy()
    reference.run(plan, arrays.data, indices if plan.lookups else None, expected)
    for launch in plain_launches(plan, size).values():
        out = arrays.out.copy()
        buffers = (
            Buffer(INPUT, arrays.data.view(np.uint8), readable=True),
            Buffer(INDICES, indices.view(np.uint8), readable=True),
            Buffer(OUTPUT, out.view(np.uint8), writable=True),
        )
        module = Module(ptx_of(launch.source), launch.source)
        module.launch(launch.name, launch.grid, launch.arguments(INPUT, INDICES, OUTPUT), buffers)
        assert out.tobytes() == expected.tobytes(), launch.name


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "threads"),
    [
        (32, 0, 2048),
        (33, 0, 1536),
        (40, 0, 1536),
        (64, 0, 1024),
        (65, 0, 768),
        (255, 0, 256),
        (32, 48 * 1024, 1024),
        (32, 4224, 2048),
        (32, 100 * 1024, 512),
        (32, 227 * 1024, 256),
    ],
)
def test_resident_threads_are_as_in_nvidias_tables(registers: int, shared_bytes: int, threads: int) -> None:
    """By hand from NVIDIA's tables: 1024 threads with 64 registers use all 65,536; four blocks of 49 KB fit into 228."""
    assert 256 * resident_blocks(registers, shared_bytes, 256) == threads


@pytest.mark.parametrize("grid", [1, 63, 127, 128, 129, 448, 1000, 65_536, 10**6])
def test_a_sample_has_all_blocks_or_is_spread_evenly(grid: int) -> None:
    blocks = sample(grid, 64)
    assert len(set(blocks)) == len(blocks) == (grid if grid < 128 else 64)
    gaps = [after - before for before, after in pairwise([-1, *blocks, grid])]
    assert max(gaps) <= max(1, 3 * grid / 64)


@pytest.mark.parametrize("period", [2, 3, 5, 7, 49])
@pytest.mark.parametrize("grid", [128, 448, 64 * 49, 7 * 2**16])
def test_a_sample_hits_no_pattern(grid: int, period: int) -> None:
    """For example, among tiles in rows of `period`, each place occurs about equally often."""
    found = Counter(block % period for block in sample(grid, 64))
    assert all(64 / period / 2 <= found[place] <= 64 / period * 2 for place in range(period)) or period > 32


@pytest.mark.parametrize("name", SMALL)
def test_small_cases_match_the_record(name: str) -> None:
    rows = traffic_record.rows_of(GROUPS[name])
    recorded = TRAFFIC.record()
    known = {row: recorded["rows"][row] for row in rows}
    assert list(traffic_record.problems(rows, recorded | {"rows": known}, TRAFFIC.remedy)) == []
    for row in rows:
        assert rows[row].keys() == known[row].keys()
        for kind in rows[row].keys() - {traffic_record.OURS}:  # plain kernels change only with their source
            figures = traffic_record.comparable(recorded).keys() & rows[row][kind].keys()
            now, then = ({figure: table[row][kind][figure] for figure in figures} for table in (rows, known))
            assert now == pytest.approx(then, rel=traffic_record.SLACK), "run ci/kernels --traffic --record"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_record_has_every_case(table: CountedTable) -> None:
    names = [case.name for group in table.groups() for case in group.cases()]
    assert list(table.record()["rows"]) == names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_writing_the_record_reproduces_its_file(table: CountedTable) -> None:
    recorded = table.record()
    if recorded["nvrtc"] == nvrtc.version():
        assert traffic_record.text(recorded["rows"], table.goals) == table.file.read_text()


def scattered(variant: Any) -> str:
    """Return the kernel's source with a warp's lanes spread over the block."""
    source = driver.kernel_source(variant)
    worse = source.replace("blockIdx.x * BLOCK + threadIdx.x;", "blockIdx.x * BLOCK + threadIdx.x % 32 * 8 + threadIdx.x / 32;")
    assert worse != source
    return worse


def checked(capsys: pytest.CaptureFixture[str], name: str) -> tuple[list[str], str]:
    """Return the problems and the output of `ci/kernels --traffic NAME`, run in this process."""
    with ThreadPoolExecutor(1) as pool:
        found = matrix.check_traffic(pool, replace(TRAFFIC, groups=lambda: iter([GROUPS[name]])), write=False, only=name)
    return found, capsys.readouterr().out


def test_a_worse_layout_is_a_problem(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    name = "1000 rows of 1536 B"
    found, printed = checked(capsys, name)
    assert found == []
    assert f"{name}, float32, recorded: kernel gather_" in printed
    monkeypatch.setattr(traffic, "kernel_source", scattered)
    found, _ = checked(capsys, name)
    assert any(f"{name}, float32 (gather" in problem and "store_lines is 32.0, recorded is 4.0" in problem for problem in found)


def test_a_text_that_no_name_contains_is_a_problem() -> None:
    table = replace(TRAFFIC, groups=lambda: iter([GROUPS["launch-floor"]]))
    with ThreadPoolExecutor(1) as pool:
        found = matrix.check_traffic(pool, table, write=False, only="nonsense")
    assert found == ["no case of --traffic has a name with 'nonsense' in it"]


def test_differences_from_the_record_are_reported() -> None:
    row = {"ours": {**dict.fromkeys(traffic_record.WORSE, 1.0), "kernel": "some"}}
    record = {"nvrtc": "0.0", "rows": {"gone": row, "same": row, "better": row, "worse": row}}
    better = {"ours": row["ours"] | {"fetched": 0.5, "used": 2.0}}
    worse = {"ours": row["ours"] | {"kernel": "other", "resident": 0.5, "load_lines": 1.01, "instructions": 9.0}}
    found = list(traffic_record.problems({"same": row, "better": better, "worse": worse, "new": row}, record, "so"))
    assert [problem.partition("; ")[0] for problem in found] == [
        "gone: recorded, but no such case exists",
        "worse (other, recorded some): resident is 0.5, recorded is 1.0",
        "new: not recorded",
    ]


def test_a_kernel_without_recorded_registers_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "registers.json").write_text(json.dumps({"registers": {"sm_90": {}}}))
    monkeypatch.setattr(traffic_record, "REGISTERS", tmp_path / "registers.json")
    found, _ = checked(capsys, "launch-floor")
    assert re.fullmatch(
        r"launch-floor, float32: no registers of gather_\w+ are recorded; run `ci/kernels --record`", " ".join(found)
    )
