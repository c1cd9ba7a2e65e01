"""Where cases are measured: what all places have in common."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dmlgather.bench.clocks import Clock, Contender, Samples, interleave
from dmlgather.bench.draws import UNIFORM
from dmlgather.bench.errors import BenchError, CannotSayError
from dmlgather.bench.judge import Judge
from dmlgather.bench.peers import Stage, invite
from dmlgather.bench.problem import Problem
from dmlgather.bench.report import CaseReport, Cluster, Measured, Timing, Traffic, Usage
from dmlgather.bench.suites import Case


@dataclass(frozen=True, slots=True)
class Entry:
    """A case that is set up. problem: what contenders work on. ours: ways to say it; the first sets the pace. judge: knows
    the result, which ours has given. others: contenders that move something else, made when everybody has been compared.
    traffic, recipe: as in the report.
    """

    problem: Problem
    ours: tuple[Contender, ...]
    judge: Judge
    others: Iterable[Contender]
    traffic: Traffic
    recipe: str


class Rig(ABC):
    """A place with everything set up to measure there: a clock, and the peers of these names that can run there.

    packages: whose versions matter here. cupy: the module, on a GPU. case_s: seconds of timing that a case should take when no
    number of rounds is given. held: what is given back when the rig is no longer used.
    """

    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    cupy: Any = None
    clock: Clock
    case_s: float = 6.0

    def __init__(self, stage: Stage, peers: tuple[str, ...], seed: int) -> None:
        """seed: contents and indices follow from it and a case's name."""
        self.device, self.stage, self.held, self._seed = stage.device, stage, ExitStack(), seed
        self.peers, self.missing = invite(peers, stage)

    @abstractmethod
    def free_bytes(self) -> int:
        """Memory that a case can take a share of."""

    @abstractmethod
    def enter(self, case: Case) -> Entry:
        """Make the case's problem and our contender. MismatchError where ours is judged by somebody else, and differs."""

    def cluster(self) -> Cluster | None:
        """The workers and what became of them, where there are any."""
        return None

    def guarded(self, name: str, run: Callable[[], Any]) -> Callable[[], Any]:  # noqa: ARG002 - for those who keep accounts
        """A contender's call, but what keeps it from running here is a CannotSayError."""
        return run

    def random(self, name: str) -> np.random.Generator:
        """What draws something of that name."""
        return np.random.default_rng([self._seed, zlib.crc32(name.encode())])

    def measure(self, case: Case, rounds: int | None) -> CaseReport:
        """Set the case up, compare everybody's bits, time everybody. MismatchError, before anything is timed."""
        with self.clock.current():
            try:
                entry = self.enter(case)
                theirs, cannot = self._theirs(entry)
                field = [*entry.ours, *theirs, *entry.others]
                samples = interleave(field, self.clock, rounds, self.case_s)
            except CannotSayError as error:  # ours cannot, or somebody no longer could
                raise BenchError(f"{case.name}: {error}") from error
        return CaseReport(**_described(case, entry), measured=tuple(map(self._measured, field, samples)), cannot=cannot)

    def _measured(self, entrant: Contender, samples: Samples) -> Measured:
        return Measured(
            name=entrant.name,
            role=entrant.role,
            spelling=entrant.spelling,
            preallocated=entrant.preallocated,
            rounds=len(samples.warm),
            clock=self.clock.kind(entrant),
            warm=Timing.of(samples.warm),
            cold=Timing.of(samples.cold) if samples.cold else None,
            host=Timing.of(samples.host) if samples.host else None,
            usage=Usage.of(samples.usage) if samples.usage else None,
        )

    def _theirs(self, entry: Entry) -> tuple[list[Contender], dict[str, str]]:
        entrants, cannot = [], {}
        for peer in self.peers:
            try:
                for said in peer.spellings(entry.problem):
                    own_clock = self.cupy is not None and peer.own_clock
                    run = self.guarded(peer.name, said.run)
                    entrant = Contender(peer.name, "peer", said.text, run, said.preallocated, own_clock)
                    entry.judge.compare(entrant, peer)
                    entrants.append(entrant)
            except CannotSayError as error:
                cannot[peer.name] = str(error)
        return entrants, cannot


def _described(case: Case, entry: Entry) -> dict[str, Any]:
    """The fields of a report that need no timing."""
    problem = entry.problem
    return {
        "name": case.name,
        "workload": case.workload.name,
        "group": case.workload.group,
        "what": case.workload.what,
        "device": case.device,
        "operator": problem.descriptor.operator.name,
        "dtype": case.dtype,
        "index_type": None if problem.index is None else str(problem.index.dtype),
        "draw": None if problem.index is None else str(getattr(case.kind, "draw", UNIFORM)),
        "input_shape": case.kind.shape,
        "input_strides": case.kind.strides,
        "index_shape": case.kind.index_shape,
        "output_shape": case.kind.out_shape,
        "traffic": entry.traffic,
        "recipe": entry.recipe,
    }
