"""Data of one kernel launch, and its arguments. This module does not use CuPy."""

from __future__ import annotations

from typing import Any, NamedTuple

from dmlgather.backends.cuda.arguments import Arguments
from dmlgather.backends.cuda.launch_form import LaunchForm
from dmlgather.backends.cuda.variants import BLOCK, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

MAX_THREADS = 2**31 - 1
"""Most threads of one launch, or most blocks for kernels that count blocks."""
DEFAULT_SHARED = 48 * 1024
"""Most bytes of shared memory of a block that does not opt in to more."""
SHARED_BYTES = 227 * 1024
"""Most bytes of shared memory of a block on an unknown GPU: the limit of sm_90 and sm_100."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system reserves for each block, from sm_80 on."""


class LaunchTarget(NamedTuple):
    """The alignment of the pointers, and the GPU that kernels are chosen for.

    `shared_bytes`: the maximum shared memory of a block in bytes, if the kernel opts in to more than the default.
    """

    alignment: int
    multiprocessors: int
    shared_bytes: int = SHARED_BYTES


class Launch(NamedTuple):
    """One kernel launch of `grid` blocks with `block` threads each.

    `arguments`: the kernel's argument block, with null pointers.
    `table`: bytes that the kernel reads from device memory.
    `input_in_table`: the offset in `table` of a fill value that the kernel reads as its input; None for the caller's input.
    `why`: the reason to choose this kernel, as `explain` prints it.
    `along`: the size of the dimension along which a thread moves several elements, or 0.
    `box`: the sizes of a tile, slowest dimension first.
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
        """Append the bytes `element` to the table, and return a launch that reads them as the input."""
        at = -(-len(self.table) // 16) * 16
        return self._replace(table=self.table.ljust(at, b"\0") + element, input_in_table=at)


def launchable(threads: int) -> bool:
    """Return True if one launch can number this many threads, runs or tiles."""
    return threads <= MAX_THREADS


def arguments_of(work: Work, form: LaunchForm) -> Arguments:
    """Return the arguments of a launch that distributes `work` over threads as `form` says."""
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
    """Return the arguments of a launch that depend only on `work`, by name."""
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
    """Return the launch of kernel `variant` with these arguments, or None if it would have too many threads."""
    if not launchable(arguments.threads):
        return None
    general, blocks = variant.kind in (KernelKind.GENERAL, KernelKind.CHECK), -(-arguments.threads // BLOCK)
    return Launch(variant, blocks, arguments.pack(general), table=arguments.table() if general else b"", along=along)
