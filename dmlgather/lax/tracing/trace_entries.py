"""What `trace` returns: one entry per equation, and all of them as a table and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, overload

from dmlgather.dialects.exporter import Descriptors
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.lax.tracing.jaxprs import SourceLine
from dmlgather.plan import BytesMoved, IndexPlan


@dataclass(frozen=True, slots=True)
class Array:
    """Shape of an array, and JAX's name of its type."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Directml:
    """How DirectML does what an equation does.

    level: the lowest feature level that takes it; None where no level does. descriptors: for that level, in the order in which
    they run. differences: which indices read other elements than in JAX. reasons: why no level takes it.
    """

    level: FeatureLevel | None = None
    descriptors: Descriptors = ()
    differences: tuple[Finding, ...] = ()
    reasons: tuple[Finding, ...] = ()

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators' names: ("GATHER",)."""
        return tuple(desc.operator.name for desc in self.descriptors)

    def __str__(self) -> str:
        if self.level is None:
            return "none: " + ", ".join(sorted({finding.code for finding in self.reasons}))
        differ = ", ".join(finding.code for finding in self.differences)
        return f"{', '.join(self.operators)} from {self.level}{f' ({differ})' if differ else ''}"

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data; descriptors as DirectML's documents write them."""
        return {
            "level": None if self.level is None else str(self.level),
            "descriptors": [desc.document() for desc in self.descriptors],
            "differences": [finding.model_dump(mode="json") for finding in self.differences],
            "reasons": [finding.model_dump(mode="json") for finding in self.reasons],
        }


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of an equation.

    count: how often it ran. equal: whether the plan gave JAX's bytes each time; None where nothing was compared. note: the first
    difference, or why nothing was compared.
    """

    count: int
    equal: bool | None
    note: str = ""

    def __str__(self) -> str:
        if self.equal is None:
            return f"{self.count}: {self.note}"
        return f"{self.count}, equal" if self.equal else f"{self.count}, DIFFERENT: {self.note}"


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One equation that gathers or slices.

    where: the equations around it, from the outside in, "scan/jit:_take"; empty at the function's top level. primitive:
    "gather", "slice", "dynamic_slice" or "rev". indices: None where there are none; for a dynamic_slice its scalar starts,
    stacked. source: the user's line; None where there is none. mode, fill: JAX's mode and fill value; None where there is none.
    key_words: what the plan reads where operand holds PRNG keys: their words, uint32[5,2] of key<fry>[5]; else None.
    plan: over packed arrays. bytes_moved: by one run of the plan. no_plan: why plan, problem, bytes_moved and directml are None.
    runs: None unless the function was executed.
    """

    where: str
    primitive: str
    operand: Array
    indices: Array | None
    result: Array
    source: SourceLine | None
    mode: str | None = None
    fill: str | None = None
    problem: Problem | None = None
    key_words: Array | None = None
    plan: IndexPlan | None = None
    bytes_moved: BytesMoved | None = None
    directml: Directml | None = None
    no_plan: str = ""
    runs: Runs | None = None

    @property
    def equation(self) -> str:
        """The equation in short: "gather float32[4,6], int32[3,1] -> float32[3,6]"."""
        read = ", ".join(str(array) for array in (self.operand, self.indices) if array is not None)
        return f"{self.primitive} {read} -> {self.result}"

    @property
    def policy(self) -> str:
        """Mode and fill value: "clip", "fill nan"; "-" where nothing is looked up."""
        return " ".join(text for text in (self.mode, self.fill) if text is not None) or "-"

    def __str__(self) -> str:
        lines = [self.equation, f"  where     {self.where or 'the function itself'}", f"  source    {self.source or 'unknown'}"]
        if self.key_words is not None:
            lines.append(f"  words     {self.key_words}, what {self.operand} holds")
        if self.plan is None or self.bytes_moved is None:
            lines.append(f"  no plan   {self.no_plan}")
        else:
            moved = self.bytes_moved
            lines += [
                f"  mode      {self.policy}",
                f"  bytes     {moved.total} = {moved.index} of indices + {moved.read} read + {moved.written} written",
                f"  directml  {self.directml}",
                *(f"  {'plan' if number == 0 else '':9} {line}" for number, line in enumerate(str(self.plan).splitlines())),
            ]
        if self.runs is not None:
            lines.append(f"  runs      {self.runs}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON-able data; the plan as text, without the problem."""
        return {
            "where": self.where,
            "primitive": self.primitive,
            **{name: _plain(getattr(self, name)) for name in ("operand", "key_words", "indices", "result", "source", "runs")},
            "mode": self.mode,
            "fill": self.fill,
            "plan": None if self.plan is None else str(self.plan),
            "bytes_moved": None if self.bytes_moved is None else {**asdict(self.bytes_moved), "total": self.bytes_moved.total},
            "directml": None if self.directml is None else self.directml.to_json(),
            "no_plan": self.no_plan or None,
        }


def _plain(record: Array | SourceLine | Runs | None) -> dict[str, Any] | None:
    return None if record is None else asdict(record)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a function turns into; iterates over its entries. `str()` gives a table, `to_json()` plain data."""

    entries: tuple[TraceEntry, ...]
    executed: bool

    @property
    def equal(self) -> bool:
        """Whether something was compared, and every plan that was gave JAX's bytes in every run."""
        outcomes = [entry.runs.equal for entry in self.entries if entry.runs is not None and entry.runs.equal is not None]
        return bool(outcomes) and all(outcomes)

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
        return {"executed": self.executed, "entries": [entry.to_json() for entry in self.entries]}

    def __str__(self) -> str:
        if not self.entries:
            return "no gathers or slices"
        rows = [("equation", "mode", "bytes", "DirectML", "where", "source", "runs"), *map(_row, self.entries)]
        rows = rows if self.executed else [row[:-1] for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(entry: TraceEntry) -> tuple[str, ...]:
    bytes_moved = "-" if entry.bytes_moved is None else str(entry.bytes_moved.total)
    directml = "-" if entry.directml is None else str(entry.directml)
    return entry.equation, entry.policy, bytes_moved, directml, entry.where or "-", str(entry.source or "-"), str(entry.runs)
