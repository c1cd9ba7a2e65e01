"""Traces of which each entry's plan has run on what the traced library's operator reads, and what was compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from dmlgather.fusion.traces import Trace, TraceEntry


@dataclass(frozen=True)
class Runs:
    """The runs of an entry.

    count: how often it ran. equal: whether the plan gave the traced library's bytes each time; None where nothing was compared.
    note: the first difference, or why nothing was compared.
    """

    count: int
    equal: bool | None
    note: str = ""

    def __str__(self) -> str:
        if self.equal is None:
            return f"{self.count}: {self.note}"
        return f"{self.count}, equal" if self.equal else f"{self.count}, DIFFERENT: {self.note}"


@dataclass(frozen=True)
class ExecutedEntry(TraceEntry):
    """An entry with its runs."""

    runs: Runs = Runs(0, None)

    @classmethod
    def of(cls, entry: TraceEntry, runs: Runs) -> ExecutedEntry:
        return cls(**{field.name: getattr(entry, field.name) for field in fields(entry)}, runs=runs)


@dataclass(frozen=True)
class Executed:
    """A trace, and its entries with their runs."""

    trace: Trace
    entries: tuple[ExecutedEntry, ...]

    @property
    def equal(self) -> bool:
        """Whether something was compared, and every plan that was gave the traced library's bytes in every run."""
        outcomes = [entry.runs.equal for entry in self.entries if entry.runs.equal is not None]
        return bool(outcomes) and all(outcomes)

    def __iter__(self) -> Iterator[ExecutedEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, number: int) -> ExecutedEntry:
        return self.entries[number]
