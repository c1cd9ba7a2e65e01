"""A plan's kernels and launches, in words."""

from __future__ import annotations

from collections.abc import Sequence

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.cuda.variants import KernelKind
from dmlgather.plan import IndexPlan


def describe(plan: IndexPlan, alignment: int = 16) -> str:
    """The kernels for `plan` and pointers that are multiples of `alignment` bytes, on a GPU of common size. Needs none."""
    try:
        return describe_launches(launches_for(plan, alignment))
    except ValueError as error:
        return f"refused: {error}"


def describe_launches(launches: Sequence[Launch]) -> str:
    """What each launch does and, on a line of its own, why."""
    if not launches:
        return "no launch: nothing is written"
    return "\n".join(
        f"{launch.variant.name}, {launch.grid} block{'s' * (launch.grid != 1)} of {launch.block} threads: {_what(launch)}"
        + (f"\n  ({launch.why})" if launch.why else "")
        for launch in launches
    )


def _what(launch: Launch) -> str:
    variant = launch.variant
    elements = f"{variant.element_bytes}-byte elements"
    walk = f"up to {variant.unroll} per thread" + (f" along the dimension of {launch.along}" if launch.along else "")
    if variant.kind in (KernelKind.COPY, KernelKind.REVERSE, KernelKind.GATHER, KernelKind.GENERAL) and not launch.along:
        walk = "one per thread"
    match variant.kind:
        case KernelKind.COPY:
            return f"{elements}, {walk}"
        case KernelKind.REVERSE:
            return f"16-byte vectors of {elements} in reverse, {walk}"
        case KernelKind.TILES | KernelKind.STRETCH | KernelKind.SQUARES:
            box = " x ".join(map(str, launch.box))
            units = f"loads of {variant.load_bytes} and stores of {variant.store_bytes} bytes"
            runs = ", each one run of the output" if variant.kind is KernelKind.STRETCH else ""
            edge = variant.store_bytes // variant.element_bytes
            turned = f", squares of {edge} x {edge} turned in registers" if variant.kind is KernelKind.SQUARES else ""
            return f"tiles of {box} {elements} in shared memory, {units}{runs}{turned}"
        case KernelKind.GATHER:
            return f"{elements}, {walk}, indices resolved {'once per thread' if variant.invariant else 'for each element'}"
        case KernelKind.SPAN:
            resolved = ", indices resolved once per thread" if variant.lookups else ""
            return f"runs of bytes by 16-byte vectors, each from two aligned ones, {walk}{resolved}"
        case KernelKind.STAGED:
            return f"rows in shared memory, {elements}, {walk} and row, indices resolved once per block"
        case KernelKind.LONG:
            return f"long rows in shared memory, {elements}, {walk} at once, indices resolved once per block"
        case KernelKind.GENERAL:
            return f"{elements}, {walk}, dimensions and lookups from a table"
    return "only looks at the indices"
