"""Suites: workloads with their devices, element types and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.errors import BenchError
from benchmarks.kinds import Kind, fitted
from benchmarks.workloads import CHAINS, ON_HOSTS, TABLES, WORKLOADS, Workload
from dmlgather.host import available_memory
from dmlgather.wording import counted

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a case's output and source: bytes, and 1/share of the free memory."""

    output_bytes: int
    source_bytes: int
    output_share: int = 32
    source_share: int = 8

    def within(self, free: int) -> tuple[int, int]:
        """Return the largest output and source, in bytes, if `free` bytes are free."""
        return min(self.output_bytes, free // self.output_share), min(self.source_bytes, free // self.source_share)


@dataclass(frozen=True, slots=True)
class SuitePart:
    """Cases on one device.

    `device`: "cpu", "cuda", or "cluster" (worker processes that read a table from a file). `own`: True for each workload's own
    element type, False for its types for the CPU. `wide`: include the sweeps.
    """

    device: str
    budget: Budget
    workloads: tuple[Workload, ...] = WORKLOADS
    own: bool = False
    wide: bool = False
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A workload with an element type and fitted sizes. `name`: "WORKLOAD TYPE"."""

    name: str
    workload: Workload
    device: str
    dtype: str
    kind: Kind


SMOKE = Budget(MIB, 4 * MIB)
CPU = Budget(64 * MIB, 256 * MIB)
GPU = Budget(4096 * MIB, 16_384 * MIB)
CLUSTER = Budget(256 * MIB, 3072 * MIB, source_share=3)
_ITEM_BYTES = 4
"""Element size for fitting: a workload has the sizes of float32 in every element type."""

FEW = ("embedding", "gnn-400B", "inner-4096", "along-last", "along-first", "tuples-rows", "crop", "transposed", "launch-floor")

SUITES: dict[str, tuple[SuitePart, ...]] = {
    "smoke": (SuitePart("cpu", SMOKE, own=True, only=FEW),),
    "cpu": (SuitePart("cpu", CPU, (*WORKLOADS, *ON_HOSTS)),),
    "gpu": (SuitePart("cuda", GPU, own=True),),
    "full": (SuitePart("cpu", CPU, (*WORKLOADS, *ON_HOSTS), wide=True), SuitePart("cuda", GPU, own=True, wide=True)),
    "chains": (SuitePart("cpu", CPU, CHAINS), SuitePart("cuda", GPU, CHAINS, own=True)),
    "distributed": (SuitePart("cluster", CLUSTER, TABLES, own=True),),
}
"""The suites.

"smoke": nine small cases, in seconds. "cpu": every workload as float32 and uint8 (those about a row's width in their own type),
and `ON_HOSTS`. "gpu": full sizes on the first GPU. "full": both, with the sweeps; only the CPU without a GPU. "chains": several
steps, fused and unfused, on both. "distributed": rows of a table in a file. The table exceeds the workers' memory, but not a
third of the free memory, so that it stays in the page cache.
"""


def cases(part: SuitePart, free: int, only: tuple[str, ...] = (), budget: Budget | None = None) -> Iterator[Case]:
    """Yield the cases of a part if `free` bytes are free. `only`: names of workloads, groups or cases."""
    limits = (budget or part.budget).within(free)
    for workload in part.workloads:
        if (part.only and workload.name not in part.only) or workload.wide > part.wide:
            continue
        for dtype in (workload.own,) if part.own else workload.types:
            name = f"{workload.name} {dtype}"
            if not only or {name, workload.name, workload.group} & set(only):
                kind = fitted(workload.kind, workload.shrink, _ITEM_BYTES, *limits)
                yield Case(name, workload, part.device, dtype, kind)


def check_names(suite: str, only: tuple[str, ...]) -> None:
    """Raise BenchError for an unknown suite or case."""
    if suite not in SUITES:
        raise BenchError(f"unknown suite {suite!r}; expected one of: {', '.join(SUITES)}")
    all_cases = [case for part in SUITES[suite] for case in cases(part, free=2**50)]
    names = {name for case in all_cases for name in (case.name, case.workload.name, case.workload.group)}
    if unknown := [name for name in only if name not in names]:
        workloads = ", ".join(dict.fromkeys(case.workload.name for case in all_cases))
        missing = ", ".join(map(repr, unknown))
        raise BenchError(f"{counted(len(unknown), 'name')} not in the suite {suite}: {missing}; expected some of: {workloads}")


def free_memory() -> int:
    """Return the free host memory in bytes, or 8 GiB if it is unknown."""
    available = available_memory()
    return 2**33 if available is None else available
