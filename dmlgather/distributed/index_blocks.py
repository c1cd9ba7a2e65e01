"""How many indices are gathered at a time: blocks of the output, and groups of blocks that share the loads of their chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeVar

from dmlgather.dialects.problem import whole
from dmlgather.distributed.chunk_grid import Chunks

T = TypeVar("T")

BLOCK_BYTES = 256 * 2**20
"""Bytes of output that one block has at most; a block has at least one index."""

IN_FLIGHT_BYTES = 512 * 2**20
"""Bytes of output of the blocks of one group at most; a group has at least one block. A worker holds the rows of a group."""


def even(size: int, largest: int) -> tuple[int, ...]:
    """The fewest chunks of at most `largest` (>= 1) whose sizes add up to `size` and differ by at most 1; one empty one of 0."""
    count = max(-(-size // largest), 1)
    small, more = divmod(size, count)
    return (small + 1,) * more + (small,) * (count - more)


def block_chunks(shape: Sequence[int], bytes_each: int, block_bytes: int = BLOCK_BYTES) -> Chunks:
    """Chunks along each dimension of an index array of `shape`, such that a block of them has at most `block_bytes` of output.

    bytes_each: output bytes of one index. A block of one index may exceed `block_bytes`. Leading dimensions are split first, and
    trailing ones stay whole while they fit; nothing is split where there is no output.
    TypeError unless block_bytes is a whole number, ValueError unless it is at least 1.
    """
    if whole("block_bytes", block_bytes) < 1:
        raise ValueError(f"block_bytes is {block_bytes}, expected at least 1 (bytes of output per block of indices)")
    if not bytes_each * prod(shape):
        return tuple((size,) for size in shape)
    room = max(block_bytes // bytes_each, 1)
    chunks: list[tuple[int, ...]] = []
    for size in reversed(shape):
        chunks.append(even(size, room))
        room = max(room // size, 1)
    return tuple(reversed(chunks))


def grouped(
    blocks: Iterable[T], sizes_in_bytes: Iterable[int], in_flight_bytes: int = IN_FLIGHT_BYTES
) -> tuple[tuple[T, ...], ...]:
    """Consecutive blocks whose bytes add up to at most `in_flight_bytes`; a larger block is a group of its own.

    sizes_in_bytes: of each block. TypeError unless in_flight_bytes is a whole number, ValueError unless it is at least 1.
    """
    if whole("in_flight_bytes", in_flight_bytes) < 1:
        raise ValueError(f"in_flight_bytes is {in_flight_bytes}, expected at least 1 (bytes of output per group of blocks)")
    groups: list[list[T]] = []
    total = 0
    for block, size in zip(blocks, sizes_in_bytes, strict=True):
        if not groups or total + size > in_flight_bytes:
            groups.append([])
            total = 0
        groups[-1].append(block)
        total += size
    return tuple(map(tuple, groups))
