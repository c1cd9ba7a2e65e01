"""Which kernel moves which work. The table is read from the top: the first family that can say the work, and is worth it, does.

Every family is correct for all work it accepts; `general` accepts everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dmlgather.backends.cuda.arguments import MAX_DIMENSIONS, Dimension
from dmlgather.backends.cuda.form import Form, launch_form
from dmlgather.backends.cuda.launch import Launch, Target, arguments_of, general_launch, launch, launchable
from dmlgather.backends.cuda.slices import reversed_vectors, transposed_axis
from dmlgather.backends.cuda.spans import span_launch
from dmlgather.backends.cuda.staged import staged_launch
from dmlgather.backends.cuda.variants import GENERAL_UNROLL, VARIANTS, Kind, Variant
from dmlgather.backends.cuda.work import Work

TILE = 32
"""Edge of a transposed tile, in elements."""

_DECLARED = frozenset(VARIANTS)


@dataclass(frozen=True, slots=True)
class Family:
    """why: the reason, for `explain`. launch: one launch that moves all of the work; None where the family does not serve it,
    or where one launch has too few threads.
    """

    name: str
    why: str
    launch: Callable[[Work, Target], Launch | None]


def launch_of(work: Work, target: Target, *, specialise: bool = True) -> Launch | None:
    """The launch of the first family that serves `work`; None where it has to be split."""
    for family in FAMILIES if specialise else FAMILIES[-1:]:
        if found := family.launch(work, target):
            return replace(found, why=family.why)
    return None


def _transposed(work: Work, _: Target) -> Launch | None:
    axis = transposed_axis(work)
    if axis is None or len(work.dims) > MAX_DIMENSIONS or not all(dim.fits() for dim in work.dims):
        return None
    turned = (work.dims[0], work.dims[axis])
    batches = [dim for dim in work.dims if dim not in turned]
    tiles = [replace(dim, size=-(-dim.size // TILE)) for dim in turned]
    padding = [Dimension(1)] * (MAX_DIMENSIONS - len(work.dims))
    form = Form((*tiles, *batches, *padding), Dimension(1), 0, False, True)
    if not launchable(form.threads):
        return None
    arguments = replace(arguments_of(work, form), extent=(turned[0].size, turned[1].size))
    return Launch(Variant(Kind.TRANSPOSE, MAX_DIMENSIONS, work.element_bytes), form.threads, arguments.pack(general=False))


def _reversed(work: Work, target: Target) -> Launch | None:
    vectors = reversed_vectors(work, target.alignment)
    if vectors is None:
        return None
    return _threads(vectors, target, lambda _: Variant(Kind.REVERSE, element_bytes=work.element_bytes))


def _elements(work: Work, target: Target) -> Launch | None:
    if not work.lookups:
        return _threads(work, target, lambda _: Variant(Kind.COPY, element_bytes=work.element_bytes))
    if not all(lookup.fits() for lookup in work.lookups):
        return None
    variant = Variant(Kind.GATHER, 0, work.element_bytes, len(work.lookups), work.index_bytes, work.checked)
    return _threads(work, target, lambda invariant: replace(variant, invariant=invariant))


def _threads(work: Work, target: Target, variant_of: Callable[[bool], Variant]) -> Launch | None:
    """A launch of the declared variant with the fewest thread dimensions that `work` fits."""
    form = launch_form(work.dims, work.element_bytes, lambda invariant: variant_of(invariant).unroll, target.multiprocessors)
    wanted = variant_of(form.invariant)
    for dimensions in range(len(form.dimensions), MAX_DIMENSIONS + 1):
        variant = replace(wanted, dimensions=dimensions)
        if variant in _DECLARED and launchable(form.threads) and all(dim.fits() for dim in form.dimensions):
            return launch(variant, arguments_of(work, form.padded(dimensions)))
    return None


def _general(work: Work, target: Target) -> Launch | None:
    form = launch_form(work.dims, work.element_bytes, lambda _: GENERAL_UNROLL, target.multiprocessors)
    return general_launch(Variant(Kind.GENERAL, element_bytes=work.element_bytes), arguments_of(work, form))


FAMILIES = (
    Family("transposed", "input and output run along different dimensions, so tiles are turned in shared memory", _transposed),
    Family("reversed", "the input runs backwards, so vectors are read from mirrored addresses and turned", _reversed),
    Family("staged", "rows are read in no order, so each comes into shared memory whole and is gathered there", staged_launch),
    Family("spans", "long runs at addresses that are no multiples of 16: a vector comes from two aligned ones", span_launch),
    Family("elements", "elements of the widest size that every address is a multiple of", _elements),
    Family("general", "too many dimensions or lookups, a narrow index type, or steps beyond 31 bits", _general),
)
