"""Launches of the plain kernels (`plain_kernels.cu`) for comparison, for canonical plans with 64-bit indices."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path

from dmlgather.backends.cuda.variants import BLOCK
from dmlgather.plan import IndexPlan, IndexType, canonicalise
from tests.kernels.occupancy import WARP

SOURCE = Path(__file__).with_name("plain_kernels.cu").read_text()
DIMENSIONS, LOOKUPS = 4, 2
"""Limits of the kernels."""

_HEAD = struct.Struct("<3QI4x")
_DIMENSION = struct.Struct("<I4x4q")
_LOOKUP = struct.Struct("<3q")


@dataclass(frozen=True, slots=True)
class PlainLaunch:
    """A launch. kind: "naive" or "row". count: elements (naive) or rows."""

    plan: IndexPlan
    kind: str
    count: int

    @property
    def name(self) -> str:
        """The kernel's name, such as `naive_d2_k1_e4`."""
        return f"{self.kind}_d{self.plan.rank}_k{len(self.plan.lookups)}_e{self.plan.element_bytes}"

    @property
    def source(self) -> str:
        """CUDA C++ with only this kernel."""
        parts = (self.name, self.kind, self.plan.rank, len(self.plan.lookups), self.plan.element_bytes)
        return f"{SOURCE}\nPLAIN({', '.join(map(str, parts))})\n"

    @property
    def grid(self) -> int:
        return -(-self.count * (WARP if self.kind == "row" else 1) // BLOCK)

    def arguments(self, data: int, indices: int, out: int) -> bytes:
        """Return the kernel's parameter with these addresses."""
        plan, size = self.plan, self.plan.element_bytes
        parts = [_HEAD.pack(data + plan.in_offset * size, indices, out + plan.out_offset * size, self.count)]
        for axis in reversed(range(plan.rank)):
            steps = [8 * lookup.index_strides[axis] for lookup in plan.lookups]
            steps += [0] * (LOOKUPS - len(steps))
            parts.append(_DIMENSION.pack(plan.shape[axis], plan.in_strides[axis] * size, plan.out_strides[axis] * size, *steps))
        parts += [bytes(_DIMENSION.size)] * (DIMENSIONS - plan.rank)
        parts += [_LOOKUP.pack(8 * lookup.index_offset, size * lookup.in_stride, lookup.wrap) for lookup in plan.lookups]
        parts += [bytes(_LOOKUP.size)] * (LOOKUPS - len(plan.lookups))
        return b"".join(parts)


def plain_launches(plan: IndexPlan, element_bytes: int) -> dict[str, PlainLaunch]:
    """Return a launch of the naive kernel and, if rows are contiguous, one of the row kernel. element_bytes: of the data type,
    because plain kernels do not combine elements.
    """
    plan = canonicalise(plan, element_bytes)
    assert plan.index_type in (None, IndexType.INT64)
    assert plan.rank <= DIMENSIONS
    assert len(plan.lookups) <= LOOKUPS
    found = {"naive": PlainLaunch(plan, "naive", plan.elements)}
    contiguous = plan.rank > 1 and plan.in_strides[-1] == plan.out_strides[-1] == 1
    if contiguous and not any(lookup.index_strides[-1] for lookup in plan.lookups):
        found["row"] = PlainLaunch(plan, "row", prod(plan.shape[:-1]))
    return found
