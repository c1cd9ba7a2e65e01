"""Workers of this machine, with the tables in files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dmlgather.bench import contenders
from dmlgather.bench.judge import Judge
from dmlgather.bench.kinds import Take
from dmlgather.bench.peers import Stage
from dmlgather.bench.problem import stored, write
from dmlgather.bench.report import Cluster
from dmlgather.bench.rig import Entry, Rig
from dmlgather.bench.suites import MIB, Case, free_memory
from dmlgather.bench.traffic import PAGE, traffic
from dmlgather.bench.workers import ClusterClock, Workers
from dmlgather.directml import lower
from dmlgather.wording import counted

SIZE = Cluster(workers=2, threads=1, memory_bytes=900 * MIB)
"""Together they hold less than the table, and a chunk or two at a time."""


class ClusterRig(Rig):
    """Dask workers that read tables from a temporary folder. Everybody is compared with NumPy on the mapped file."""

    packages = ("numpy", "dask", "distributed")
    case_s = 40.0

    def __init__(self, peers: tuple[str, ...], seed: int) -> None:
        """BenchError without dask."""
        super().__init__(Stage("cluster", SIZE.workers * SIZE.threads), peers, seed)
        with ExitStack() as held:
            self._folder = Path(held.enter_context(TemporaryDirectory(prefix="dmlgather-bench-")))
            self._workers = Workers(SIZE, self._folder)
            held.callback(self._workers.close)
            self.clock = ClusterClock(self._workers)
            self.held.push(held.pop_all())

    def free_bytes(self) -> int:
        """The lesser of free memory, whose page cache is to keep the table, and the folder's free space."""
        return min(free_memory(), shutil.disk_usage(self._folder).free)

    def cluster(self) -> Cluster:
        """As the base class says."""
        return SIZE.model_copy(update={"restarts": {name: lost for name, lost in self._workers.losses.items() if lost}})

    def guarded(self, name: str, run: Callable[[], Any]) -> Callable[[], Any]:
        """As the base class says."""
        return self._workers.guarded(name, run)

    def enter(self, case: Case) -> Entry:
        """As the base class says."""
        self._workers.ready()
        kind = case.kind
        assert isinstance(kind, Take)  # as every row of the table of tables
        problem = stored(kind, case.dtype, self._table(kind.shape, case.dtype), self.random(case.name))
        result, entrants = contenders.distributed(problem)
        ours = tuple(replace(entrant, run=self.guarded(entrant.name, entrant.run)) for entrant in entrants)
        judge = Judge(case.name, problem, problem.x[problem.index])
        for entrant in ours:
            judge.compare(entrant)
        recipe = f"{counted(len(result.__dask_graph__()), 'task')}, {counted(result.npartitions, 'chunk')} of output"
        return Entry(problem, ours, judge, (), traffic(lower(problem.descriptor), problem.index, PAGE), recipe)

    def _table(self, shape: tuple[int, ...], dtype: str) -> Path:
        """The file of such a table, written when it is first asked for."""
        name = f"{dtype}-{'x'.join(map(str, shape))}.npy"
        file = self._folder / name
        if not file.exists():
            write(file, shape, dtype, self.random(name))
        return file
