"""Memory beyond a problem's arrays stays below 8 MB for any size and policy."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.backends.cpu import CpuProgram, prepare
from dmlgather.plan import IndexType, OutOfBounds
from tests import seeds
from tests.backends.shapes import Kind, Shaped, gather, gather_elements, gather_nd, view
from tests.backends.test_cpu import gather_transposed
from tests.backends.ways import Way

LIMIT = 8 * 2**20

LOOKING: dict[str, Callable[[Kind], Shaped]] = {
    "elements": lambda kind: gather((5000,), (3_000_000,), 0, kind),
    "rows": lambda kind: gather((5000, 256), (20_000,), 0, kind),
    "long rows": lambda kind: gather((500, 4096), (1200,), 0, kind),
    "very long rows": lambda kind: gather((5, 2**18 + 1), (11,), 0, kind),
    "tuples": lambda kind: gather_nd((300, 300), 1_500_000, 2, kind),
    "many lookups": lambda kind: gather_nd((5, 5, 5, 5, 5, 5, 5), 300_000, 7, kind),
    "gather elements": lambda kind: gather_elements((6000, 400), 1, kind),
    "gather elements, long rows": lambda kind: gather_elements((30, 2**16), 1, kind),
    "gather elements, axis 0": lambda kind: gather_elements((1000, 2048), 0, kind),
    "columns": lambda kind: gather((1500, 1500), (1600,), 1, kind),
    "transposed rows": lambda kind: gather_transposed((20, 160, 256), (100,), kind),
}
COPYING: dict[str, Shaped] = {
    "rows": view((3000, 2000), lambda x: x[::-1, 3:-3]),
    "transposed": view((1500, 2048), lambda x: x.T),
    "mirrored": view((60, 224, 224, 3), lambda x: x[:, :, ::-1], 1),
    "reversed": view((3000, 4000), lambda x: x[:, ::-1], 1),
    "every second": view((6000, 4000), lambda x: x[::2, ::2], 1),
}


def peak(program: CpuProgram, data: Any, indices: Any, out: Any) -> int:
    """Return the peak memory of a bound call in bytes: the system's count in a first run, Python's count in a second one."""
    call = program.bind(data, indices, out)
    for array in (data, out):
        if not array.dtype.hasobject:
            array.fill(1)  # loads all pages beforehand
    resident = growth(call)
    tracemalloc.start()
    try:
        call()
        return max(resident, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def growth(call: Callable[[], object]) -> int:
    """Return the peak growth of this process's resident memory during a call in bytes, or 0 outside of Linux."""
    if not sys.platform.startswith("linux"):
        call()
        return 0
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def status(name: str) -> int:
    """Return a number of bytes from Linux's status of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@pytest.mark.parametrize("policy", [OutOfBounds.CLAMP, OutOfBounds.RAISE, OutOfBounds.FILL])
@pytest.mark.parametrize("name", LOOKING)
def test_gathers_stay_below_the_limit(name: str, policy: OutOfBounds, way: Way) -> None:
    shaped = LOOKING[name](Kind(4, IndexType.INT32, policy))
    plan = shaped.plan
    limit = min(lookup.limit for lookup in plan.lookups)
    data, out = np.zeros(plan.in_extent, "u4"), np.zeros(plan.out_extent, "u4")
    indices = seeds.numpy_rng().integers(-limit, limit, plan.index_extent).astype(np.int32)
    program = way.prepare(plan)
    clean = peak(program, data, indices, out)
    indices[::3] = 2**31 - 1
    assert max(clean, peak(program, data, indices, out)) < LIMIT


@pytest.mark.parametrize("name", COPYING)
def test_copies_stay_below_the_limit(name: str, way: Way) -> None:
    plan = COPYING[name].plan
    dtype = f"u{plan.element_bytes}"
    assert peak(way.prepare(plan), np.zeros(plan.in_extent, dtype), None, np.zeros(plan.out_extent, dtype)) < LIMIT


def test_padded_rows_and_scattered_outputs_stay_below_the_limit(way: Way) -> None:
    plan = gather((12_000, 250), (9000,)).plan  # a copy of the whole input would exceed the limit
    overlapping = replace(plan, in_extent=plan.in_extent * 2, lookups=(replace(plan.lookups[0], in_stride=251),))
    scattered = replace(plan, out_extent=9000 * 260, out_strides=(260, 1))
    for one in (overlapping, scattered):
        indices = seeds.numpy_rng().integers(0, 12_000, 9000)
        assert peak(way.prepare(one), np.zeros(one.in_extent, "u4"), indices, np.zeros(one.out_extent, "u4")) < LIMIT


def test_references_stay_below_the_limit() -> None:
    plan = gather_elements((3000, 400), 1, Kind(8)).plan
    data, out = np.zeros(plan.in_extent, object), np.zeros(plan.out_extent, object)
    indices = seeds.numpy_rng().integers(0, 400, plan.index_extent)
    assert peak(prepare(plan), data, indices, out) < LIMIT
