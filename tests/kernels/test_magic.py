"""The kernels' division by multiplication in the interpreter, at its limits near 2^31. Judge: NumPy's division."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from dmlgather.backends.cuda.arguments import LIMIT, NEAR_LIMIT, magic, odd_magic, wide_magic
from dmlgather.backends.cuda.driver import unit_source
from tests.kernels.ptx.machine import Buffer
from tests.kernels.ptx.runs import AS_WRITTEN, module_of

SOURCE = """
struct Operands { const u32* operand; u32* quotient; };
extern "C" __global__ void quotients(const Operands a) {
    const u32* const operand = a.operand + 3 * (blockIdx.x * BLOCK + threadIdx.x);
    a.quotient[blockIdx.x * BLOCK + threadIdx.x] = divide(operand[0], operand[1], operand[2]);
}
"""
EDGES = sorted({min(max(2**bit + step, 1), LIMIT - 1) for bit in range(32) for step in range(-3, 4)})
"""Divisors near powers of two."""


def dividends(divisor: int, rng: random.Random) -> list[int]:
    some = rng.randrange(LIMIT)
    multiples = (LIMIT - 1) // divisor * divisor, some // divisor * divisor
    return [0, LIMIT - 1, LIMIT - 2, some, *multiples, *(max(multiple - 1, 0) for multiple in multiples)]


def test_the_kernels_divide_like_numpy(rng: random.Random) -> None:
    drawn = [rng.randrange(1, LIMIT) for _ in range(1000)] + [int(LIMIT ** rng.random()) for _ in range(1000)]
    operands = [(n, *magic(divisor), divisor) for divisor in (*EDGES, *drawn) for n in dividends(divisor, rng)]
    blocks = len(operands) // 256
    table = np.array(operands[: 256 * blocks], np.uint32)
    source, quotients = np.ascontiguousarray(table[:, :3]), np.empty(len(table), np.uint32)
    buffers = [Buffer(2**32 - 48, source.reshape(-1).view(np.uint8), readable=True)]
    buffers.append(Buffer(2**33 - 48, quotients.view(np.uint8), writable=True))
    pointers = np.array([buffer.address for buffer in buffers], np.uint64).tobytes()
    module = module_of(unit_source("arguments.cuh") + SOURCE, AS_WRITTEN.architecture)
    module.launch("quotients", blocks, pointers, buffers)
    assert blocks > 60
    assert np.array_equal(quotients, table[:, 0] // table[:, 3])


def test_odd_magic_divides_like_numpy() -> None:
    """The test uses the hardest dividends for every divisor: multiples and their predecessors."""
    for divisor in range(1, NEAR_LIMIT + 1):
        multiples = np.arange(0, NEAR_LIMIT, divisor, dtype=np.uint64)
        for n in (multiples, multiples[1:] - 1, np.array([NEAR_LIMIT - 1], np.uint64)):
            assert np.array_equal((2 * n + 1) * odd_magic(divisor) >> 32, n // divisor)


def test_wide_magic_divides_like_python(rng: random.Random) -> None:
    top = 2**63
    edges = {min(max(2**bit + step, 2), top - 1) for bit in range(1, 64) for step in range(-3, 4)}
    for divisor in (*edges, *(min(2 + int(top ** rng.random()), top - 1) for _ in range(1000))):
        multiplier, shift = wide_magic(divisor)
        assert multiplier < 2**64
        assert 0 <= shift < 64
        some = rng.randrange(top)
        for n in (some, some // divisor * divisor, max(some // divisor * divisor - 1, 0), top - 1):
            assert (n * multiplier >> 64) >> shift == n // divisor


@pytest.mark.parametrize(
    ("function", "divisor", "range_of_divisors"),
    [
        *((magic, divisor, "1 … 2147483647") for divisor in (0, -1, LIMIT)),
        *((odd_magic, divisor, "1 … 16384") for divisor in (0, -1, NEAR_LIMIT + 1)),
        *((wide_magic, divisor, "2 … 9223372036854775807") for divisor in (1, 0, -1, 2**63)),
    ],
)
def test_a_divisor_out_of_range_is_refused(function: Callable[[int], object], divisor: int, range_of_divisors: str) -> None:
    with pytest.raises(ValueError, match=f"expected {range_of_divisors}"):
        function(divisor)
