"""What a descriptor becomes: plan, canonical plan, what each device would run, bytes moved, lowest feature level."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from dmlgather.backends import cpu, cuda
from dmlgather.directml import OperatorDesc, minimum_level
from dmlgather.plan import IndexPlan, canonicalise


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


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of `CompiledOperator.explain`; `str()` gives it as text, `to_json()` as plain data.

    lowest_level: "3_0". plan: as lowered over the described layouts; canonical: its canonical form. cpu, cuda: what runs it
    there, in words. bytes_moved: of one run.
    """

    operator: str
    lowest_level: str | None
    plan: str
    canonical: str
    cpu: str
    cuda: str
    bytes_moved: BytesMoved

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON-able data; bytes_moved with its total."""
        return {**asdict(self), "bytes_moved": {**asdict(self.bytes_moved), "total": self.bytes_moved.total}}

    def __str__(self) -> str:
        moved = self.bytes_moved
        return "\n".join(
            (
                f"{self.operator}, lowest feature level {self.lowest_level}",
                _block("plan", self.plan),
                _block("canonical", self.canonical),
                _block("cpu", self.cpu),
                _block("cuda", self.cuda),
                f"bytes     {moved.total} = {moved.index} of indices + {moved.read} read + {moved.written} written",
            )
        )


def explain(desc: OperatorDesc, plan: IndexPlan) -> Explanation:
    """Explain the valid descriptor `desc` that was lowered to `plan`."""
    level = minimum_level(desc)
    return Explanation(
        operator=desc.operator.name,
        lowest_level=None if level is None else str(level),
        plan=str(plan),
        canonical=str(canonicalise(plan)),
        cpu=cpu.prepare(plan).describe(),
        cuda=cuda.describe(plan),
        bytes_moved=bytes_moved(plan),
    )


def bytes_moved(plan: IndexPlan) -> BytesMoved:
    """The useful bytes of one run of `plan`."""
    moved = plan.elements * plan.element_bytes
    index = len(plan.lookups) * prod(plan.index_shape) * plan.index_type.bytes if plan.index_type else 0
    return BytesMoved(index=index, read=moved, written=moved)


def _block(title: str, text: str) -> str:
    return "\n".join(f"{title if number == 0 else '':<9} {line}" for number, line in enumerate(text.splitlines()))
