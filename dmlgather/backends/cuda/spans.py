"""Span kernels: they move runs of bytes at any alignment. Two aligned vectors of input make one of output."""

from __future__ import annotations

from math import prod

from dmlgather.backends.cuda.arguments import Arguments, Dimension, PackedRuns
from dmlgather.backends.cuda.cost import LINE, element_cost, span_cost
from dmlgather.backends.cuda.launch import Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.launch_form import launch_form
from dmlgather.backends.cuda.variants import BLOCK, DECLARED, SPAN_UNROLL, VECTOR, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

WIDEST = 2
"""Most bytes of an element. By `cost.py`, wider elements cost less one by one, for runs below 8.5 KB."""
SHORTEST = 32
"""Fewest bytes of a run, so a vector lies in at most two runs."""
LONGEST = 2**30 - 1
"""Most bytes of a run. Kernels count them, and a few more, in 31 bits."""
BLOCKS = 1
"""Fewest blocks per multiprocessor if a thread moves several vectors. Assumed."""


def span_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """Return one launch of a span kernel, which copies contiguous runs of bytes at any alignment.

    Returns None if span kernels cannot execute `work`, or if copying single elements costs less. All elements of a run must
    have the same indices and be adjacent in the input. In the output, each run must begin where the previous run ends.
    """
    run, *runs = work.dims
    size, run_bytes = work.element_bytes, work.dims[0].size * work.element_bytes
    contiguous = run.in_step == size and not any(run.index_steps)
    if size > WIDEST or not contiguous or not SHORTEST <= run_bytes <= LONGEST or not _packed(work):
        return None
    dimensions = 2 if len(runs) <= 1 and len(work.lookups) == 1 else 3
    checked = work.checked and bool(work.lookups)
    variant = Variant(KernelKind.SPAN, dimensions, VECTOR, len(work.lookups), work.index_bytes, checked)
    fit = all(dim.fits() for dim in runs) and all(lookup.fits() for lookup in work.lookups)
    count = prod(dim.size for dim in runs)
    steps, blocks = _steps(run_bytes * count, target.multiprocessors)
    if variant not in DECLARED or len(runs) >= dimensions or not (fit and launchable(count) and launchable(blocks * BLOCK)):
        return None
    if not _pays(work, run_bytes, target):
        return None
    padding = (Dimension(1),) * (dimensions - 1 - len(runs))
    arguments = Arguments(
        dimensions=(Dimension(run_bytes), *runs, *padding),
        threads=blocks * BLOCK,
        in_bytes=work.in_bytes,
        runs=PackedRuns(run_bytes, count, steps),
        **work_arguments(work),
    )
    return Launch(variant, blocks, arguments.pack(general=False))


def too_long(work: Work) -> bool:
    """Return True if `work` is one contiguous run that is too long for a span kernel. The caller must split such work."""
    run, size = work.dims[0], work.element_bytes
    one = len(work.dims) == 1 and (run.in_step, run.out_step) == (size, size) and not any(run.index_steps)
    return one and size <= WIDEST and run.size * size > LONGEST


def _pays(work: Work, run_bytes: int, target: LaunchTarget) -> bool:
    """Return True if a span kernel costs less than a kernel that copies single elements."""
    size, lookups, index_bytes = work.element_bytes, len(work.lookups), work.index_bytes
    variants = [Variant(KernelKind.GATHER, 0, size, lookups, index_bytes, work.checked, once) for once in (False, True)]
    form = launch_form(work, (variants[False].unroll, variants[True].unroll), target.multiprocessors)
    looked_up = bool(lookups)
    return span_cost(run_bytes, looked_up) < element_cost(work.element_bytes, looked_up, form.invariant and form.moved > 1)


def _packed(work: Work) -> bool:
    """Return True if each run of the output begins at the end of the previous run."""
    end = work.element_bytes
    for dim in work.dims:
        if dim.out_step != end:
            return False
        end *= dim.size
    return True


def _steps(out_bytes: int, multiprocessors: int) -> tuple[int, int]:
    most_bytes = out_bytes + LINE - 1
    for steps in (SPAN_UNROLL, 2, 1):
        blocks = -(-most_bytes // (BLOCK * VECTOR * steps))
        if blocks >= BLOCKS * multiprocessors:
            break
    return steps, blocks
