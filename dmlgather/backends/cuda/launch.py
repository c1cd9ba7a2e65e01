"""One kernel launch as data, and its arguments from work in launch form. Pure planning, no CuPy."""

from __future__ import annotations

from typing import Any, NamedTuple

from dmlgather.backends.cuda.arguments import Arguments
from dmlgather.backends.cuda.launch_form import LaunchForm
from dmlgather.backends.cuda.variants import BLOCK, Variant
from dmlgather.backends.cuda.work import Work

MAX_THREADS = 2**31 - 1
"""Threads, and blocks of a kernel that counts blocks, of one launch; larger plans are split."""
UNASKED_SHARED = 48 * 1024
"""Bytes of shared memory that a block of any kernel may have."""
SHARED_BYTES = 227 * 1024
"""The same for kernels that ask for more, where the device is not known: of sm_90 and sm_100. sm_80 allows 163 KB, sm_75 allows
64 KB, and sm_86, sm_89 and sm_120 allow 99 KB (NVIDIA's CUDA programming guide).
"""
RESERVED_SHARED = 1024
"""Bytes that the system takes of each block, from sm_80 on. A multiprocessor has room for so many more than one block."""


class LaunchTarget(NamedTuple):
    """What a launch is planned for: pointers that are multiples of `alignment` bytes, the GPU's multiprocessors, and the bytes of
    shared memory that it allows a block that asks.
    """

    alignment: int
    multiprocessors: int
    shared_bytes: int = SHARED_BYTES


class Launch(NamedTuple):
    """One kernel launch.

    arguments: the by-value block with null pointers. table: bytes that the kernel reads from device memory, through the
    block's `table` pointer, or as its input where `input_in_table` says at which of its bytes. shared_bytes: of dynamic
    shared memory per block. For `explain`: why: the reason for this kernel; along: the size of the dimension that threads walk, 0
    where they move one element each; box: the sizes of a tile, slowest dimension first.
    """

    variant: Variant
    grid: int
    arguments: bytes
    table: bytes = b""
    input_in_table: int | None = None
    block: int = BLOCK
    shared_bytes: int = 0
    why: str = ""
    along: int = 0
    box: tuple[int, ...] = ()

    def with_input(self, element: bytes) -> Launch:
        """The launch with `element` as its input, behind the table it has."""
        at = -(-len(self.table) // 16) * 16
        return self._replace(table=self.table.ljust(at, b"\0") + element, input_in_table=at)


def launchable(threads: int) -> bool:
    """Whether one launch can have that many threads (or blocks, where a kernel counts those)."""
    return threads <= MAX_THREADS


def arguments_of(work: Work, form: LaunchForm) -> Arguments:
    """The arguments of `work` launched in `form`."""
    lookups = [lookup._replace(walk=step) for lookup, step in zip(work.lookups, form.walked.index_steps, strict=True)]
    return Arguments(
        dimensions=form.dimensions,
        threads=form.threads,
        in_walk=form.walked.in_step,
        out_walk=form.walked.out_step,
        full=form.full,
        chunk=form.chunk,
        **(work_arguments(work) | {"lookups": tuple(lookups)}),
    )


def work_arguments(work: Work) -> dict[str, Any]:
    """The arguments that do not depend on how threads are arranged."""
    return {
        "lookups": work.lookups,
        "in_offset": work.in_offset,
        "out_offset": work.out_offset,
        "index_shift": max(work.index_bytes, 1).bit_length() - 1,
        "index_signed": any(lookup.signed for lookup in work.lookups),
        "checked": work.checked,
        "fill": work.fill,
    }


def launch(variant: Variant, arguments: Arguments, along: int = 0) -> Launch:
    """A launch with a thread per position of the arguments' dimensions; a specialised kernel. along: of the launch."""
    return Launch(variant, _blocks(arguments.threads), arguments.pack(general=False), along=along)


def general_launch(variant: Variant, arguments: Arguments, along: int = 0) -> Launch | None:
    """The same for a general kernel; None where it needs more threads than one launch can have."""
    if not launchable(arguments.threads):
        return None
    blocks, table = _blocks(arguments.threads), arguments.table()
    return Launch(variant, blocks, arguments.pack(general=True), table=table, along=along)


def _blocks(threads: int) -> int:
    return -(-threads // BLOCK)
