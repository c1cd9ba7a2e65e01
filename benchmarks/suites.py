"""The suites: which workloads run on which device, in which element types, and at which sizes."""

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
    """The largest output and the largest input of a case: bytes, and no more than a fraction of the memory that is free."""

    output_bytes: int
    source_bytes: int
    output_share: int = 32
    source_share: int = 8

    def within(self, free: int) -> tuple[int, int]:
        """The largest output and the largest source, in bytes, if `free` bytes are free."""
        return min(self.output_bytes, free // self.output_share), min(self.source_bytes, free // self.source_share)


@dataclass(frozen=True, slots=True)
class SuitePart:
    """Cases on one device: "cpu", "cuda", or "cluster", which is worker processes of this machine that read a table from a file.

    own: each workload in its own element type; otherwise in its types for the CPU.
    """

    device: str
    budget: Budget
    workloads: tuple[Workload, ...] = WORKLOADS
    own: bool = False
    wide: bool = False
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A workload with an element type and fitted sizes. name: of the workload, and the element type."""

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
"""A workload has the same sizes in every element type: those that fit in float32."""

FEW = ("embedding", "gnn-400B", "inner-4096", "along-last", "along-first", "tuples-rows", "crop", "transposed", "launch-floor")

SUITES: dict[str, tuple[SuitePart, ...]] = {
    "smoke": (SuitePart("cpu", SMOKE, own=True, only=FEW),),
    "cpu": (SuitePart("cpu", CPU, (*WORKLOADS, *ON_HOSTS)),),
    "gpu": (SuitePart("cuda", GPU, own=True),),
    "full": (SuitePart("cpu", CPU, (*WORKLOADS, *ON_HOSTS), wide=True), SuitePart("cuda", GPU, own=True, wide=True)),
    "chains": (SuitePart("cpu", CPU, CHAINS), SuitePart("cuda", GPU, CHAINS, own=True)),
    "distributed": (SuitePart("cluster", CLUSTER, TABLES, own=True),),
}
"""smoke: nine small cases, in seconds. cpu: every workload as float32 and uint8 (those about a row's width in their own type),
and those that only a CPU is asked. gpu: full sizes on the first GPU. full: both (without the GPU's part where there is no GPU)
and the sweeps. chains: several steps, fused and one by one, on both. distributed: rows of a table in a file that is larger than
the memory of the workers; the table is at most a third of the free memory, so that it stays in the page cache.
"""


def cases(part: SuitePart, free: int, only: tuple[str, ...] = (), budget: Budget | None = None) -> Iterator[Case]:
    """The cases of a part if `free` bytes are free. only: names of workloads, groups or cases."""
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
    """BenchError for an unknown suite or case."""
    if suite not in SUITES:
        raise BenchError(f"unknown suite {suite!r}; expected one of: {', '.join(SUITES)}")
    known = [case for part in SUITES[suite] for case in cases(part, free=2**50)]
    names = {name for case in known for name in (case.name, case.workload.name, case.workload.group)}
    if unknown := [name for name in only if name not in names]:
        few = ", ".join(dict.fromkeys(case.workload.name for case in known))
        missing = ", ".join(map(repr, unknown))
        raise BenchError(f"{counted(len(unknown), 'name')} not in the suite {suite}: {missing}; expected some of: {few}")


def free_memory() -> int:
    """Bytes of host memory that are free; 8 GiB where the system does not report them."""
    found = available_memory()
    return 2**33 if found is None else found
