"""One device with everything set up to measure on it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dmlgather.backends import cpu, cuda
from dmlgather.bench import contenders
from dmlgather.bench.clocks import Clock, Contender, DeviceClock, HostClock, Samples, interleave
from dmlgather.bench.draws import UNIFORM
from dmlgather.bench.errors import CannotSayError, MismatchError
from dmlgather.bench.machine import caches, gpu, last_level
from dmlgather.bench.peers import Peer, Stage, invite
from dmlgather.bench.problem import Array, Problem, make
from dmlgather.bench.report import CaseReport, Measured, Timing
from dmlgather.bench.suites import Case, free_memory
from dmlgather.bench.traffic import LINE, SECTOR, traffic
from dmlgather.bench.workloads import FLOOR
from dmlgather.operator import CompiledOperator
from dmlgather.wording import counted

CASE_S = 6.0
"""Seconds of timing that a case should take, when no number of rounds is given."""


class Rig:
    """A clock, and the peers of these names that can run on `device`. DeviceError for "cuda" where there is no GPU."""

    def __init__(self, device: str, peers: tuple[str, ...]) -> None:
        self.device = device
        self.cupy: Any = cuda.require(0) if device == "cuda" else None
        self.clock: Clock
        if self.cupy is None:
            self.clock, stream = HostClock(last_level(caches())), None
        else:
            self.clock = DeviceClock(self.cupy, gpu(self.cupy).l2_bytes)
            stream = self.clock.stream
        self._stage = Stage(device, cpu.cpus(), stream)
        self.peers, self.missing = invite(peers, self._stage)

    def free_bytes(self) -> int:
        """Memory that is free on the device, and on the host where problems are made."""
        return free_memory() if self.cupy is None else min(free_memory(), int(self.cupy.cuda.runtime.memGetInfo()[0]))

    def measure(self, case: Case, rounds: int | None) -> CaseReport:
        """Make the case's problem, compare everybody's bits, time everybody. MismatchError, before anything is timed."""
        host = make(case.kind, case.dtype, np.random.default_rng())
        with self.clock.current():
            problem = host if self.cupy is None else host.moved(self.cupy)
            compiled, ours = contenders.operator(problem, self._stage)
            judge = _Judge(case.name, problem, ours)
            theirs, cannot = self._theirs(problem, judge)
            field = [ours, *theirs, *contenders.copies(problem, self._stage), *self._floor(case, compiled, problem)]
            samples = interleave(field, self.clock, rounds, CASE_S)
        return CaseReport(
            **_described(case, host, compiled),
            measured=tuple(map(self._measured, field, samples)),
            cannot=cannot,
        )

    def _measured(self, entrant: Contender, samples: Samples) -> Measured:
        return Measured(
            name=entrant.name,
            role=entrant.role,
            spelling=entrant.spelling,
            preallocated=entrant.preallocated,
            rounds=len(samples.warm),
            clock=self.clock.kind(entrant),
            warm=Timing.of(samples.warm),
            cold=Timing.of(samples.cold),
            host=Timing.of(samples.host) if samples.host else None,
        )

    def _theirs(self, problem: Problem, judge: _Judge) -> tuple[list[Contender], dict[str, str]]:
        entrants, cannot = [], {}
        for peer in self.peers:
            try:
                for said in peer.spellings(problem):
                    own_clock = self.cupy is not None and peer.own_clock
                    entrant = Contender(peer.name, "peer", said.text, said.run, said.preallocated, own_clock)
                    judge.compare(entrant, peer)
                    entrants.append(entrant)
            except CannotSayError as error:
                cannot[peer.name] = str(error)
        return entrants, cannot

    def _floor(self, case: Case, compiled: CompiledOperator, problem: Problem) -> Iterator[Contender]:
        if case.workload.name == FLOOR:
            yield contenders.checked(compiled, problem)
            if self.cupy is not None:
                yield contenders.empty_launch(self.cupy)


class _Judge:
    """Compares results with the operator's, bit for bit."""

    def __init__(self, case: str, problem: Problem, ours: Contender) -> None:
        self._case, self._problem = case, problem
        problem.poison()
        ours.run()
        self._wait()
        self._expected = self._bits(problem.out).copy()

    def compare(self, entrant: Contender, peer: Peer) -> None:
        """MismatchError, naming the first position, unless its result has the same shape and bits."""
        self._problem.poison()
        result = peer.array(entrant.run())
        self._wait()
        if tuple(result.shape) != self._problem.kind.out_shape:
            shapes = f"{self._problem.kind.out_shape}, {entrant.name}'s has {tuple(result.shape)}"
            raise MismatchError(f"{self._case}: the result has shape {shapes}")
        differ = self._bits(result) != self._expected
        if count := int(differ.sum()):
            at = tuple(map(int, np.unravel_index(int(differ.reshape(-1).argmax()), result.shape)))
            raise MismatchError(
                f"{self._case}: not {entrant.name}'s bits ({entrant.spelling}) in {counted(count, 'element')}, "
                f"first at {list(at)}"
            )

    def _bits(self, array: Array) -> Array:
        return self._problem.library.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")

    def _wait(self) -> None:
        if self._problem.library is not np:
            self._problem.library.cuda.runtime.deviceSynchronize()


def _described(case: Case, host: Problem, compiled: CompiledOperator) -> dict[str, Any]:
    """The fields of a report that need no timing."""
    backend = partial(cuda.prepare, device=0) if case.device == "cuda" else cpu.prepare
    return {
        "name": case.name,
        "workload": case.workload.name,
        "group": case.workload.group,
        "what": case.workload.what,
        "device": case.device,
        "operator": compiled.desc.operator.name,
        "dtype": case.dtype,
        "index_type": None if host.index is None else str(host.index.dtype),
        "draw": None if host.index is None else str(getattr(case.kind, "draw", UNIFORM)),
        "input_shape": case.kind.shape,
        "input_strides": case.kind.strides,
        "index_shape": case.kind.index_shape,
        "output_shape": case.kind.out_shape,
        "traffic": traffic(compiled.plan, host.index, SECTOR if case.device == "cuda" else LINE),
        "recipe": backend(compiled.plan).describe(),
    }
