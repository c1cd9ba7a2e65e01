"""Words for the engine's entry, legal or not, and the expected answer. Judge: the constructor of `IndexPlan`."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers, random_plan
from tests.cpu_kernels.cases import HEAD_WORDS, POLICIES, SETS, Case, Settings, machine_sets, plan_words
from tests.cpu_kernels.making import random_settings

MOST_BYTES = 2**62
"""Size of a buffer or of an output from which the engine may refuse a plan."""

SMALL = 100_000
"""Greatest size of buffers in bytes, and of an output in elements, of plans that are run."""

INTERESTING = (
    *(0, 1, -1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 64, 100, 4096, 65_535, 65_536, 65_537),
    *(2**31 - 1, 2**31, 2**32, 2**32 + 1, -(2**31), 2**58, 2**59, 2**60, 2**61, 2**62 - 1, 2**62, 2**62 + 1),
    *(2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, -(2**62), -(2**62) - 1),
)

TYPES = {(kind.bytes, int(kind.signed)): kind for kind in IndexType}


class RefusedError(Exception):
    """Words that are no plan, or none that can be run."""


def plan_of(words: Sequence[int], stated: int) -> IndexPlan:
    """Return the plan that the words state. RefusedError if they state none."""
    if stated < HEAD_WORDS:
        raise RefusedError("no head")
    rank, count, element, index_bytes, signed, policy, in_extent, index_extent, out_extent, *rest = words[:HEAD_WORDS]
    in_offset, out_offset, *fill, threads, block_units, loops = rest
    if not (0 <= rank <= stated and 0 <= count <= stated and stated == HEAD_WORDS + 3 * rank + count * (4 + rank)):
        raise RefusedError("lengths that do not agree")
    if min(threads, block_units, in_extent, index_extent, out_extent) < 0:
        raise RefusedError("a negative number of something")
    if loops not in (0, *(SETS[name] for name in machine_sets())):
        raise RefusedError("an instruction set that this machine lacks")
    if not 0 <= policy < len(POLICIES) or ((index_bytes, signed) not in TYPES if count else index_bytes or signed):
        raise RefusedError("no such policy or index type")
    if fill != [0, 0] and POLICIES[policy] is not OutOfBounds.FILL:
        raise RefusedError("a fill value without use")
    shape, out_strides, in_strides = (tuple(words[HEAD_WORDS + k * rank : HEAD_WORDS + (k + 1) * rank]) for k in range(3))
    starts = range(HEAD_WORDS + 3 * rank, stated, 4 + rank)
    lookups = [Lookup(tuple(words[at + 4 : at + 4 + rank]), *words[at : at + 4]) for at in starts]
    try:
        plan = IndexPlan(
            shape,
            out_strides,
            in_strides,
            element_bytes=element,
            in_extent=in_extent,
            out_extent=out_extent,
            in_offset=in_offset,
            out_offset=out_offset,
            lookups=tuple(lookups),
            index_type=TYPES[index_bytes, signed] if count else None,
            index_extent=index_extent,
            out_of_bounds=POLICIES[policy],
            fill=struct.pack("<qq", *fill)[:element] if POLICIES[policy] is OutOfBounds.FILL else b"",
        )
        plan.check_limits()
    except ValueError as error:
        raise RefusedError(str(error)) from error
    return plan


def lenient(words: Sequence[int]) -> bool:
    """Return True if the engine may accept what `plan_of` refuses: unused values, or truth values above 1."""
    *head, signed = words[:5]
    policy, fill = words[5], words[11:13]
    return (
        signed not in (0, 1) or (head[1] == 0 and signed != 0) or (policy != POLICIES.index(OutOfBounds.FILL) and fill != [0, 0])
    )


def too_large(plan: IndexPlan) -> bool:
    """Return True if the engine may refuse the plan for its size, because no machine has such buffers."""
    output = prod(size for size in plan.shape if size)
    extents = (plan.in_extent, plan.out_extent, output)
    indices = plan.index_extent * (plan.index_type.bytes if plan.index_type else 1)
    largest = max(max(extents) * plan.element_bytes, indices)
    return largest >= MOST_BYTES or plan.rank > 2**16 or len(plan.lookups) > 2**16


def is_small(plan: IndexPlan) -> bool:
    """Return True if the plan runs quickly in exact buffers."""
    extents = (
        plan.in_extent,
        plan.out_extent,
        plan.index_extent,
        plan.elements * max(len(plan.lookups), 1),
        prod(plan.index_shape),
    )
    return max(extents) * 16 <= SMALL


def is_ambiguous(plan: IndexPlan) -> bool:
    """Return True if two positions have the same output address."""
    if plan.empty:
        return False
    addresses = np.array([plan.out_offset])
    for size, step in zip(plan.shape, plan.out_strides, strict=True):
        if size > 1:
            addresses = np.add.outer(addresses, np.arange(size) * step).ravel()
    return bool(np.unique(addresses).size < addresses.size)


def judged(words: Sequence[int], stated: int, rng: random.Random) -> Case:
    """Return the case of these words: refused, accepted, or run if the plan is small."""
    title = f"{stated} of {len(words)} words: {list(words[:60])}"
    try:
        plan = plan_of(words, stated)
    except RefusedError as error:
        accepted = None if stated >= HEAD_WORDS and lenient(words) else False
        return Case(words, accepted, stated=stated, title=f"{title}\n{error}")
    if too_large(plan):
        return Case(words, None, stated=stated, title=f"{title}\n{plan}")
    if not is_small(plan):
        return Case(words, stated=stated, title=f"{title}\n{plan}")
    case = Case.of(plan, random_buffers(plan, rng))
    return replace(case, words=words, ambiguous=is_ambiguous(plan), title=f"{title}\n{plan}")


def in_64_bits(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def tight(plan: IndexPlan) -> IndexPlan:
    """Return the same plan with the smallest extents."""
    spans = (plan.in_reach, plan.index_reach, plan.out_reach)
    ends = [span[1] + 1 if span else 0 for span in spans]
    return replace(plan, in_extent=ends[0], index_extent=ends[1], out_extent=ends[2])


def stretched(plan: IndexPlan, by: int) -> IndexPlan:
    """Return the same plan with distances between elements multiplied by `by`."""
    return replace(
        plan,
        out_strides=tuple(by * step for step in plan.out_strides),
        in_strides=tuple(by * step for step in plan.in_strides),
        in_extent=by * plan.in_extent,
        out_extent=by * plan.out_extent,
        index_extent=by * plan.index_extent,
        in_offset=by * plan.in_offset,
        out_offset=by * plan.out_offset,
        lookups=tuple(
            replace(
                lookup,
                index_strides=tuple(by * step for step in lookup.index_strides),
                index_offset=by * lookup.index_offset,
                in_stride=by * lookup.in_stride,
            )
            for lookup in plan.lookups
        ),
    )


def changed(words: list[int], rng: random.Random) -> list[int]:
    """Return the words with one to four changes, sometimes in the policy and a limit."""
    rank, lookups = words[:2]
    if lookups and rng.random() < 0.2:
        words[5] = rng.randrange(len(POLICIES))
        words[HEAD_WORDS + 3 * rank + rng.randrange(lookups) * (4 + rank) + 1] = rng.choice((0, 0, 1, 2))
        return words
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.choice((rng.randrange(len(words)), rng.randrange(min(len(words), HEAD_WORDS))))
        near = (words[at] + 1, words[at] - 1, -words[at], 2 * words[at], words[at] << 32, words[at] + 2**32, rng.choice(words))
        words[at] = in_64_bits(rng.choice((*near, rng.choice(INTERESTING), rng.choice(INTERESTING), rng.getrandbits(64))))
    return words


def random_words(rng: random.Random) -> list[int]:
    """Return the right number of words, sometimes with a legal head."""
    rank, count = rng.choice((0, 1, 1, 2, 3)), rng.choice((0, 1, 1, 2))
    words = [rng.choice(INTERESTING) for _ in range(HEAD_WORDS + 3 * rank + count * (4 + rank))]
    words[:2] = rank, count
    if rng.random() < 0.9:
        words[2:6] = 1 << rng.randrange(5), count and 1 << rng.randrange(4), count and rng.randrange(2), rng.randrange(4)
        words[6:9] = (rng.choice((100, 2**31, 2**58, 2**62 - 1, 2**63 - 1)) for _ in range(3))
        words[9:16] = rng.choice((0, 0, 1, 2**61)), rng.choice((0, 0, 1, 2**61)), 0, 0, 1, rng.choice((0, 1, 2**63 - 1)), 0
    return words


def entry_cases(rng: random.Random, count: int) -> Iterator[Case]:
    """Yield legal plans, plain, tight and stretched; nearly legal words; random words; and wrong lengths."""
    for _ in range(count):
        plan = tight(random_plan(rng, elements=rng.choice((20, 300)))) if rng.random() < 0.5 else random_plan(rng, elements=300)
        if rng.random() < 0.3:
            plan = stretched(plan, rng.choice((1, 2, 2**20, 2**31, 2**40, 2**50, 2**61 // max(plan.in_extent, 1))))
        if not fits(plan):
            continue
        words = plan_words(plan, random_settings(rng))
        kind = rng.random()
        if kind < 0.6:
            words = changed(words, rng)
        elif kind < 0.8:
            words = random_words(rng)
        stated = len(words)
        if rng.random() < 0.1:
            stated = rng.choice((stated - 1, rng.randrange(stated), 0, -1, -(2**63), HEAD_WORDS, HEAD_WORDS - 1))
            words = words[: max(stated, 0)]
        yield judged(words, stated, rng)


def fits(plan: IndexPlan) -> bool:
    """Return True if the plan's numbers are words."""
    return all(-(2**63) <= word < 2**63 for word in plan_words(plan, Settings()))
