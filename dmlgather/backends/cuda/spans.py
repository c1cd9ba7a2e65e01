"""Runs of bytes at any alignment: aligned 16-byte vectors, each assembled by shifts from two vectors of the input."""

from __future__ import annotations

from math import prod

from dmlgather.backends.cuda import launch_form
from dmlgather.backends.cuda.arguments import Arguments, Dimension
from dmlgather.backends.cuda.launch import Launch, LaunchTarget, launch, launchable, work_arguments
from dmlgather.backends.cuda.variants import SPAN_UNROLL, VARIANTS, VECTOR, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

SHORTEST = {1: 48, 2: 80, 4: 144}
"""Element size -> bytes of the shortest run that pays, if indices are looked up; by instruction counts (docs/kernels.md).
Elements of 8 bytes and more are as cheap one by one.
"""
SHORTEST_SLICED = {1: 80, 2: 208, 4: 1024}
"""The same for slices, where moving elements one by one is cheaper."""
LARGEST_GROUP = 32
"""Runs per group: enough that the threads which move one vector each fill whole warps."""


def span_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """One launch for runs that are contiguous in input and output, without lookups along them; None if `work` has none."""
    run, *runs = work.dims
    size, run_bytes = work.element_bytes, work.dims[0].size * work.element_bytes
    contiguous = (run.out_step, run.in_step) == (size, size) and not any(run.index_steps)
    shortest = (SHORTEST if work.lookups else SHORTEST_SLICED).get(size)
    if not contiguous or shortest is None or run_bytes < shortest:
        return None
    dimensions = 2 if len(runs) <= 1 and len(work.lookups) == 1 else 3
    checked = work.checked and bool(work.lookups)
    variant = Variant(KernelKind.SPAN, dimensions, VECTOR, len(work.lookups), work.index_bytes, checked)
    fit = all(dim.fits() for dim in runs) and all(lookup.fits() for lookup in work.lookups)
    if variant not in VARIANTS or len(runs) >= dimensions or not fit:
        return None
    padding = (Dimension(1),) * (dimensions - 1 - len(runs))
    count = prod(dim.size for dim in runs)
    group = group_of(count)
    groups = -(-count // group)
    # A run starts at most VECTOR - size bytes into a vector, and at least 0: so many vectors hold it, and so many are whole.
    vectors = -(-(run_bytes + VECTOR - size) // VECTOR)
    full = (run_bytes // VECTOR - 1) // SPAN_UNROLL
    # Half of the threads that walk elements: these have twice the bytes in flight.
    if 2 * count * (vectors - (SPAN_UNROLL - 1) * full) < target.multiprocessors * launch_form.THREADS_PER_MULTIPROCESSOR:
        full = 0
    threads = group * (vectors - (SPAN_UNROLL - 1) * full)
    if not launchable(groups * threads):
        return None
    arguments = Arguments(
        dimensions=(Dimension(threads), Dimension(max(full, 1)), *runs, *padding),
        threads=groups * threads,
        in_walk=VECTOR * full,
        out_walk=VECTOR * full,
        in_bytes=work.in_bytes,
        run_bytes=run_bytes,
        full=full,
        extent=(group.bit_length() - 1, 0),
        **work_arguments(work),
    )
    return launch(variant, arguments)


def group_of(runs: int) -> int:
    """The largest power of two that leaves at most an eighth of the groups' places empty."""
    group = LARGEST_GROUP
    while -(-runs // group) * group * 8 > runs * 9:
        group //= 2
    return group
