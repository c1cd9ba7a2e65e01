"""From a plan to kernel launches: pure planning, no CuPy. The host-built kernels of the tests run exactly these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dmlgather.backends.cuda.arguments import MAX_DIMENSIONS, Arguments, Dimension
from dmlgather.backends.cuda.form import Form, launch_form
from dmlgather.backends.cuda.slices import reversed_vectors, transposed_axis
from dmlgather.backends.cuda.variants import BLOCK, GENERAL_UNROLL, VARIANTS, Kind, Variant
from dmlgather.backends.cuda.work import Work, check_rank
from dmlgather.plan import IndexPlan, OutOfBounds, canonicalise

MAX_THREADS = 2**31 - 1
"""Threads, and blocks of a transpose, of one launch; larger plans are split."""
MULTIPROCESSORS = 132
"""Assumed where the device is not known."""
TILE = 32
"""Edge of a transposed tile, in elements."""

_DECLARED = frozenset(VARIANTS)


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    arguments: the by-value block with null pointers. table: bytes that the kernel reads from device memory, through the
    block's `table` pointer, or as its input where `input_is_table` is set.
    """

    variant: Variant
    grid: int
    arguments: bytes
    table: bytes = b""
    input_in_table: int | None = None
    block: int = BLOCK


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
    planner = _Planner(alignment, multiprocessors, specialise)
    if plan.out_of_bounds is OutOfBounds.RAISE and (plan.empty or any(lookup.limit == 0 for lookup in plan.lookups)):
        return tuple(_split(Work.checks(plan), _check))
    if plan.empty:
        return ()
    launches = _split(Work.of(plan), planner.copy)
    return tuple(_with_input(launch, plan.fill) for launch in launches) if plan.constant else tuple(launches)


def _with_input(launch: Launch, fill: bytes) -> Launch:
    """The launch with the fill value as its input, behind the table it has."""
    at = -(-len(launch.table) // 16) * 16
    return replace(launch, table=launch.table.ljust(at, b"\0") + fill, input_in_table=at)


def _split(work: Work, launch: Callable[[Work], Launch | None]) -> Iterator[Launch]:
    """The launch of `work`, or of its parts where one launch has too few threads."""
    if whole := launch(work):
        yield whole
    else:
        for half in work.halves():
            yield from _split(half, launch)


def _check(work: Work) -> Launch | None:
    return _general(Variant(Kind.CHECK), Arguments(work.dims, work.elements, work.lookups, **_indices(work)))


@dataclass(frozen=True, slots=True)
class _Planner:
    alignment: int
    multiprocessors: int
    specialise: bool

    def copy(self, work: Work) -> Launch | None:
        """One launch that moves all of `work`, None where it has too many threads."""
        launch = (self._transpose(work) or self._reverse(work) or self._specialised(work)) if self.specialise else None
        return launch or self._general(work)

    def _transpose(self, work: Work) -> Launch | None:
        axis = transposed_axis(work)
        if axis is None or len(work.dims) > MAX_DIMENSIONS or not all(dim.fits() for dim in work.dims):
            return None
        turned = (work.dims[0], work.dims[axis])
        batches = [dim for dim in work.dims if dim not in turned]
        tiles = [replace(dim, size=-(-dim.size // TILE)) for dim in turned]
        padding = [Dimension(1)] * (MAX_DIMENSIONS - len(work.dims))
        form = Form((*tiles, *batches, *padding), Dimension(1), 0, False, True)
        if form.threads > MAX_THREADS:
            return None
        extent = (turned[0].size, turned[1].size)
        arguments = replace(_arguments(work, form), extent=extent)
        return Launch(Variant(Kind.TRANSPOSE, MAX_DIMENSIONS, work.element_bytes), form.threads, arguments.pack(general=False))

    def _reverse(self, work: Work) -> Launch | None:
        vectors = reversed_vectors(work, self.alignment)
        if vectors is None:
            return None
        return self._threads(vectors, lambda _: Variant(Kind.REVERSE, element_bytes=work.element_bytes))

    def _specialised(self, work: Work) -> Launch | None:
        if not work.lookups:
            return self._threads(work, lambda _: Variant(Kind.COPY, element_bytes=work.element_bytes))
        if not all(lookup.fits() for lookup in work.lookups):
            return None
        variant = Variant(Kind.GATHER, 0, work.element_bytes, len(work.lookups), work.index_bytes, work.checked)
        return self._threads(work, lambda invariant: replace(variant, invariant=invariant))

    def _threads(self, work: Work, variant_of: Callable[[bool], Variant]) -> Launch | None:
        """A launch of the declared variant with the fewest thread dimensions that `work` fits."""
        form = launch_form(work.dims, work.element_bytes, lambda invariant: variant_of(invariant).unroll, self.multiprocessors)
        wanted = variant_of(form.invariant)
        for dimensions in range(len(form.dimensions), MAX_DIMENSIONS + 1):
            variant = replace(wanted, dimensions=dimensions)
            if variant in _DECLARED and form.threads <= MAX_THREADS and all(dim.fits() for dim in form.dimensions):
                return _launch(variant, _arguments(work, form.padded(dimensions)).pack(general=False), form.threads)
        return None

    def _general(self, work: Work) -> Launch | None:
        form = launch_form(work.dims, work.element_bytes, lambda _: GENERAL_UNROLL, self.multiprocessors)
        return _general(Variant(Kind.GENERAL, element_bytes=work.element_bytes), _arguments(work, form))


def _arguments(work: Work, form: Form) -> Arguments:
    lookups = (replace(lookup, walk=step) for lookup, step in zip(work.lookups, form.walked.index_steps, strict=True))
    return Arguments(
        dimensions=form.dimensions,
        threads=form.threads,
        lookups=tuple(lookups),
        in_offset=work.in_offset,
        out_offset=work.out_offset,
        in_walk=form.walked.in_step,
        out_walk=form.walked.out_step,
        full=form.full,
        chunk_slowest=form.chunk_slowest,
        fill=work.fill,
        **_indices(work),
    )


def _indices(work: Work) -> dict[str, Any]:
    signed = any(lookup.signed for lookup in work.lookups)
    return {"index_shift": max(work.index_bytes, 1).bit_length() - 1, "index_signed": signed, "checked": work.checked}


def _general(variant: Variant, arguments: Arguments) -> Launch | None:
    if arguments.threads > MAX_THREADS:
        return None
    launch = _launch(variant, arguments.pack(general=True), arguments.threads)
    return replace(launch, table=arguments.table())


def _launch(variant: Variant, arguments: bytes, threads: int) -> Launch:
    return Launch(variant, -(-threads // BLOCK), arguments)
