"""What the traces of JAX and PyTorch share: entries, tables, plain data, and fused runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol, overload

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.element_types import exact_text
from dmlgather.dialects.exporter import LEVELS, Descriptors, Exporter
from dmlgather.dialects.index_graph import Step
from dmlgather.dialects.problem import Problem
from dmlgather.directml import FeatureLevel, Finding, Report
from dmlgather.fusion import Fused
from dmlgather.plan import BytesMoved, IndexPlan


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The user's line that an equation comes from: the innermost one outside of the traced library, Python and this package."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Array:
    """Shape of an array, and the traced library's name of its type."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Directml:
    """How DirectML does what an equation does.

    level: the lowest feature level that takes it; None where no level does. descriptors: for that level, in the order in which
    they run. differences: which indices read other elements than in the traced library. reasons: why no level takes it.
    """

    level: FeatureLevel | None = None
    descriptors: Descriptors = ()
    differences: tuple[Finding, ...] = ()
    reasons: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, exporter: Exporter, problem: Problem, described: Problem, known: Any = None) -> Directml:
        """Of a dialect's problem. described: what the descriptors do. known: as `Exporter.differences` takes it."""
        lowest = exporter.lowest(described)
        if lowest is not None:
            return cls(*lowest, differences=exporter.differences(problem, known))
        refused = exporter.express(described, LEVELS[-1])
        assert isinstance(refused, Report), "no level takes it"
        return cls(reasons=refused.findings)

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
class DynamicSizes:
    """What holds of a node at every size that a program with dynamic shapes takes.

    shapes: of what is read and written, with expressions for sizes: "[x[0],5], [i[0]] -> [i[0],5]", where x[0] is the first size
    of the argument x. verdict: "taken", "refused" or "unknown": whether DirectML takes it. provided: the conditions that sizes
    must meet so that no tensor is empty. lowest: the feature level that takes it at every such size. reasons: why it is refused.
    """

    shapes: str
    verdict: str
    provided: tuple[str, ...] = ()
    lowest: str | None = None
    reasons: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        level = f" from {self.lowest}" if self.lowest is not None else ""
        provided = f" provided {', '.join(self.provided)}" if self.provided else ""
        return f"{self.shapes}: {self.verdict}{level}{provided}"

    def to_json(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {
            "shapes": self.shapes,
            "verdict": self.verdict,
            "provided": list(self.provided),
            "lowest": self.lowest,
            "reasons": [finding.model_dump(mode="json") for finding in self.reasons],
        }


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One equation of JAX that gathers or slices, or one such node of PyTorch.

    where: the equations around it, from the outside in, "scan/jit:_take"; empty at the function's top level. primitive:
    "gather", "slice", "dynamic_slice" or "rev". indices: None where there are none; for a dynamic_slice its scalar starts,
    stacked. source: the user's line; None where there is none. mode, fill: JAX's mode and fill value; None where there is none.
    key_words: what the plan reads where operand holds PRNG keys: their words, uint32[5,2] of key<fry>[5]; else None.
    plan: over packed arrays. bytes_moved: by one run of the plan. no_plan: why plan, problem, bytes_moved and directml are None.
    launches: the numbers of the launches of a fused run that do it; none where the result is known or no output needs it, and
    inside loops, branches and what else is run as a whole. dynamic: what holds at other sizes; None where all are fixed.
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
    launches: tuple[int, ...] = ()
    dynamic: DynamicSizes | None = None

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
                f"  launch    {', '.join(map(str, self.launches)) or '-'}",
                f"  mode      {self.policy}",
                f"  bytes     {moved.total} = {moved.index} of indices + {moved.read} read + {moved.written} written",
                f"  directml  {self.directml}",
                *(f"  {'plan' if number == 0 else '':9} {line}" for number, line in enumerate(str(self.plan).splitlines())),
            ]
        if self.dynamic is not None:
            lines.append(f"  dynamic   {self.dynamic}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON-able data; the plan as text, without the problem."""
        return {
            "where": self.where,
            "primitive": self.primitive,
            **{name: _plain(getattr(self, name)) for name in ("operand", "key_words", "indices", "result", "source")},
            "mode": self.mode,
            "fill": self.fill,
            "plan": None if self.plan is None else str(self.plan),
            "bytes_moved": None if self.bytes_moved is None else {**asdict(self.bytes_moved), "total": self.bytes_moved.total},
            "directml": None if self.directml is None else self.directml.to_json(),
            "no_plan": self.no_plan or None,
            "launches": list(self.launches),
            "dynamic": None if self.dynamic is None else self.dynamic.to_json(),
        }


def _plain(record: Array | SourceLine | None) -> dict[str, Any] | None:
    return None if record is None else asdict(record)


# A trace: the entries of a function as a table and as plain data, and the function run with them fused.


class TracedProgram(Protocol):
    """A traced function that can run."""

    @property
    def fused(self) -> Fused:
        """The function's graph, fused."""

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the function returns for these arguments; see `Trace.run`."""


def meaning(value: Any) -> Hashable:
    """A parameter of an opaque step, equal where it means the same. An object without a value of its own equals itself alone."""
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        return type(value).__name__, exact_text(value)  # 1, 1.0 and True are equal in Python, and so are 0.0 and -0.0
    try:
        hash(value)
    except TypeError:
        return object()
    return type(value).__name__, value


def launches_of(fused: Fused) -> dict[str, tuple[int, ...]]:
    """The numbers of the launches that do a step, by the step's name."""
    done: dict[str, tuple[int, ...]] = {}
    for number, launch in enumerate(fused.launches):
        for step in launch.holds:
            done[step] = (*done.get(step, ()), number)
    return done


def opaque_results(step: Step, results: Sequence[Any], home: Device) -> list[Any]:
    """What an opaque step writes: its results, and behind them, of effects and checks, that they have happened."""
    return [*results, *(arrays.move(np.ones((), bool), CPU, home) for _ in step.outputs[len(results) :])]


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
