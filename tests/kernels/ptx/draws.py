"""Random cases for a variant, or of any shape."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from dmlgather.backends.cuda.variants import Variant
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.selftest.random_plans import plan_for, random_buffers, unwritable_fill
from tests.kernels.ptx.runs import Case


def case_for(variant: Variant, rng: random.Random) -> Case:
    """Return a case that launches the variant. Under RAISE, half of the cases have many bad indices."""
    plan, alignment = plan_for(variant, rng)
    buffers = random_buffers(plan, rng)
    if buffers.indices is not None and plan.out_of_bounds is OutOfBounds.RAISE and rng.random() < 0.5:
        info = np.iinfo(buffers.indices.dtype)
        bad = np.random.default_rng(rng.getrandbits(64)).random(buffers.indices.size) < 0.3
        buffers.indices[bad] = rng.choice((info.min, info.max))
    return Case.of(plan, buffers, alignment)


def case_for_one_of(variants: Sequence[Variant], rng: random.Random) -> Case:
    while True:
        case = case_for(rng.choice(variants), rng)
        if {launch.variant for launch in case.launches} <= set(variants):
            return case


def alignment_for(plan: IndexPlan, rng: random.Random) -> int:
    """Return a random alignment at which the plan's fill value can be written."""
    alignment = rng.choice((16, 16, 8, 4, 2, 1))
    return plan.element_bytes if unwritable_fill(plan, alignment) else alignment
