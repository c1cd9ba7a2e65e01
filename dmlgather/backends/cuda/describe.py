"""Descriptions of a plan's launches, and of the parts of a kernel's name, such as `gather_d3_k2_e4_i4_clamp_each`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.cuda.variants import VARIANTS, KernelKind
from dmlgather.plan import IndexPlan
from dmlgather.wording import counted

WORDS: Mapping[str, str] = {
    "copy": "copies from fixed places: the plan has no lookups",
    "reverse": "copies backwards: vectors of 16 bytes are read, and their elements reversed",
    "tiles": "copies by tiles: boxes of elements, which are transposed in shared memory",
    "stretch": "copies by tiles that are contiguous in the output; stores begin and end at sectors of memory",
    "squares": "copies by tiles: squares of elements are read from shared memory row by row, and transposed in registers",
    "gather": "copies from places that are looked up",
    "span": "copies long runs of bytes that may begin at any address",
    "staged": "loads each row of the input into shared memory, and gathers from there",
    "long": "for long rows: a block has one row at a time, and the positions of all its columns in shared memory",
    "general": "takes any plan: it reads dimensions and lookups from a table when it runs",
    "check_indices_only": "copies nothing; it only checks for indices out of range",
    "clamp": "compiled for CLAMP and PROMISE: it moves an index out of range to the nearest valid position",
    "checked": "compiled for FILL and RAISE: it notices an index out of range",
    "told": "told at launch whether to detect an index out of range, or to move it to the nearest valid position",
    "once": "a thread resolves its indices once, as they are the same along its whole walk",
    "each": "a thread resolves indices again in each step of its walk",
}
"""Meaning of the words in a kernel's name."""

LETTERS: Mapping[str, tuple[str, str]] = {
    "d": ("dimension", "of threads; along one more, each thread walks: it moves several elements"),
    "k": ("lookup", "for each element"),
    "e": ("byte", "in an element"),
    "i": ("byte", "in an index"),
    "l": ("byte", "in a load"),
    "s": ("byte", "in a store"),
}
"""Meaning of `d3`, `k2`, … in a kernel's name: what the number counts, and the text after it."""


def name_legend(name: str) -> tuple[tuple[str, str], ...]:
    """Return each part of a kernel's name with its meaning. The result is empty for an unknown name."""
    return tuple(_parts(name)) if any(variant.name == name for variant in VARIANTS) else ()


def _parts(name: str) -> Iterator[tuple[str, str]]:
    for part in [name] if name in WORDS else name.split("_"):
        if part in WORDS:
            yield part, WORDS[part]
        else:
            counts, rest = LETTERS[part[0]]
            yield part, f"{counted(int(part[1:]), counts)} {rest}"


def describe(plan: IndexPlan, alignment: int = 16) -> str:
    """Return the description of the launches that execute `plan`, for a GPU with the default number of multiprocessors."""
    try:
        return describe_launches(launches_for(plan, alignment))
    except ValueError as error:
        return f"refused: {error}"


def describe_launches(launches: Sequence[Launch]) -> str:
    """Return two lines for each launch: what is launched, and the reason for its kernel."""
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
