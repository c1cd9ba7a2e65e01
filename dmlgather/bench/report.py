"""The result of a run, as data, JSON and text."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict


class Timing(BaseModel):
    """Milliseconds of one contender: the median of all rounds and the middle 60 % of them."""

    model_config = ConfigDict(frozen=True)

    median_ms: float
    low_ms: float
    high_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """The summary of some rounds."""
        ordered = sorted(1e3 * value for value in seconds)
        fifth = len(ordered) // 5
        return cls(median_ms=statistics.median(ordered), low_ms=ordered[fifth], high_ms=ordered[-1 - fifth])


class Versus(BaseModel):
    """The operator beside one peer, run under the same conditions. ratio: the peer's median by ours; above 1 is ahead."""

    model_config = ConfigDict(frozen=True)

    peer: str
    ours: Timing
    theirs: Timing

    @property
    def ratio(self) -> float:
        """How many times the operator's median the peer's is."""
        return self.theirs.median_ms / self.ours.median_ms


class CaseReport(BaseModel):
    """One case. output_bytes: size of the result. spelling: what the NumPy peers ran. recipe: what the CPU backend chose."""

    model_config = ConfigDict(frozen=True)

    name: str
    what: str
    operator: str
    output_bytes: int
    spelling: str
    recipe: str
    versus: tuple[Versus, ...]


class Machine(BaseModel):
    """Where it was measured. cpus: how many this process could use."""

    model_config = ConfigDict(frozen=True)

    platform: str
    processor: str
    cpus: int


class BenchReport(BaseModel):
    """All cases of one run. date: UTC, ISO 8601. versions: of Python and of every package that was measured."""

    model_config = ConfigDict(frozen=True)

    suite: str
    scale: float
    rounds: int
    date: str
    machine: Machine
    versions: dict[str, str]
    cases: tuple[CaseReport, ...]

    def to_json(self) -> str:
        """The report as a JSON document, with the ratios written out."""
        document = self.model_dump(mode="json")
        for case, shown in zip(self.cases, document["cases"], strict=True):
            for versus, item in zip(case.versus, shown["versus"], strict=True):
                item["ratio"] = round(versus.ratio, 3)
        return json.dumps(document, indent=2)

    def table(self) -> list[str]:
        """The report as lines of text."""
        rows = [("case", "output MB", "peer", "ours ms", "theirs ms", "ratio", "recipe")]
        for case in self.cases:
            for versus in case.versus:
                times = (f"{versus.ours.median_ms:.2f}", f"{versus.theirs.median_ms:.2f}", f"{versus.ratio:.2f}x")
                rows.append((case.name, f"{case.output_bytes / 1e6:.1f}", versus.peer, *times, case.recipe.partition(":")[0]))
        return [*_aligned(rows), "", f"medians of {self.rounds} interleaved rounds; ratio: theirs by ours, above 1 is ahead"]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numeric = (False, True, False, True, True, True, False)
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in rows
    ]
