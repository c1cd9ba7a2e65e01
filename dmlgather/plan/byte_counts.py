"""How many bytes a plan moves."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dmlgather.plan.index_plan import IndexPlan


@dataclass(frozen=True, slots=True)
class BytesMoved:
    """Useful bytes of one run, each index and element counted once per read."""

    index: int
    read: int
    written: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.index + self.read + self.written

    def __str__(self) -> str:
        return f"{self.total} = {self.index} of indices + {self.read} read + {self.written} written"


def bytes_moved(plan: IndexPlan) -> BytesMoved:
    """The useful bytes of one run of `plan`."""
    moved = plan.elements * plan.element_bytes
    index = len(plan.lookups) * prod(plan.index_shape) * plan.index_type.bytes if plan.index_type else 0
    return BytesMoved(index=index, read=moved, written=moved)
