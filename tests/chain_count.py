"""How many random chains each dialect's heavy test runs, and where their seeds begin."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

CHAINS = int(os.environ.get("CHAINS", "2000"))
"""`ci/chains COUNT` sets it."""


def seeds() -> Iterator[int]:
    """Fresh ones, as many as chains; the first is printed."""
    first = random.SystemRandom().getrandbits(60)
    print(f"seeds from {first}")
    yield from range(first, first + CHAINS)
