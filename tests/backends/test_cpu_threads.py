"""Large calls on several threads of the engine give NumPy's result, and threads of Python share programs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.plan import IndexType, OutOfBounds
from tests import seeds
from tests.at_once import at_once
from tests.backends.shapes import Kind, Shaped, gather, gather_elements, gather_nd, view
from tests.backends.ways import Way

LARGE = (
    gather((3000, 300), (9000,)),
    gather((3000, 300), (2000, 4), 0, Kind(2, IndexType.INT32)),
    gather((900, 2000), (1500,), 1),
    gather((40, 60, 700), (90,), 1),
    gather((5, 2**19 + 1), (7,)),
    gather((2**16,), (3_000_000,), 0, Kind(1, IndexType.UINT16)),
    gather_elements((700, 3000), 1),
    gather_elements((30, 2**17), 1, Kind(8)),
    gather_elements((700, 3000), 0),
    gather_nd((300, 200, 8), 200_000, 2, Kind(4, IndexType.UINT64)),
    view((2000, 1500), lambda x: x[::-1, 3:-3:2], 8),
    view((2048, 1500), lambda x: x.T),
    view((6, 500, 600, 3), lambda x: x[:, :, ::-1, ::-1], 1),
)


THREADS = 4
"""Number of threads, above the CPUs of most machines. NumPy uses one."""


def arrays(shaped: Shaped) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return random data, valid indices (negative ones too, if the type is signed) and a poisoned output."""
    noise = seeds.numpy_rng()
    plan = shaped.plan
    data = np.frombuffer(noise.bytes(plan.in_extent * plan.element_bytes), f"u{plan.element_bytes}").reshape(shaped.input_shape)
    out = np.frombuffer(noise.bytes(plan.out_extent * plan.element_bytes), data.dtype).copy()
    if plan.index_type is None:
        return data, np.empty(0, np.int64), out
    limit = min(lookup.limit for lookup in plan.lookups)
    low = -limit if plan.index_type.signed else 0
    return data, noise.integers(low, limit, shaped.index_shape).astype(plan.index_type.value.lower()), out


@pytest.mark.parametrize("shaped", LARGE)
def test_large_calls_equal_numpy(shaped: Shaped, way: Way) -> None:
    data, indices, out = arrays(shaped)
    program = way.prepare(shaped.plan, threads=THREADS)
    assert program.run(data.reshape(-1), indices.reshape(-1), out) is None
    assert out.tobytes() == shaped.numpy(data, indices).tobytes()


@pytest.mark.parametrize("shaped", [one for one in LARGE if one.plan.lookups and one.plan.index_type is not IndexType.UINT16])
def test_bad_indices_of_large_calls_follow_the_policy(shaped: Shaped, way: Way) -> None:
    data, indices, out = arrays(shaped)
    limit = min(lookup.limit for lookup in shaped.plan.lookups)
    bad = seeds.numpy_rng().choice(indices.size, min(9, indices.size), replace=False)
    indices.reshape(-1)[bad] = np.iinfo(indices.dtype).max
    raising = way.prepare(replace(shaped.plan, out_of_bounds=OutOfBounds.RAISE), threads=THREADS)
    assert raising.run(data.reshape(-1), indices.reshape(-1), out) == bad.min()

    assert way.prepare(shaped.plan, threads=THREADS).run(data.reshape(-1), indices.reshape(-1), out) is None
    if len(shaped.plan.lookups) == 1:
        clamped = np.where(indices == np.iinfo(indices.dtype).max, limit - 1, indices)
        assert out.tobytes() == shaped.numpy(data, clamped).tobytes()

    fill = b"\x5a" * shaped.plan.element_bytes
    filling = way.prepare(replace(shaped.plan, out_of_bounds=OutOfBounds.FILL, fill=fill), threads=THREADS)
    assert filling.run(data.reshape(-1), indices.reshape(-1), out) is None
    harmless = np.where(indices == np.iinfo(indices.dtype).max, 0, indices)
    expected = shaped.numpy(data, harmless)
    expected[_bad(shaped, indices)] = np.frombuffer(fill, expected.dtype)[0]
    assert out.tobytes() == expected.tobytes()


def _bad(shaped: Shaped, indices: NDArray[Any]) -> NDArray[np.bool_]:
    """Return True if an output position has a bad index, by broadcasting the index array along the plan's strides."""
    marks = (indices == np.iinfo(indices.dtype).max).reshape(-1)
    found = np.zeros(shaped.plan.shape, np.bool_)
    for lookup in shaped.plan.lookups:
        found |= np.ndarray(shaped.plan.shape, np.bool_, marks, lookup.index_offset, lookup.index_strides)
    return found


def test_threads_may_share_a_program(way: Way) -> None:
    shaped = gather((500, 40), (3000,))
    program = way.prepare(shaped.plan)
    problems = [arrays(shaped) for _ in range(8)]
    for _ in range(5):
        at_once(lambda one: program.run(one[0].reshape(-1), one[1], one[2]), problems)
        for data, indices, out in problems:
            assert out.tobytes() == data[indices].tobytes()
            out[...] = 0


FORKING = """
import os, sys
import numpy as np
from tests.backends.shapes import gather
from tests.backends.ways import Way
shaped = gather((3000, 300), (19000,))
data, indices = np.arange(900_000, dtype=np.float32), np.arange(19000) % 3000
out = np.zeros(19000 * 300, np.float32)
program = Way(sys.argv[1]).prepare(shaped.plan, threads=2)
program.run(data, indices, out)
child = os.fork()
if child == 0:
    out[:] = 0
    program.run(data, indices, out)
    os._exit(0 if (out.reshape(19000, 300) == data.reshape(3000, 300)[indices]).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_programs_survive_a_fork(way: Way) -> None:
    done = subprocess.run([sys.executable, "-c", FORKING, way.name], timeout=240, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
