"""The result of a run, as data and JSON. Ratios are a peer's time divided by dmlgather's: above 1 dmlgather is faster."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field, computed_field

from dmlgather.record import Record
from dmlgather.selftest.selftest_report import Machine

Role = Literal["ours", "checked", "unfused", "peer", "copy", "launch"]
"""ours: the bound operator, or a fused chain; checked: the operator called with arrays; unfused: a chain, each step a launch of
dmlgather; copy: the limit of memory; launch: an empty kernel.
"""

Temperature = Literal["warm", "cold"]

CHAIN = "chain"
"""What stands in the place of the operator where there are several steps."""

AHEAD = 0.95
"""The ratio below which the peer counts as faster. A smaller difference cannot be measured on a busy machine."""


class BenchRecord(Record, extra="ignore"):
    """A part of a report. JSON also has computed fields, which are ignored when it is read."""


class Timing(BenchRecord):
    """Milliseconds: the median of the rounds, and their 20th and 80th percentiles."""

    median_ms: float
    low_ms: float
    high_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """The timing of some rounds, to five digits."""
        ordered = sorted(float(f"{1e3 * value:.5g}") for value in seconds)
        fifth = len(ordered) // 5
        return cls(median_ms=statistics.median(ordered), low_ms=ordered[fifth], high_ms=ordered[-1 - fifth])


class Traffic(BenchRecord):
    """Bytes. index_bytes: of the index tensor. output_bytes: written. fetched_bytes: whole sectors of the source for every read,
    as without a cache. touched_bytes: whole sectors of the source that are read, each once.
    """

    index_bytes: int
    output_bytes: int
    fetched_bytes: int
    touched_bytes: int

    @computed_field  # type: ignore[prop-decorator] # as pydantic writes it
    @property
    def useful_bytes(self) -> int:
        """Indices, elements read and elements written."""
        return self.index_bytes + 2 * self.output_bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def bound_bytes(self) -> int:
        """Bytes that every implementation has to move: index bytes, output bytes, and the lesser of fetched and touched bytes."""
        return self.index_bytes + self.output_bytes + min(self.fetched_bytes, self.touched_bytes)


class Usage(BenchRecord):
    """A contender's use of a cluster's workers while it was timed.

    sent_bytes: by all workers to each other and to the caller, the median of the rounds; None if each round lost a worker.
    peak_bytes: the largest resident memory of a worker, mapped pages of files included; None if the system does not report it.
    restarts: workers lost.
    """

    sent_bytes: int | None
    peak_bytes: int | None
    restarts: int

    @classmethod
    def of(cls, rounds: Sequence[Usage]) -> Usage:
        """The usage in some rounds."""
        sent = [usage.sent_bytes for usage in rounds if usage.sent_bytes is not None]
        return cls(
            sent_bytes=int(statistics.median(sent)) if sent else None,
            peak_bytes=max((usage.peak_bytes for usage in rounds if usage.peak_bytes is not None), default=None),
            restarts=sum(usage.restarts for usage in rounds),
        )


class Measured(BenchRecord):
    """One contender in one case. spelling: as one types it. preallocated: whether it writes to existing memory. rounds: how often
    it was timed. clock: "wall" (until the result is complete) or "events" (CUDA events on the stream). cold: None if no cache was
    flushed. host: time until a call returned, on a GPU. usage: of a cluster.
    """

    name: str
    role: Role
    spelling: str
    preallocated: bool
    rounds: int
    clock: Literal["wall", "events"]
    warm: Timing
    cold: Timing | None
    host: Timing | None = None
    usage: Usage | None = None

    def timing(self, temperature: Temperature) -> Timing | None:
        """The timing at a temperature; None if it was not taken."""
        return self.warm if temperature == "warm" else self.cold

    def median_ms(self, temperature: Temperature) -> float:
        """The median at a temperature; infinite if it was not taken."""
        timing = self.timing(temperature)
        return math.inf if timing is None else timing.median_ms


class CaseReport(BenchRecord):
    """One case. Shapes and strides are in elements. recipe: chosen by the backend. cannot: peers that cannot do it, and why."""

    name: str
    workload: str
    group: str
    what: str
    device: str
    operator: str
    dtype: str
    index_type: str | None
    draw: str | None
    input_shape: tuple[int, ...]
    input_strides: tuple[int, ...] | None
    index_shape: tuple[int, ...] | None
    output_shape: tuple[int, ...]
    traffic: Traffic
    recipe: str
    measured: tuple[Measured, ...]
    cannot: dict[str, str]

    @property
    def table_bytes(self) -> int:
        """Bytes of the packed input."""
        return math.prod(self.input_shape) * np.dtype(self.dtype).itemsize

    @property
    def ours(self) -> Measured:
        """The fastest way to call dmlgather's operator."""
        return min((item for item in self.measured if item.role == "ours"), key=lambda item: item.median_ms("warm"))

    def best(self, role: Role, temperature: Temperature, name: str | None = None) -> Measured | None:
        """The fastest contender of a role (with this name); None if there is none."""
        named = [item for item in self.measured if item.role == role and name in (None, item.name)]
        found = [item for item in named if item.timing(temperature) is not None]
        return min(found, key=lambda item: item.median_ms(temperature), default=None)

    def ratio(self, temperature: Temperature, peer: str | None = None) -> float | None:
        """The median of the fastest peer (or of one peer's fastest spelling) divided by dmlgather's; None without a peer."""
        other = self.best("peer", temperature, peer)
        return None if other is None else other.median_ms(temperature) / self.ours.median_ms(temperature)

    @property
    def gain(self) -> float | None:
        """The median of the chain step by step, divided by that of the fused one; None where there is no chain."""
        other = self.best("unfused", "warm")
        return None if other is None else other.median_ms("warm") / self.ours.median_ms("warm")

    def gigabytes_per_second(self, temperature: Temperature) -> float:
        """Useful bytes divided by dmlgather's time."""
        return self.traffic.useful_bytes / self.ours.median_ms(temperature) / 1e6

    def share_of_copy(self, temperature: Temperature) -> float | None:
        """The rate of moving `bound_bytes`, divided by the rate of a copy of the output, which reads and writes its bytes."""
        copy = self.best("copy", temperature)
        if copy is None:
            return None
        moved = self.traffic.bound_bytes / self.ours.median_ms(temperature)
        return moved / (2 * self.traffic.output_bytes / copy.median_ms(temperature))

    @property
    def peers(self) -> tuple[str, ...]:
        """Names of the peers that took part."""
        return tuple(dict.fromkeys(item.name for item in self.measured if item.role == "peer"))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratios(self) -> dict[str, dict[str, float]]:
        """Temperature -> "best" and each peer -> ratio."""
        return {
            temperature: {
                label: round(found, 3)
                for label, peer in (("best", None), *((name, name) for name in self.peers))
                if (found := self.ratio(temperature, peer)) is not None
            }
            for temperature in ("warm", "cold")
        }


class Cluster(BenchRecord):
    """The workers of a run, on this machine. threads, memory_bytes: of each. processes: whether they are processes, which are
    restarted if they exceed their memory, or threads of one process. restarts: contenders that lost workers, and how many, in all
    calls, timed or not.
    """

    workers: int
    threads: int
    memory_bytes: int
    processes: bool = True
    restarts: dict[str, int] = Field(default={})


class BenchReport(BenchRecord):
    """All cases of one run.

    date: UTC, ISO 8601. seed: of contents and indices. settle_ms: pause before each timed call on the CPU. flushed_bytes: written
    before each cold call, by device. peers: those that took part, and what each does with an index out of range. missing: those
    that could not, and why. cluster: None if there is none.
    """

    suite: str
    date: str
    machine: Machine
    versions: dict[str, str]
    settle_ms: float
    flushed_bytes: dict[str, int]
    peers: dict[str, str]
    missing: dict[str, str]
    cases: tuple[CaseReport, ...]
    seed: int | None = None
    cluster: Cluster | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def geometric_means(self) -> dict[str, dict[str, float]]:
        """Temperature -> "best" and each peer -> geometric mean of the ratios over the cases in which it took part."""
        means: dict[str, dict[str, float]] = {}
        for temperature in ("warm", "cold"):
            columns: dict[str, list[float]] = {}
            for case in self.cases:
                for name, ratio in case.ratios[temperature].items():
                    columns.setdefault(name, []).append(ratio)
            means[temperature] = {name: round(statistics.geometric_mean(values), 3) for name, values in columns.items()}
        return means

    def to_json(self) -> str:
        """The report as a JSON document, computed fields included; `model_validate_json` reads it."""
        return self.model_dump_json(indent=1)
