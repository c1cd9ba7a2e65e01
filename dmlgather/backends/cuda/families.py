"""The kernel launches that execute a plan, by a table of kernel families in order of preference.

This module does not use CuPy, so tests run its launches in an interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from dmlgather.backends.cuda.arguments import MAX_DIMENSIONS, Arguments, Dimension
from dmlgather.backends.cuda.launch import SHARED_BYTES, Launch, LaunchTarget, arguments_of, launch, work_arguments
from dmlgather.backends.cuda.launch_form import launch_form
from dmlgather.backends.cuda.spans import span_launch, too_long
from dmlgather.backends.cuda.staged import staged_launch
from dmlgather.backends.cuda.tiles import tile_launch
from dmlgather.backends.cuda.variants import DECLARED, GENERAL_UNROLL, TOLD_LOOKUPS, VECTOR, KernelKind, Variant
from dmlgather.backends.cuda.work import Work, check_rank
from dmlgather.plan import IndexPlan, OutOfBounds, canonicalise

MULTIPROCESSORS = 132
"""Assumed for an unknown GPU."""


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels that move elements in the same way, such as by tiles.

    `why`: the reason to choose these kernels, as `explain` prints it.
    `launch`: function that returns a launch for a `Work`, or None if these kernels cannot execute it.
    """

    name: str
    why: str
    launch: Callable[[Work, LaunchTarget], Launch | None]


def launch_of(work: Work, target: LaunchTarget, *, specialise: bool = True) -> Launch | None:
    """Return the launch of the first family that can execute `work`, or None if `work` must be split."""
    if specialise and too_long(work):
        return None
    for family in FAMILIES if specialise else FAMILIES[-1:]:
        if accepted := family.launch(work, target):
            return accepted._replace(why=family.why)
    return None


def launches_for(
    plan: IndexPlan,
    alignment: int = 16,
    multiprocessors: int = MULTIPROCESSORS,
    shared_bytes: int = SHARED_BYTES,
    *,
    specialise: bool = True,
) -> tuple[Launch, ...]:
    """Return the launches that execute `plan`.

    `alignment`: the alignment of the input and output pointers, in bytes. `specialise`: False to use only the general kernels.

    Raises ValueError if the plan is beyond the kernels' limits, if a CLAMP or PROMISE plan indexes an axis of size 0, or if the
    alignment is too small to write the fill value.
    """
    plan.check_limits()
    plan = canonicalise(plan, alignment)
    check_rank(plan)
    if plan.out_of_bounds is OutOfBounds.RAISE and (plan.empty or any(lookup.limit == 0 for lookup in plan.lookups)):
        return tuple(_split(Work.checks(plan), _check))
    if plan.empty:
        return ()
    target = LaunchTarget(alignment, multiprocessors, shared_bytes)
    launches = _split(Work.of(plan), partial(launch_of, target=target, specialise=specialise))
    return tuple(launch.with_input(plan.fill) for launch in launches) if plan.constant else tuple(launches)


def _split(work: Work, launch: Callable[[Work], Launch | None]) -> Iterator[Launch]:
    if whole := launch(work):
        yield whole
    else:
        for half in work.halves():
            yield from _split(half, launch)


def _check(work: Work) -> Launch | None:
    return launch(Variant(KernelKind.CHECK), Arguments(work.dims, work.elements, **work_arguments(work)))


def _reversed(work: Work, target: LaunchTarget) -> Launch | None:
    inner, size = work.dims[0], work.element_bytes
    if work.lookups or (inner.out_step, inner.in_step) != (size, -size) or target.alignment < VECTOR or size == VECTOR:
        return None
    lanes = VECTOR // size
    in_offset = work.in_offset - (VECTOR - size)  # in the input, a vector's last element comes first
    steps = [step for dim in work.dims[1:] for step in (dim.in_step, dim.out_step)]
    if inner.size % lanes or any(at % VECTOR for at in (in_offset, work.out_offset, *steps)):
        return None
    dims = (Dimension(inner.size // lanes, VECTOR, -VECTOR), *work.dims[1:])
    vectors, variant = work._replace(dims=dims, element_bytes=VECTOR, in_offset=in_offset), Variant(KernelKind.REVERSE, 0, size)
    return _threads(vectors, target, (variant, variant))


def _elements(work: Work, target: LaunchTarget) -> Launch | None:
    if not work.lookups:
        variant = Variant(KernelKind.COPY, element_bytes=work.element_bytes)
        return _threads(work, target, (variant, variant))
    if not all(lookup.fits() for lookup in work.lookups):
        return None
    lookups = len(work.lookups)
    checked = work.checked or lookups >= TOLD_LOOKUPS
    per_element = Variant(KernelKind.GATHER, 0, work.element_bytes, lookups, work.index_bytes, checked, invariant=False)
    return _threads(work, target, (per_element, per_element._replace(invariant=True)))


def _threads(work: Work, target: LaunchTarget, variants: tuple[Variant, Variant]) -> Launch | None:
    """Return the launch of a kernel whose threads move elements one by one, or None if no kernel fits.

    `variants`: two kernels. The first resolves indices for each element; the second resolves them once per thread.
    """
    form = launch_form(work, (variants[False].unroll, variants[True].unroll), target.multiprocessors)
    if not all(dim.fits() for dim in form.dimensions):
        return None
    for dimensions in range(len(form.dimensions), MAX_DIMENSIONS + 1):
        variant = variants[form.invariant]._replace(dimensions=dimensions)
        if variant in DECLARED:
            return launch(variant, arguments_of(work, form.padded(dimensions)), form.along)
    return None


def _general(work: Work, target: LaunchTarget) -> Launch | None:
    form = launch_form(work, (GENERAL_UNROLL, GENERAL_UNROLL), target.multiprocessors)
    return launch(Variant(KernelKind.GENERAL, element_bytes=work.element_bytes), arguments_of(work, form), form.along)


FAMILIES = (
    Family("reversed", "the input runs backwards, so vectors are read from mirrored addresses and reversed", _reversed),
    Family(
        "staged", "rows are read in random order, so each is loaded into shared memory and gathered from there", staged_launch
    ),
    Family(
        "spans",
        "runs of narrow elements at addresses that are not multiples of 16, so each vector is made from two aligned ones",
        span_launch,
    ),
    Family(
        "tiles",
        "input and output are contiguous along different dimensions, so boxes are transposed in shared memory",
        tile_launch,
    ),
    Family("elements", "single elements, of the widest size to which every address is aligned", _elements),
    Family(
        "general", "no other family takes it: many dimensions or lookups, a narrow index type, or steps beyond 31 bits", _general
    ),
)
