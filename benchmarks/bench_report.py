"""The report of a run, as records and JSON. A ratio is a peer's time divided by dmlgather's: above 1, dmlgather is faster."""

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
"""The role of a contender.

"ours": the bound operator, or a fused chain. "checked": the operator called with arrays. "unfused": a chain with one launch per
step. "peer": another library. "copy": a memory copy, as the upper limit. "launch": an empty kernel.
"""

Temperature = Literal["warm", "cold"]

CHAIN = "chain"
"""The operator's name in reports on chains."""

AHEAD = 0.95
"""A peer counts as faster below this ratio. Smaller differences cannot be measured on a busy machine."""


class BenchRecord(Record, extra="ignore"):
    """A part of a report. Reading ignores unknown keys, because JSON also has the computed fields."""


class Timing(BenchRecord):
    """Median, 20th and 80th percentile of the rounds, in milliseconds."""

    median_ms: float
    low_ms: float
    high_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Return the timing of rounds, to five digits."""
        ordered = sorted(float(f"{1e3 * value:.5g}") for value in seconds)
        fifth = len(ordered) // 5
        return cls(median_ms=statistics.median(ordered), low_ms=ordered[fifth], high_ms=ordered[-1 - fifth])


class Traffic(BenchRecord):
    """Bytes that one run moves.

    `index_bytes`, `output_bytes`: the size of the index tensor and of the output. `fetched_bytes`: source sectors, counted at
    every read, as without a cache. `touched_bytes`: source sectors, each counted once.
    """

    index_bytes: int
    output_bytes: int
    fetched_bytes: int
    touched_bytes: int

    @computed_field  # type: ignore[prop-decorator] # pydantic's order of decorators
    @property
    def useful_bytes(self) -> int:
        """Bytes of indices, elements read and elements written."""
        return self.index_bytes + 2 * self.output_bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def bound_bytes(self) -> int:
        """Bytes that any implementation must move: indices, output, and the lesser of fetched and touched bytes."""
        return self.index_bytes + self.output_bytes + min(self.fetched_bytes, self.touched_bytes)


class Usage(BenchRecord):
    """Use of a cluster's workers while a contender was timed.

    `sent_bytes`: bytes that all workers sent, median of the rounds; None if each round lost a worker. `peak_bytes`: largest
    resident memory of a worker, with mapped pages of files; None if unknown. `restarts`: number of lost workers.
    """

    sent_bytes: int | None
    peak_bytes: int | None
    restarts: int

    @classmethod
    def of(cls, rounds: Sequence[Usage]) -> Usage:
        sent = [usage.sent_bytes for usage in rounds if usage.sent_bytes is not None]
        return cls(
            sent_bytes=int(statistics.median(sent)) if sent else None,
            peak_bytes=max((usage.peak_bytes for usage in rounds if usage.peak_bytes is not None), default=None),
            restarts=sum(usage.restarts for usage in rounds),
        )


class Measured(BenchRecord):
    """The times of one contender in one case.

    `spelling`: the call, as code. `preallocated`: True if it writes to existing memory. `rounds`: number of timed rounds.
    `clock`: "wall" (until the result is complete) or "events" (CUDA events on the stream). `cold`: None if no cache was
    flushed. `host`: on a GPU, the time until the call returns. `usage`: None without a cluster.
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
        """Return the timing at a temperature, or None."""
        return self.warm if temperature == "warm" else self.cold

    def median_ms(self, temperature: Temperature) -> float:
        """Return the median at a temperature, or infinity if there is none."""
        timing = self.timing(temperature)
        return math.inf if timing is None else timing.median_ms


class CaseReport(BenchRecord):
    """The report of one case. Shapes and strides are in elements.

    `recipe`: the backend's description of its program. `cannot`: for each peer that cannot run the case, the reason.
    """

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
        return math.prod(self.input_shape) * np.dtype(self.dtype).itemsize

    @property
    def ours(self) -> Measured:
        """The fastest call of dmlgather's operator."""
        return min((item for item in self.measured if item.role == "ours"), key=lambda item: item.median_ms("warm"))

    def best(self, role: Role, temperature: Temperature, name: str | None = None) -> Measured | None:
        """Return the fastest contender of a role (and a name), or None."""
        named = [item for item in self.measured if item.role == role and name in (None, item.name)]
        timed = [item for item in named if item.timing(temperature) is not None]
        return min(timed, key=lambda item: item.median_ms(temperature), default=None)

    def ratio(self, temperature: Temperature, peer: str | None = None) -> float | None:
        """Return the median of `peer`, or of the fastest one, divided by dmlgather's. None without a peer."""
        other = self.best("peer", temperature, peer)
        return None if other is None else other.median_ms(temperature) / self.ours.median_ms(temperature)

    @property
    def gain(self) -> float | None:
        """Median of the unfused chain divided by that of the fused one. None if the case is no chain."""
        other = self.best("unfused", "warm")
        return None if other is None else other.median_ms("warm") / self.ours.median_ms("warm")

    def gigabytes_per_second(self, temperature: Temperature) -> float:
        """Return useful bytes divided by dmlgather's time."""
        return self.traffic.useful_bytes / self.ours.median_ms(temperature) / 1e6

    def share_of_copy(self, temperature: Temperature) -> float | None:
        """Return the rate of moving `bound_bytes`, divided by the rate of copying the output (reading and writing it)."""
        copy = self.best("copy", temperature)
        if copy is None:
            return None
        moved = self.traffic.bound_bytes / self.ours.median_ms(temperature)
        return moved / (2 * self.traffic.output_bytes / copy.median_ms(temperature))

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.name for item in self.measured if item.role == "peer"))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratios(self) -> dict[str, dict[str, float]]:
        """Ratios by temperature, and by peer or "best"."""
        return {
            temperature: {
                label: round(ratio, 3)
                for label, peer in (("best", None), *((name, name) for name in self.peers))
                if (ratio := self.ratio(temperature, peer)) is not None
            }
            for temperature in ("warm", "cold")
        }


class Cluster(BenchRecord):
    """The workers of a run, on this machine.

    `threads`, `memory_bytes`: limits of each worker. `processes`: True for processes, which are restarted if they exceed their
    memory; False for threads of one process. `restarts`: for each contender, the number of workers lost in all its calls, timed
    or not.
    """

    workers: int
    threads: int
    memory_bytes: int
    processes: bool = True
    restarts: dict[str, int] = Field(default={})


class BenchReport(BenchRecord):
    """The report of one run.

    `date`: UTC, ISO 8601. `seed`: determines contents and indices. `settle_ms`: pause before each timed call on the CPU.
    `flushed_bytes`: for each device, bytes written before each cold call. `peers`: each peer's rule for indices out of range.
    `missing`: for each absent peer or device, the reason. `cluster`: None without workers.
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
        """Geometric means of the cases' ratios, by temperature, and by peer or "best"."""
        means: dict[str, dict[str, float]] = {}
        for temperature in ("warm", "cold"):
            columns: dict[str, list[float]] = {}
            for case in self.cases:
                for name, ratio in case.ratios[temperature].items():
                    columns.setdefault(name, []).append(ratio)
            means[temperature] = {name: round(statistics.geometric_mean(values), 3) for name, values in columns.items()}
        return means

    def to_json(self) -> str:
        """Return the report as JSON with computed fields. `model_validate_json` reads it."""
        return self.model_dump_json(indent=1)
