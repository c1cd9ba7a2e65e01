"""Calls of lax.gather by seed: such as JAX judges, any good ones, and ones with exactly one fault."""

from __future__ import annotations

import random

from tests.dialects.drafting import broken, seeds
from tests.lax.drafts import MODES, Range, good
from tests.lax.faults import Fault
from tests.lax.specification import INTEGERS, TYPES, Call

SIXTY_FOUR = ("int64", "uint64", "float64", "complex128")
NARROW_TYPES = tuple(dtype for dtype in TYPES if dtype.name not in SIXTY_FOUR)
NARROW_INTEGERS = tuple(dtype for dtype in INTEGERS if dtype.name not in SIXTY_FOUR)


def judged_call(seed: int, x64: bool) -> Call:
    """The good call of a seed that JAX judges in that mode.

    Left out: 64 bits where x64 is off; any out of range where the call promises none.
    """
    rng = random.Random(seed)
    mode = rng.choice(MODES)
    filled = mode in ("fill", "drop")
    values = Range(outside=filled or mode == "clip")
    dtypes, index_dtypes = (TYPES, INTEGERS) if x64 else (NARROW_TYPES, NARROW_INTEGERS)
    return good(rng, dtypes, index_dtypes, mode, x64=x64, values=values).finished(rng, "", seed)


def any_call(seed: int) -> Call:
    """The good call of a seed, with starts of every width in every mode."""
    rng = random.Random(seed)
    return good(rng, TYPES, INTEGERS, rng.choice(MODES), x64=True, values=Range(outside=True)).finished(rng, "", seed)


def broken_call(seed: int, fault: Fault) -> Call:
    """The call of a seed with that fault."""
    rng = random.Random(seed)
    values = Range(outside=False)
    draft = broken(rng, fault, lambda: good(rng, NARROW_TYPES, NARROW_INTEGERS, rng.choice(MODES), x64=False, values=values))
    return draft.finished(rng, fault.name, seed)


any_calls = seeds.map(any_call)
