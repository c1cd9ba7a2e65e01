"""The cases of the table of traffic: the workloads of the suite "gpu", and the shapes of earlier comparisons."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.chains import Chain
from benchmarks.draws import UNIFORM, Distinct
from benchmarks.kinds import ALL, BACK, Along, Kind, Take, ViewCopy, WorkloadKind
from benchmarks.suites import SUITES, cases
from benchmarks.workloads import Workload
from dmlgather.directml import lower
from dmlgather.plan import IndexPlan

SEED = 17
"""Seed of all indices, together with a workload's name."""

_ROOM = 2**40
"""Bytes of free memory for which the suite "gpu" is chosen, more than its largest case needs."""


def _rows(count: int, row_bytes: int, dtype: str) -> Workload:
    size = np.dtype(dtype).itemsize
    kind = Take((100_000, row_bytes // size), count, draw=Distinct())
    return Workload(f"{count} rows of {row_bytes} B", "rows", "", kind, dtype, types=())


SHAPES = (
    _rows(250, 1537, "uint8"),
    _rows(2000, 1537, "uint8"),
    _rows(4000, 49, "uint8"),
    _rows(4000, 65, "uint8"),
    _rows(4000, 97, "uint8"),
    _rows(1000, 202, "float16"),
    _rows(1000, 404, "float32"),
    _rows(1000, 1536, "float32"),
    _rows(8000, 64, "float32"),
    _rows(20_000, 12, "float32"),
    _rows(20_000, 10, "float16"),
    Workload("inner axis, 500 rows of 1 KB", "inner axis", "", Take((500, 256), 256, axis=1), "float32", types=()),
    Workload("inner axis, 2000 rows of 1 KB", "inner axis", "", Take((2000, 256), 256, axis=1), "float32", types=()),
    Workload("inner axis, 1000 rows of 4 KB", "inner axis", "", Take((1000, 1024), 1024, axis=1), "float32", types=()),
    Workload("along the last axis, 1000 rows of 4 KB", "GatherElements", "", Along((1000, 1024), axis=1), "float32", types=()),
    Workload("along the first axis, 1000 rows of 4 KB", "GatherElements", "", Along((1000, 1024), axis=0), "float32", types=()),
    Workload("transposed 1000 x 1000", "slice", "", ViewCopy((1000, 1000), (ALL, ALL), strides=(1, 1000)), "float32",
             types=("uint8",)),
    Workload("flip, 8 images 224 x 224 x 3", "slice", "", ViewCopy((8, 224, 224, 3), (ALL, ALL, BACK, ALL)), "uint8", types=()),
)  # fmt: skip
"""Small problems, in which most multiprocessors have few threads."""


@dataclass(frozen=True, slots=True)
class TrafficCase:
    """A problem in one element type. name: unique. plan: for its arrays. element_bytes: of its type. reason: as its group's."""

    name: str
    plan: IndexPlan
    element_bytes: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CaseGroup:
    """A problem in several element types with the same indices. kind: for chains, the kind without indices. reason: why all
    kernels must miss a goal here.
    """

    name: str
    kind: Chain | WorkloadKind
    dtypes: tuple[str, ...]
    reason: str = ""

    def cases(self) -> Iterator[TrafficCase]:
        for dtype in self.dtypes:
            yield TrafficCase(f"{self.name}, {dtype}", self._plan(dtype), np.dtype(dtype).itemsize, self.reason)

    def _plan(self, dtype: str) -> IndexPlan:
        if isinstance(self.kind, Chain):
            return self.kind.expression.plan((self.kind.shape, dtype))
        return lower(self.kind.descriptor(dtype))

    def indices(self) -> NDArray[Any] | None:
        """Return its indices, int64 [number of indices], equal in every call, or None for slices."""
        drawn = self.kind.indices(np.random.default_rng([SEED, zlib.crc32(self.name.encode())]))
        return None if drawn is None else drawn.reshape(-1)


def groups() -> Iterator[CaseGroup]:
    """Yield every problem of the table in its order. Its own element type comes first, then those of the CPU suite."""
    (part,) = SUITES["gpu"]
    for case in cases(part, _ROOM):
        yield _group(case.workload, case.kind)
    for workload in SHAPES:
        yield _group(workload, workload.kind)


def _group(workload: Workload, kind: Kind) -> CaseGroup:
    if isinstance(kind, Take) and kind.draw == UNIFORM and kind.count <= kind.shape[kind.axis]:
        kind = replace(kind, draw=Distinct())  # no row is in a cache because another block has read it
    return CaseGroup(workload.name, kind, tuple(dict.fromkeys((workload.own, *workload.types))))
