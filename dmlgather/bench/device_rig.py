"""One device, with the problems in its memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from dmlgather.backends import cpu, cuda
from dmlgather.bench import contenders
from dmlgather.bench.clocks import Contender, DeviceClock, HostClock
from dmlgather.bench.judge import Judge
from dmlgather.bench.machine import caches, gpu, last_level
from dmlgather.bench.peers import Stage
from dmlgather.bench.problem import Problem, make
from dmlgather.bench.rig import Entry, Rig
from dmlgather.bench.suites import Case, free_memory
from dmlgather.bench.traffic import LINE, SECTOR, traffic
from dmlgather.bench.workloads import FLOOR
from dmlgather.host import cpus
from dmlgather.operator import CompiledOperator


class DeviceRig(Rig):
    """The CPU or the first GPU. Ours is the bound operator, and its result what the others' are compared with."""

    def __init__(self, device: str, peers: tuple[str, ...], seed: int) -> None:
        """DeviceError for "cuda" where there is no GPU."""
        self.cupy: Any = cuda.require(0) if device == "cuda" else None
        stream = None
        if self.cupy is None:
            self.clock = HostClock(last_level(caches()))
        else:
            self.clock = DeviceClock(self.cupy, gpu(self.cupy).l2_bytes)
            stream = self.clock.stream
        super().__init__(Stage(device, cpus(), stream), peers, seed)

    def free_bytes(self) -> int:
        """Memory that is free on the device, and on the host where problems are made."""
        return free_memory() if self.cupy is None else min(free_memory(), int(self.cupy.cuda.runtime.memGetInfo()[0]))

    def enter(self, case: Case) -> Entry:
        """As the base class says."""
        host = make(case.kind, case.dtype, self.random(case.name))
        problem = host if self.cupy is None else host.moved(self.cupy)
        compiled, ours = contenders.operator(problem, self.stage)
        problem.poison()
        ours.run()
        problem.wait()
        backend = cpu.prepare if self.cupy is None else partial(cuda.prepare, device=0)
        return Entry(
            problem,
            (ours,),
            Judge(case.name, problem, problem.out.copy()),
            self._others(case, compiled, problem),
            traffic(compiled.plan, host.index, LINE if self.cupy is None else SECTOR),
            backend(compiled.plan).describe(),
        )

    def _others(self, case: Case, compiled: CompiledOperator, problem: Problem) -> Iterator[Contender]:
        yield from contenders.copies(problem, self.stage)
        if case.workload.name == FLOOR:
            yield contenders.checked(compiled, problem)
            if self.cupy is not None:
                yield contenders.empty_launch(self.cupy)
