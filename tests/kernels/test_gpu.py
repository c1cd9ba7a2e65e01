"""The kernels on a GPU (ci/gpu), with the interpreter's random plans and guard bands around every buffer."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.backends.cuda import driver, prepare
from dmlgather.backends.cuda.variants import VARIANTS, Variant
from dmlgather.backends.devices import Device
from dmlgather.plan import IndexPlan
from dmlgather.selftest import trials
from dmlgather.selftest.random_plans import plan_for, random_plan, random_runs, unwritable_fill
from dmlgather.selftest.runner import GpuUnderTest
from dmlgather.selftest.trials import PreparedRun, Trial, find_fault
from tests.at_once import at_once
from tests.kernels import matrix, nvrtc
from tests.kernels.plans import row_gather

pytestmark = pytest.mark.gpu

EXACT = "DMLGATHER_EXACT_BUFFERS" in os.environ
"""Whether to allocate exact sizes, so that compute-sanitizer notices an access one byte too far."""
GUARD = 0 if EXACT else trials.GUARD
"""Bytes of pattern on each side of a buffer."""
PLANS = 300 if EXACT else 2000

seeds = st.integers(0, 2**64 - 1).map(random.Random)


@pytest.fixture(scope="module")
def judged(cupy: Any) -> GpuUnderTest:
    return GpuUnderTest(Device("cuda"))


def agree(judged: GpuUnderTest, trial: Trial, *, walk: bool) -> PreparedRun:
    """Assert that the GPU and the reference give the same bits and the same bad index. walk: also let threads walk, and stage
    rows, in small plans.
    """
    run = judged.prepare(trial, 0 if walk else None)
    fault = find_fault(trial, run.run())
    assert fault is None, f"{fault}\n{run.how}\n{trial.plan}"
    return run


@settings(max_examples=PLANS, deadline=None)
@given(seeds, st.sampled_from((16, 8, 4, 2, 1)), st.booleans(), st.sampled_from((random_plan, random_runs)))
def test_random_plans_equal_the_reference_on_a_gpu(
    judged: GpuUnderTest, rng: random.Random, alignment: int, walk: bool, draw: Callable[..., IndexPlan]
) -> None:
    plan = draw(rng)
    if unwritable_fill(plan, alignment):
        alignment = plan.element_bytes
    agree(judged, Trial.of(plan, alignment, rng, guard=GUARD), walk=walk)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant_equals_the_reference_on_a_gpu(judged: GpuUnderTest, variant: Variant, rng: random.Random) -> None:
    for _ in range(3):
        plan, alignment = plan_for(variant, rng, shared_bytes=driver.shared_limit(0))
        run = agree(judged, Trial.of(plan, alignment, rng, guard=GUARD), walk=True)
        assert variant.name in run.parts


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_no_kernel_spills_or_exceeds_its_recorded_registers(cupy: Any, variant: Variant) -> None:
    kernel = driver.kernel(variant, 0)
    assert kernel.local_size_bytes == 0
    record = matrix.record()
    major, minor = cupy.cuda.nvrtc.getVersion()
    architecture = f"sm_{cupy.cuda.Device(0).compute_capability}"
    if record["nvrtc"] == f"{major}.{minor}" and architecture in nvrtc.ARCHITECTURES:
        assert kernel.num_regs <= record["registers"][architecture][variant.name], json.dumps(kernel.attributes)


ROWS = row_gather(1000, 4000, 16, 4)


@pytest.mark.parametrize("bind", [False, True], ids=["launch", "bind"])
def test_a_new_thread_can_launch(cupy: Any, bind: bool) -> None:
    program = prepare(ROWS, 0)
    table, indices, out = cupy.arange(16_000, dtype=cupy.uint32), cupy.full(4000, -1), cupy.zeros(64_000, cupy.uint32)
    pointers = table.data.ptr, indices.data.ptr, out.data.ptr
    launch = program.bind(*pointers) if bind else partial(program.launch, *pointers)
    cupy.cuda.get_current_stream().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    at_once(launch, [stream.ptr])
    stream.synchronize()
    assert np.array_equal(out.get().reshape(4000, 16), np.broadcast_to(np.arange(15_984, 16_000), (4000, 16)))


@pytest.mark.parametrize("element_bytes", [1, 4])
def test_a_table_of_more_than_2_to_the_31_elements_is_read(cupy: Any, element_bytes: int) -> None:
    row, count = 12, 3 * 2**31 // 12
    need = row * count * element_bytes
    if cupy.cuda.runtime.memGetInfo()[0] < need + 2**30:
        pytest.skip(f"needs {need / 2**30:.0f} GiB of free device memory")
    table = cupy.zeros(row * count, f"u{element_bytes}")
    wanted = np.array([0, 1, count - 1, 2**31 // row, 2**32 // row + 5, -1, -count, count, 2**62, -(2**63)])
    read = [max(0, min(count - 1, number + count if number < 0 else number)) for number in wanted.tolist()]
    for number in set(read):
        table[number * row : number * row + row] = cupy.arange(row) + number % 200
    out, indices = cupy.zeros(wanted.size * row, table.dtype), cupy.asarray(wanted)
    program = prepare(row_gather(count, wanted.size, row, element_bytes), 0)
    program.launch(table.data.ptr, indices.data.ptr, out.data.ptr, cupy.cuda.get_current_stream().ptr)
    assert out.get().reshape(-1, row).tolist() == [[number % 200 + column for column in range(row)] for number in read]
