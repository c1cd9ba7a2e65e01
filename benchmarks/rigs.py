"""Rigs: devices and clusters on which cases are measured."""

from __future__ import annotations

import shutil
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

from benchmarks import contenders
from benchmarks.bench_report import CHAIN, CaseReport, Cluster, Measured, Timing, Traffic, Usage
from benchmarks.chains import Chain
from benchmarks.clocks import Clock, Contender, DeviceClock, HostClock, Samples, interleave
from benchmarks.dask_cluster import ClusterClock, Workers
from benchmarks.draws import UNIFORM
from benchmarks.errors import BenchError, UnsupportedWorkloadError
from benchmarks.judge import Judge
from benchmarks.kinds import Take
from benchmarks.l2_fetch import l2_fetch
from benchmarks.peers import Stage, invite
from benchmarks.suites import MIB, Case, free_memory
from benchmarks.traffic import LINE, PAGE, SECTOR, traffic
from benchmarks.workload_arrays import WorkloadArrays, make, stored, write
from benchmarks.workloads import FLOOR
from dmlgather.backends import cpu, cuda
from dmlgather.calls.operator import CompiledOperator
from dmlgather.directml import lower
from dmlgather.host import cpus
from dmlgather.selftest.selftest_report import caches, gpu
from dmlgather.wording import counted

CLUSTER = Cluster(workers=2, threads=1, memory_bytes=900 * MIB)
"""The workers of the suite. All together have less memory than the table; each can hold a few chunks."""


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """A case that is ready to be timed.

    `others`: contenders with other work. They are created after all results were compared.
    """

    arrays: WorkloadArrays
    ours: tuple[Contender, ...]
    judge: Judge
    others: Iterable[Contender]
    traffic: Traffic
    recipe: str


class Rig(ABC):
    """A device or a cluster with a clock, and the peers that can run there.

    `packages`: their versions are reported. `cupy`: the module, on a GPU. `case_s`: default time for a case, in seconds.
    `resources`: closed when the rig is no longer used.
    """

    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    cupy: Any = None
    clock: Clock
    case_s: float = 6.0

    def __init__(self, stage: Stage, peers: tuple[str, ...], seed: int) -> None:
        """Invite the peers. `seed` and a case's name determine contents and indices."""
        self.device, self.stage, self.resources, self._seed = stage.device, stage, ExitStack(), seed
        self.peers, self.missing = invite(peers, stage)

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the free memory in bytes. A case uses a part of it."""

    @abstractmethod
    def prepare(self, case: Case) -> PreparedCase:
        """Prepare the arrays of a case and dmlgather's contenders. Raises MismatchError if their results differ."""

    def cluster(self) -> Cluster | None:
        """Return the workers and the number of lost ones, or None."""
        return None

    def guarded(self, name: str, run: Callable[[], Any]) -> Callable[[], Any]:  # noqa: ARG002 - subclasses use it
        """Wrap a contender's call to raise UnsupportedWorkloadError if the rig cannot run it."""
        return run

    def random(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, zlib.crc32(name.encode())])

    def measure(self, case: Case, rounds: int | None) -> CaseReport:
        """Prepare a case, compare all results, then time all contenders. Raises MismatchError before any timing."""
        with self.clock.current():
            try:
                prepared = self.prepare(case)
                of_peers, cannot = self._of_peers(prepared)
                all_contenders = [*prepared.ours, *of_peers, *prepared.others]
                samples = interleave(all_contenders, self.clock, rounds, self.case_s)
            except UnsupportedWorkloadError as error:  # dmlgather failed, or a contender failed while it was timed
                raise BenchError(f"{case.name}: {error}") from error
        measured = tuple(map(self._measured, all_contenders, samples))
        return CaseReport(**_described(case, prepared), measured=measured, cannot=cannot)

    def _measured(self, contender: Contender, samples: Samples) -> Measured:
        return Measured(
            name=contender.name,
            role=contender.role,
            spelling=contender.spelling,
            preallocated=contender.preallocated,
            rounds=len(samples.warm),
            clock=self.clock.kind(contender),
            warm=Timing.of(samples.warm),
            cold=Timing.of(samples.cold) if samples.cold else None,
            host=Timing.of(samples.host) if samples.host else None,
            usage=Usage.of(samples.usage) if samples.usage else None,
        )

    def _of_peers(self, prepared: PreparedCase) -> tuple[list[Contender], dict[str, str]]:
        """Return the contenders of peers, and for each peer without contenders the reason."""
        of_peers, cannot = [], {}
        for peer in self.peers:
            try:
                for spelling in peer.spellings(prepared.arrays):
                    own_clock = self.cupy is not None and peer.own_clock
                    run = self.guarded(peer.name, spelling.run)
                    contender = Contender(peer.name, "peer", spelling.text, run, spelling.preallocated, own_clock)
                    prepared.judge.compare(contender, peer)
                    of_peers.append(contender)
            except UnsupportedWorkloadError as error:
                cannot[peer.name] = str(error)
        return of_peers, cannot


LARGEST_CACHE = 64 * 2**20
"""Largest believable cache, and the default, in bytes. Some virtual machines report the whole cache of their host."""


def last_level(caches: dict[str, int]) -> int:
    """Return the bytes of the largest cache, at most `LARGEST_CACHE`."""
    return min(max(caches.values(), default=LARGEST_CACHE), LARGEST_CACHE)


class DeviceRig(Rig):
    """The CPU or the first GPU. Results are compared with those of the bound operator."""

    def __init__(self, device: str, peers: tuple[str, ...], seed: int, l2_fetch_bytes: int | None = None) -> None:
        """Create the clock and invite the peers. Raises DeviceError for "cuda" without a GPU."""
        self.cupy: Any = cuda.require(0) if device == "cuda" else None
        stream = None
        if self.cupy is None:
            self.clock = HostClock(last_level(caches()))
        else:
            self.clock = DeviceClock(self.cupy, gpu(self.cupy).l2_bytes)
            stream = self.clock.stream
        super().__init__(Stage(device, cpus(), stream), peers, seed)
        if self.cupy is not None and l2_fetch_bytes is not None:
            self.resources.enter_context(l2_fetch(self.cupy, l2_fetch_bytes))

    def free_bytes(self) -> int:
        return free_memory() if self.cupy is None else min(free_memory(), int(self.cupy.cuda.runtime.memGetInfo()[0]))

    def prepare(self, case: Case) -> PreparedCase:
        host = make(case.kind, case.dtype, self.random(case.name))
        arrays = host if self.cupy is None else host.moved(self.cupy)
        compiled, unfused = None, list[Contender]()
        if isinstance(case.kind, Chain):
            plan, ours, *unfused = contenders.chain(arrays, self.stage)
        else:
            compiled, ours = contenders.operator(arrays, self.stage)
            plan = compiled.plan
        arrays.poison()
        ours.run()
        arrays.wait()
        judge = Judge(case.name, arrays, arrays.out.copy())
        for contender in unfused:
            judge.compare(contender)
        backend = cpu.prepare if self.cupy is None else partial(cuda.prepare, device=0)
        return PreparedCase(
            arrays,
            (ours, *unfused),
            judge,
            self._others(case, compiled, arrays),
            traffic(plan, host.index, LINE if self.cupy is None else SECTOR),
            backend(plan).describe(),
        )

    def _others(self, case: Case, compiled: CompiledOperator | None, arrays: WorkloadArrays) -> Iterator[Contender]:
        yield from contenders.copies(arrays, self.stage)
        if compiled is not None and case.workload.name == FLOOR:
            yield contenders.checked(compiled, arrays)
            if self.cupy is not None:
                yield contenders.empty_launch(self.cupy)


class ClusterRig(Rig):
    """Dask workers that read tables from a temporary folder. Results are compared with NumPy's on the mapped file."""

    packages = ("numpy", "dask", "distributed")
    case_s = 40.0

    def __init__(self, peers: tuple[str, ...], seed: int) -> None:
        super().__init__(Stage("cluster", CLUSTER.workers * CLUSTER.threads), peers, seed)
        with ExitStack() as resources:
            self._folder = Path(resources.enter_context(TemporaryDirectory(prefix="dmlgather-bench-")))
            self._workers = Workers(CLUSTER, self._folder)
            resources.callback(self._workers.close)
            self.clock = ClusterClock(self._workers)
            self.resources.push(resources.pop_all())

    def free_bytes(self) -> int:
        """Return the free memory or disk space. The page cache must hold the table."""
        return min(free_memory(), shutil.disk_usage(self._folder).free)

    def cluster(self) -> Cluster:
        return CLUSTER.model_copy(update={"restarts": {name: lost for name, lost in self._workers.losses.items() if lost}})

    def guarded(self, name: str, run: Callable[[], Any]) -> Callable[[], Any]:
        return self._workers.guarded(name, run)

    def prepare(self, case: Case) -> PreparedCase:
        self._workers.ready()
        kind = case.kind
        assert isinstance(kind, Take)  # all rows of TABLES are
        arrays = stored(kind, case.dtype, self._table(kind.shape, case.dtype), self.random(case.name))
        result, dask_contenders = contenders.distributed(arrays)
        ours = tuple(replace(contender, run=self.guarded(contender.name, contender.run)) for contender in dask_contenders)
        judge = Judge(case.name, arrays, arrays.x[arrays.index])
        for contender in ours:
            judge.compare(contender)
        recipe = f"{counted(len(result.__dask_graph__()), 'task')}, {counted(result.npartitions, 'chunk')} of output"
        return PreparedCase(arrays, ours, judge, (), traffic(lower(arrays.descriptor), arrays.index, PAGE), recipe)

    def _table(self, shape: tuple[int, ...], dtype: str) -> Path:
        """Return the file of a table. The first use writes it."""
        name = f"{dtype}-{'x'.join(map(str, shape))}.npy"
        file = self._folder / name
        if not file.exists():
            write(file, shape, dtype, self.random(name))
        return file


def _described(case: Case, prepared: PreparedCase) -> dict[str, Any]:
    """Return the fields of a case's report that need no timing."""
    index = prepared.arrays.index
    return {
        "name": case.name,
        "workload": case.workload.name,
        "group": case.workload.group,
        "what": case.workload.what,
        "device": case.device,
        "operator": CHAIN if isinstance(case.kind, Chain) else prepared.arrays.descriptor.operator.name,
        "dtype": case.dtype,
        "index_type": None if index is None else str(index.dtype),
        "draw": None if index is None else str(getattr(case.kind, "draw", UNIFORM)),
        "input_shape": case.kind.shape,
        "input_strides": case.kind.strides,
        "index_shape": case.kind.index_shape,
        "output_shape": case.kind.out_shape,
        "traffic": prepared.traffic,
        "recipe": prepared.recipe,
    }
