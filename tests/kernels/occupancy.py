"""How many threads a multiprocessor of sm_90 holds at a time. The limits are those of NVIDIA's CUDA programming guide."""

from __future__ import annotations

WARP = 32
REGISTERS = 65_536
"""Of a multiprocessor, shared by four partitions of it."""
REGISTER_UNIT = 256
"""A warp gets a multiple of this many registers."""
PARTITIONS = 4
THREADS, BLOCKS = 2048, 32
SHARED_BYTES = 228 * 1024
SHARED_OF_SYSTEM = 1024
"""Bytes of shared memory that every block takes beside its own."""
SHARED_UNIT = 128


def resident_blocks(registers: int, shared_bytes: int, block: int) -> int:
    """Blocks of `block` threads that fit together. registers: of a thread. shared_bytes: of a block, static and dynamic."""
    warps = -(-block // WARP)
    of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // PARTITIONS // of_warp * PARTITIONS // warps
    by_shared = SHARED_BYTES // (-(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + SHARED_OF_SYSTEM)
    return min(by_registers, by_shared, THREADS // (warps * WARP), BLOCKS)
