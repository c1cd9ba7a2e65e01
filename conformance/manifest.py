"""The manifest of a folder of cases: what was written, so that what comes back can be judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from dmlgather.record import Record

FILE = "manifest.json"
"""Its name."""

CaseName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]
"""The name of a case, and the beginning of the names of its files."""


class PossibleAnswer(Record):
    """What DirectML may give where the documents leave something open."""

    means: str
    """In words."""

    bits: str | None
    """The elements of the output in row-major order, as hexadecimal digits of their bytes in memory's order; None where nothing
    runs."""


class CaseQuestion(Record):
    """What the documents leave open, and the case settles."""

    asks: str
    """What is open."""

    source: str
    """The documents, by the keys of docs/findings.md."""

    answers: Annotated[tuple[PossibleAnswer, ...], Field(min_length=1)]
    """dmlgather's own first."""


class ConformanceCase(Record):
    """One case: the model models/NAME.json, its inputs beside it, and what it writes, results/NAME.bin."""

    name: CaseName
    """Its name."""

    operator: str
    """The operator: "GATHER"."""

    files: Mapping[Annotated[str, Field(pattern=r"^[a-z0-9.-]{1,60}$")], str]
    """The SHA-256 digest of the model and of each input, by the name of the file in models/."""

    expected: str | None
    """The SHA-256 digest of the output's elements in row-major order, as the CPU computes them from the files; None for a
    question."""

    question: CaseQuestion | None = None
    """What the documents leave open; None for a case that they describe."""


class Manifest(Record):
    """What was written to a folder of cases."""

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote the folder."""

    format: Literal[1] = 1
    """The version of this format."""

    version: str
    """The version of dmlgather that wrote the folder."""

    level: str
    """The feature level at which all cases but the questions are legal."""

    seed: int
    """The seed of the random cases."""

    cases: tuple[ConformanceCase, ...]
    """The random cases, then the questions."""


class WrittenCases(Record):
    """What `python -m conformance write` wrote."""

    folder: str
    """The folder."""

    seed: int
    """The seed of the random cases."""

    level: str
    """The feature level at which they are legal."""

    cases: int
    """Random cases."""

    questions: int
    """Cases for questions that DirectML's documents leave open."""
