"""Which workloads a suite runs, where, in which element types, and at which sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dmlgather.bench.errors import BenchError
from dmlgather.bench.kinds import Kind, fitted
from dmlgather.bench.workloads import TABLES, WORKLOADS, Workload
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
        """Bytes of output and of source where `free` bytes are."""
        return min(self.output_bytes, free // self.output_share), min(self.source_bytes, free // self.source_share)


@dataclass(frozen=True, slots=True)
class Part:
    """Cases in one place. device: "cpu", "cuda", or "cluster" for processes of this machine, which read the table from a file.
    own: each workload in its own element type; else in the CPU's types for it.
    """

    device: str
    budget: Budget
    workloads: tuple[Workload, ...] = WORKLOADS
    own: bool = False
    wide: bool = False
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A workload as it is run. name: the workload's, with the element type."""

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
"""A workload has the same sizes in every element type: those that fit as float32."""

FEW = ("embedding", "gnn-400B", "inner-4096", "along-last", "along-first", "tuples-rows", "crop", "transposed", "launch-floor")

SUITES: dict[str, tuple[Part, ...]] = {
    "smoke": (Part("cpu", SMOKE, own=True, only=FEW),),
    "cpu": (Part("cpu", CPU),),
    "gpu": (Part("cuda", GPU, own=True),),
    "full": (Part("cpu", CPU, wide=True), Part("cuda", GPU, own=True, wide=True)),
    "distributed": (Part("cluster", CLUSTER, TABLES, own=True),),
}
"""smoke: nine small cases, seconds. cpu: every shape as float32 and uint8 (those that stand for a width: in their own type).
gpu: full sizes on the first GPU. full: both (the GPU's part where there is one) and the sweep of sizes. distributed: rows of a
table in a file that is larger than the memory of the workers that read it; the table shrinks where it is more than a third of the
memory that is free, so that it stays in the page cache.
"""


def cases(part: Part, free: int, only: tuple[str, ...] = (), budget: Budget | None = None) -> Iterator[Case]:
    """The cases of a part where `free` bytes are free. only: names of workloads, of their groups, or of cases."""
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
    """BenchError for a suite or a case that does not exist."""
    if suite not in SUITES:
        raise BenchError(f"unknown suite {suite!r}; expected one of: {', '.join(SUITES)}")
    known = [case for part in SUITES[suite] for case in cases(part, free=2**50)]
    names = {name for case in known for name in (case.name, case.workload.name, case.workload.group)}
    if unknown := [name for name in only if name not in names]:
        few = ", ".join(dict.fromkeys(case.workload.name for case in known))
        missing = ", ".join(map(repr, unknown))
        raise BenchError(f"{counted(len(unknown), 'name')} not in the suite {suite}: {missing}; expected some of: {few}")


def free_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes of host memory that programs can still get (where the system does not tell: 8 GiB)."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return 2**33 if found is None else int(found[1]) * 1024
