"""A trace: the entries of a function as a table and as plain data, and the function run with them fused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, overload

from dmlgather.fusion import Fused
from dmlgather.tracing.entries import TraceEntry


class TracedProgram(Protocol):
    """A traced function that can run."""

    @property
    def fused(self) -> Fused:
        """The function's graph, fused."""

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the function returns for these arguments; see `Trace.run`."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a function turns into; iterates over its entries. `str()` gives a table, `to_json()` plain data."""

    entries: tuple[TraceEntry, ...]
    program: TracedProgram = field(repr=False, compare=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a trace holds a program of the traced library, and can neither be pickled nor copied: trace the function again, "
            "or keep to_json()"
        )

    @property
    def fused(self) -> Fused:
        """The function with its gathers, slices and views in as few launches as can be proven to do the same."""
        return self.program.fused

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns for arguments of the traced shapes and types, by the launches of `fused`.

        Integer arithmetic and concatenations run in NumPy (CuPy on a GPU), and everything else in the traced library, operator
        by operator. Arrays of NumPy give arrays of NumPy; with an array of the library among them all results are such. Results
        are the caller's own, also where the function returns an argument; all but arrays of JAX can be written.

        TypeError for other arguments than were traced, and what the library's operators raise.
        """
        return self.program.run(args, kwargs)

    def __iter__(self) -> Iterator[TraceEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, number: int) -> TraceEntry: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[TraceEntry, ...]: ...
    def __getitem__(self, number: int | slice) -> TraceEntry | tuple[TraceEntry, ...]:
        return self.entries[number]

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON-able data."""
        entries = [entry.to_json() for entry in self.entries]
        return {"entries": entries, "fused": self.fused.to_json()}

    def __str__(self) -> str:
        if not self.entries:
            return "no gathers or slices"
        rows = [("equation", "mode", "bytes", "DirectML", "launch", "where", "source"), *map(_row, self.entries)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(entry: TraceEntry) -> tuple[str, ...]:
    bytes_moved = "-" if entry.bytes_moved is None else str(entry.bytes_moved.total)
    directml = "-" if entry.directml is None else str(entry.directml)
    launches = ", ".join(map(str, entry.launches)) or "-"
    return entry.equation, entry.policy, bytes_moved, directml, launches, entry.where or "-", str(entry.source or "-")
