"""Plans of gathers. Judges: NumPy, counting rows chunk by chunk; the tasks of a gather; `validate` for the whole."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.distributed.forecasting import GatherPlan, MemoryLimitError, plan_gather


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_every_number_is_what_numpy_counts(seed: int) -> None:
    rng = random.Random(seed)
    sizes = tuple(rng.choice([0, 1, 1, 3, 10]) for _ in range(rng.randint(1, 6)))
    columns = rng.choice([(4,), (2, 3), (0,)])
    width, widest, extent = sum(columns), max(columns), sum(sizes)
    shape = [rng.randint(0, 6) for _ in range(rng.randint(0, 2))]
    indices = np.array([rng.randint(-extent - 1, extent) for _ in range(int(np.prod(shape, dtype=int)))], np.int64).reshape(shape)
    block_bytes, in_flight = rng.choice([1, 40, 10**6]), rng.choice([1, 100, 10**6])
    plan = plan_gather(
        (sizes, columns),
        indices,
        dialect="openvino",
        dtype="f2",
        workers=2,
        threads=3,
        block_bytes=block_bytes,
        in_flight_bytes=in_flight,
    )
    starts = np.cumsum([0, *sizes])
    positions = np.where(indices < 0, indices + extent, indices).reshape(-1)
    inside = positions[(positions >= 0) & (positions < extent)]
    counts = [int(((inside >= low) & (inside < high)).sum()) for low, high in pairwise(starts.tolist())]
    different = [len(np.unique(inside[(inside >= low) & (inside < high)])) for low, high in pairwise(starts.tolist())]
    assert {owner.chunk: owner.requests for owner in plan.owners} == {at: count for at, count in enumerate(counts) if count}
    assert {owner.chunk: owner.rows for owner in plan.owners} == {at: count for at, count in enumerate(different) if count}
    untouched = [chunk for span in plan.untouched for chunk in range(span.first, span.last + 1)]
    assert sorted([*untouched, *(owner.chunk for owner in plan.owners)]) == list(range(len(sizes)))
    assert (plan.requests, plan.filled) == (inside.size, positions.size - inside.size)
    assert plan.output_bytes == indices.size * width * 2
    assert [sum(each) for each in plan.output_chunks] == list(plan.output_shape) == [*shape, width]
    for owner in plan.owners:
        assert (owner.start, owner.size) == (starts[owner.chunk], sizes[owner.chunk])
        assert owner.bytes_loaded == owner.loads * owner.size * width * 2
        assert owner.bytes_taken == owner.rows_taken * width * 2
        assert owner.rows <= owner.rows_taken <= min(owner.requests, owner.rows * owner.loads)
        assert (owner.take is None) is (widest == 0)
    assert plan.duplicates_removed == inside.size - sum(owner.rows_taken for owner in plan.owners)
    if plan.groups == 1:
        assert [owner.loads for owner in plan.owners] == [1] * len(plan.owners)
        assert plan.duplicates_removed == inside.size - sum(different)
        loads = [owner.size + owner.rows for owner in plan.owners]
        held = [sum(owner.rows for owner in plan.owners[worker::2]) for worker in range(2)]
        assert plan.peak.take_bytes == max(loads, default=0) * widest * 2
        assert plan.peak.held_bytes == max(held) * widest * 2
        assert plan.peak_bytes_per_worker == 3 * max(plan.peak.take_bytes, plan.peak.place_bytes) + plan.peak.held_bytes
    if plan.blocks == 1:
        assert plan.peak.place_bytes == 3 * indices.size * widest * 2
    written = json.loads(plan.model_dump_json())
    assert written["duplicates_removed"] == plan.duplicates_removed
    assert GatherPlan.model_validate_json(plan.model_dump_json(exclude_computed_fields=True)) == plan


def test_the_plan_is_what_runs() -> None:
    import dask.array as da

    from dmlgather.distributed.chunked_gather import gather

    rng = np.random.default_rng()
    table = da.zeros((60, 6), chunks=(7, 4), dtype="f4")
    indices = rng.integers(0, 40, (9, 4))
    plan = plan_gather(table.chunks, indices, block_bytes=200, in_flight_bytes=500)
    output = gather(table, indices, block_bytes=200, in_flight_bytes=500)
    assert (output.shape, output.chunks) == (plan.output_shape, plan.output_chunks)
    taken = Counter(key[2] for key in dict(output.dask) if isinstance(key, tuple) and key[0].startswith("gather-take"))
    assert taken == {owner.chunk: owner.loads * 2 for owner in plan.owners}
    assert plan.groups > 1
    assert plan.blocks > plan.groups


def test_a_legal_whole_may_be_illegal_in_parts_and_the_reverse() -> None:
    few = np.arange(3)
    large = plan_gather(((2**20,) * 5000, (64,)), few * 2**31)
    assert [finding.code for finding in large.whole.findings] == ["EXP107"]
    assert large.whole.descriptor is None
    assert large.ok
    many = plan_gather(((4,), *((1,),) * 6), np.zeros((1, 2, 3), np.int64))
    assert many.ok
    assert many.whole.ok
    wide = plan_gather(((2**16,), (2**17,)), few, in_flight_bytes=2**60, block_bytes=2**60)
    assert not wide.ok
    assert not wide.whole.ok
    assert "rechunk the table into smaller chunks" in str(wide)
    long = plan_gather(((2**33, 2**33),), few * 2**32)
    assert [owner.take.descriptor for owner in long.owners if owner.take] == [None, None]
    assert not long.ok
    rows = plan_gather(((4, 4), (1,) * 2, *((1,),) * 7), few)
    assert not rows.ok  # nine dimensions, which only a whole in which neighbours lie packed can merge
    assert rows.whole.ok
    for owner in rows.owners:
        assert owner.take is not None
        assert owner.take.descriptor is not None
        assert {finding.code for finding in owner.take.findings} >= {"DML102"}
        assert not dg.validate(owner.take.descriptor).ok


def test_a_plan_is_a_table() -> None:
    plan = plan_gather(((10,) * 8, (16, 16)), [[0, 1, 79], [1, 1, 45]], workers=2, memory_limit=10**6)
    assert str(plan).splitlines() == [
        "gather of float32 [80, 32] along axis 0 by indices [2, 3]; directml, clamp",
        "  output       [2, 3, 32], 768 bytes, 1 block in 1 group",
        "  chunks       3 of 8 touched; never loaded: 1 … 3, 5 … 6",
        "  requests     6, 2 duplicates removed, 0 filled",
        "  loaded       3.75 KiB in 3 loads",
        "  taken        512 bytes",
        "  peak memory  1.312 KiB of each of 2 workers, 976.6 KiB allowed:",
        "    1 thread x max(chunk and its rows 768 bytes, 3 blocks 1.125 KiB) + rows held 192 bytes",
        "",
        "  chunk     rows  requests  different  loads    loaded      taken  descriptor",
        "      0    0 … 9         4          2      1  1.25 KiB  256 bytes  legal",
        "      4  40 … 49         1          1      1  1.25 KiB  128 bytes  legal",
        "      7  70 … 79         1          1      1  1.25 KiB  128 bytes  legal",
        "  in one piece: legal",
    ]
    long = str(plan_gather(((1,) * 50,), np.arange(50)))
    assert "  and 30 chunks of which less is taken" in long.splitlines()


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


def test_mistakes_are_refused() -> None:
    with pytest.raises(IndexError, match=r"indices\[1\] = 6 is out of range for axis 1 of size 6"):
        plan_gather(((4,), (3, 3)), [0, 6], axis=-1, dialect="onnx")
    with pytest.raises(ValueError, match=r"chunks\[0\] is \(3, nan\), expected sizes of 0 or more: compute_chunk_sizes"):
        plan_gather(((3, float("nan")),), [0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="axis is 2, but the table has rank 1"):
        plan_gather(((3,),), [0], axis=2)
    with pytest.raises(ValueError, match="threads is 0, expected at least 1"):
        plan_gather(((3,),), [0], threads=0)
    with pytest.raises(TypeError, match="IndicesTensor has type float64"):
        plan_gather(((3,),), [0.5])


def test_planning_needs_no_dask() -> None:
    script = (
        "import sys; sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "from dmlgather.distributed.forecasting import plan_gather\n"
        "print(plan_gather(((3, 3),), [5]).owners[0].chunk)"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout == "1\n"
