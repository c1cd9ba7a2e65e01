"""From a plan to kernel launches: pure planning, no CuPy. The host-built kernels of the tests run exactly these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from dmlgather.backends.cuda.arguments import Arguments
from dmlgather.backends.cuda.families import launch_of
from dmlgather.backends.cuda.launch import Launch, Target, general_launch, index_arguments
from dmlgather.backends.cuda.variants import Kind, Variant
from dmlgather.backends.cuda.work import Work, check_rank
from dmlgather.plan import IndexPlan, OutOfBounds, canonicalise

MULTIPROCESSORS = 132
"""Assumed where the device is not known."""


def launches_for(
    plan: IndexPlan, alignment: int = 16, multiprocessors: int = MULTIPROCESSORS, *, specialise: bool = True
) -> tuple[Launch, ...]:
    """The launches that execute `plan` where input and output pointers are multiples of `alignment` bytes.

    multiprocessors: of the device; decides when threads walk several elements. specialise=False sends every copy through
    the general kernels. ValueError for a plan with more than 32 dimensions or lookups in canonical form, for one that
    looks into an axis without elements under CLAMP or PROMISE, and for a fill value that the alignment cannot write.
    """
    plan.check_limits()
    plan = canonicalise(plan, alignment)
    check_rank(plan)
    if plan.out_of_bounds is OutOfBounds.RAISE and (plan.empty or any(lookup.limit == 0 for lookup in plan.lookups)):
        return tuple(_split(Work.checks(plan), _check))
    if plan.empty:
        return ()
    target = Target(alignment, multiprocessors)
    launches = _split(Work.of(plan), partial(launch_of, target=target, specialise=specialise))
    return tuple(launch.with_input(plan.fill) for launch in launches) if plan.constant else tuple(launches)


def _split(work: Work, launch: Callable[[Work], Launch | None]) -> Iterator[Launch]:
    """The launch of `work`, or of its parts where one launch has too few threads."""
    if whole := launch(work):
        yield whole
    else:
        for half in work.halves():
            yield from _split(half, launch)


def _check(work: Work) -> Launch | None:
    return general_launch(Variant(Kind.CHECK), Arguments(work.dims, work.elements, work.lookups, **index_arguments(work)))
