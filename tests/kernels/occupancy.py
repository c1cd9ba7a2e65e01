"""The threads that a multiprocessor of sm_90 holds at a time, by the limits in NVIDIA's CUDA programming guide."""

from __future__ import annotations

WARP = 32
REGISTERS = 65_536
"""Registers of a multiprocessor, shared by its four partitions."""
REGISTER_UNIT = 256
"""A warp gets a multiple of this number of registers."""
PARTITIONS = 4
THREADS, BLOCKS = 2048, 32
SHARED_BYTES = 228 * 1024
SHARED_OF_SYSTEM = 1024
"""Bytes of shared memory that every block uses in addition to its own."""
SHARED_UNIT = 128


def resident_blocks(registers: int, shared_bytes: int, block: int) -> int:
    """Return how many blocks of `block` threads fit. registers: per thread. shared_bytes: per block, static and dynamic."""
    warps = -(-block // WARP)
    of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // PARTITIONS // of_warp * PARTITIONS // warps
    by_shared = SHARED_BYTES // (-(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + SHARED_OF_SYSTEM)
    return min(by_registers, by_shared, THREADS // (warps * WARP), BLOCKS)
