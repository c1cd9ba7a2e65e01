"""What a kernel costs a multiprocessor, where two families could serve the same plan: counted, and combined by a simple model.

Both families fetch and store the same sectors there, so memory does not decide. What differs, for each 512 bytes of output (a
vector of 16 bytes for each thread of a warp), is the number of instructions that are issued, and the number of cache lines that
requests look up. A multiprocessor issues ISSUED instructions a cycle, one for each of its schedulers, and its L1 cache looks up
one line a cycle. The model adds both; that they do not overlap is assumed, and so is the line a cycle. docs/kernels.md
("Choosing a kernel") has the derivation.
"""

from __future__ import annotations

from dataclasses import dataclass

ISSUED = 4
"""Instructions that a multiprocessor issues a cycle."""
REQUEST_BYTES = 512
"""Of output, that a warp stores at once by vectors of 16 bytes; all numbers below are for as many."""
CHUNK_BYTES = 4 * REQUEST_BYTES
"""Of output, that a warp of a span kernel moves; the short path needs all of them in one run."""


@dataclass(frozen=True, slots=True)
class SpanCost:
    """Instructions of a warp for 512 bytes of output. inside: of a chunk in one run. across: of any other chunk. seam: more, if
    runs end there. Counted in machine code (sm_90).
    """

    inside: int
    across: int
    seam: int


@dataclass(frozen=True, slots=True)
class ElementCost:
    """Of a thread for one element: instructions, counted in machine code (sm_90), and lines that a warp looks up, counted by
    interpreting PTX with random rows of 82 to 10,246 bytes.
    """

    instructions: float
    lines: float


SLICED_SPANS = SpanCost(inside=33, across=108, seam=76)
GATHERED_SPANS = SpanCost(inside=37, across=123, seam=85)
"""`span_d3`; `span_d2_k1_i8_clamp`."""
SPAN_LINES, SEAM_LINES = 14.0, 3.3
"""Counted: 14.4, 15.8, 22.3, 31.5 and 46.8 lines for random rows of 10,246, 1537, 202, 97 and 49 bytes."""

SLICED_ELEMENTS = ElementCost(14, 3.4)
GATHERED_ONCE = ElementCost(14.25, 3.9)
GATHERED_EACH = ElementCost(29, 3.8)
"""`copy_d3_e2`; `gather_d2_k1_e2_i8_clamp_once` and `_each`, of which a thread walks eight elements. Walks along a run also store
sectors that they do not fill; for the memory's work with these, a line is added. Assumed.
"""


def span_cost(run_bytes: int, looked_up: bool) -> float:
    """Of runs of that length. looked_up: by an index; otherwise they are at fixed places."""
    cost = GATHERED_SPANS if looked_up else SLICED_SPANS
    inside = max(0.0, 1 - CHUNK_BYTES / run_bytes)
    seams = REQUEST_BYTES / run_bytes
    instructions = inside * cost.inside + (1 - inside) * cost.across + min(1.0, seams) * cost.seam
    return instructions / ISSUED + SPAN_LINES + seams * SEAM_LINES


def element_cost(element_bytes: int, looked_up: bool, once: bool) -> float:
    """Of elements of that size. once: a thread resolves its indices once."""
    cost = SLICED_ELEMENTS if not looked_up else GATHERED_ONCE if once else GATHERED_EACH
    return (cost.instructions / ISSUED + cost.lines) * REQUEST_BYTES / 32 / element_bytes
