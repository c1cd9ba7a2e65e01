"""Calls of lax.gather by seed: good ones, and ones with exactly one fault."""

from __future__ import annotations

import random

from tests.dialects.drafting import broken
from tests.lax.drafts import MODES, Range, good
from tests.lax.faults import Fault
from tests.lax.specification import INTEGERS, TYPES, Call

SIXTY_FOUR = ("int64", "uint64", "float64", "complex128")
NARROW_TYPES = tuple(dtype for dtype in TYPES if dtype.name not in SIXTY_FOUR)
NARROW_INTEGERS = tuple(dtype for dtype in INTEGERS if dtype.name not in SIXTY_FOUR)

ROWS = ("x64", "x32", "full width")
"""JAX's modes in which it judges; and calls with starts out of range in every mode, of some of which it promises nothing."""


def good_call(seed: int, row: str) -> Call:
    """The good call of a seed. x32 has no types of 64 bits."""
    rng = random.Random(seed)
    mode = rng.choice(MODES)
    values = Range(outside=row == "full width" or mode in ("fill", "drop", "clip"))
    dtypes, index_dtypes = (NARROW_TYPES, NARROW_INTEGERS) if row == "x32" else (TYPES, INTEGERS)
    return good(rng, dtypes, index_dtypes, mode, x64={"x64": True, "x32": False}.get(row), values=values).finished(rng, "", seed)


def broken_call(seed: int, fault: Fault) -> Call:
    """The call of a seed with that fault."""
    rng = random.Random(seed)
    values = Range(outside=False)
    draft = broken(rng, fault, lambda: good(rng, NARROW_TYPES, NARROW_INTEGERS, rng.choice(MODES), x64=False, values=values))
    return draft.finished(rng, fault.name, seed)
