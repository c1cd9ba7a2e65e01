"""One kernel launch as data, and its arguments, made from a `Work` and a launch form. This module does not use CuPy."""

from __future__ import annotations

from typing import Any, NamedTuple

from dmlgather.backends.cuda.arguments import Arguments
from dmlgather.backends.cuda.launch_form import LaunchForm
from dmlgather.backends.cuda.variants import BLOCK, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

MAX_THREADS = 2**31 - 1
"""Maximum number of threads of one launch, or of blocks if the kernel counts blocks. A plan that needs more of them is split."""
DEFAULT_SHARED = 48 * 1024
"""Bytes of shared memory that a block of any kernel may have without opting in."""
SHARED_BYTES = 227 * 1024
"""Bytes of shared memory that a block may have after opting in, if the device is not known: the limit of sm_90 and sm_100. sm_80
allows 163 KB, sm_75 allows 64 KB, and sm_86, sm_89 and sm_120 allow 99 KB (NVIDIA's CUDA programming guide).
"""
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system reserves per block, from sm_80 on. One block may have all other shared memory of a
multiprocessor.
"""


class LaunchTarget(NamedTuple):
    """The pointers and the GPU for which a launch is planned.

    `alignment`: of the pointers, in bytes. `multiprocessors`: number on the GPU. `shared_bytes`: shared memory that a block may
    have after opting in.
    """

    alignment: int
    multiprocessors: int
    shared_bytes: int = SHARED_BYTES


class Launch(NamedTuple):
    """One kernel launch.

    `grid`, `block`: number of blocks, and threads per block.
    `arguments`: the by-value argument block with null pointers.
    `table`: bytes that the kernel reads from device memory, through the pointer `table` of its arguments.
    `input_in_table`: offset of the kernel's input in the table, in bytes; None to read the caller's input.
    `shared_bytes`: dynamic shared memory per block.
    The last fields are for `explain`. `why`: the reason for this kernel. `along`: size of the walked dimension (see
    `launch_form.py`), or 0 if each thread moves one element. `box`: sizes of a tile, slowest dimension first.
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
        """Return the launch with `element` appended to its table; the kernel reads it as its input."""
        at = -(-len(self.table) // 16) * 16
        return self._replace(table=self.table.ljust(at, b"\0") + element, input_in_table=at)


def launchable(threads: int) -> bool:
    """Return True if one launch can have this many threads (blocks, if the kernel counts blocks)."""
    return threads <= MAX_THREADS


def arguments_of(work: Work, form: LaunchForm) -> Arguments:
    """Return the arguments of `work` launched in `form`."""
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
    """Return the arguments that do not depend on the launch form."""
    return {
        "lookups": work.lookups,
        "in_offset": work.in_offset,
        "out_offset": work.out_offset,
        "index_shift": max(work.index_bytes, 1).bit_length() - 1,
        "index_signed": any(lookup.signed for lookup in work.lookups),
        "checked": work.checked,
        "fill": work.fill,
    }


def launch(variant: Variant, arguments: Arguments, along: int = 0) -> Launch | None:
    """Return a launch with `arguments.threads` threads; None if one launch cannot have this many threads."""
    if not launchable(arguments.threads):
        return None
    general, blocks = variant.kind in (KernelKind.GENERAL, KernelKind.CHECK), -(-arguments.threads // BLOCK)
    return Launch(variant, blocks, arguments.pack(general), table=arguments.table() if general else b"", along=along)
