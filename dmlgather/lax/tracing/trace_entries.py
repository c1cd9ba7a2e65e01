"""The answer of `trace`: one entry per equation, and all of them as a table and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
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
    """What DirectML has for an equation.

    level: the lowest feature level that takes it, and descriptors: those that do it there, in the order in which they run; None
    and () where no level does, and reasons then say why. differences: what reads other elements than in JAX.
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
    """What came of an equation when it was executed.

    count: how often it ran. equal: whether the plan gave JAX's bytes each time; None where nothing was compared. note: what
    differed first, or why nothing was compared.
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

    where: the equations around it, from the outside in, "scan/jit:_take"; empty for those of the function itself. primitive:
    "gather", "slice", "dynamic_slice" or "rev". indices: None where there are none; the starts of a dynamic_slice, which are
    scalars in JAX, stacked. source: the user's line, None where there is none. mode, fill: JAX's mode and the value that it
    fills with, where there is one. plan: over packed arrays; bytes_moved: by one run of it. no_plan: why there is none, and no
    problem, bytes and descriptors. runs: None unless it was executed.
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
    plan: IndexPlan | None = None
    bytes_moved: BytesMoved | None = None
    directml: Directml | None = None
    no_plan: str = ""
    runs: Runs | None = None

    def stated(self, **facts: Any) -> TraceEntry:
        """The entry with some of its facts."""
        return replace(self, **facts)

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
            **{name: _array(getattr(self, name)) for name in ("operand", "indices", "result")},
            "source": None if self.source is None else asdict(self.source),
            "mode": self.mode,
            "fill": self.fill,
            "plan": None if self.plan is None else str(self.plan),
            "bytes_moved": None if self.bytes_moved is None else {**asdict(self.bytes_moved), "total": self.bytes_moved.total},
            "directml": None if self.directml is None else self.directml.to_json(),
            "no_plan": self.no_plan or None,
            "runs": None if self.runs is None else asdict(self.runs),
        }


def _array(array: Array | None) -> dict[str, Any] | None:
    return None if array is None else {"shape": list(array.shape), "dtype": array.dtype}


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
        columns: list[tuple[str, ...]] = [("equation", "mode", "bytes", "DirectML", "where", "source")]
        columns += [_row(entry) for entry in self.entries]
        if self.executed:
            columns = [
                (*row, text) for row, text in zip(columns, ("runs", *(str(entry.runs) for entry in self.entries)), strict=True)
            ]
        widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in columns)


def _row(entry: TraceEntry) -> tuple[str, ...]:
    bytes_moved = "-" if entry.bytes_moved is None else str(entry.bytes_moved.total)
    directml = "-" if entry.directml is None else str(entry.directml)
    return entry.equation, entry.policy, bytes_moved, directml, entry.where or "-", str(entry.source or "-")
