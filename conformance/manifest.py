"""The manifest of a folder of cases, with the expected results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from dmlgather.record import Record

FILE = "manifest.json"

CaseName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]
"""Name of a case, and the start of its files' names."""


class PossibleAnswer(Record):
    """A possible answer of DirectML to an open question."""

    means: str
    """The answer in words."""

    bits: str | None
    """The bytes of the output's elements in row-major order, little-endian, in hexadecimal; null if nothing runs."""


class CaseQuestion(Record):
    """A question that the documents leave open."""

    asks: str
    """The question."""

    source: str
    """The documents, by the keys of docs/findings.md."""

    answers: Annotated[tuple[PossibleAnswer, ...], Field(min_length=1)]
    """The possible answers, dmlgather's first."""


class ConformanceCase(Record):
    """One case: the model models/NAME.json with its inputs beside it, and the result results/NAME.bin."""

    name: CaseName
    """The name of the case."""

    operator: str
    """The operator: "GATHER"."""

    files: Mapping[Annotated[str, Field(pattern=r"^[a-z0-9.-]{1,60}$")], str]
    """The SHA-256 digest of the model and of each input, by the name of the file in models/."""

    expected: str | None
    """The SHA-256 digest of the expected output's elements in row-major order; null for a question."""

    question: CaseQuestion | None = None
    """The question; null for a random case."""


class Manifest(Record):
    """The content of a folder of cases."""

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
    """The JSON output of `python -m conformance write`."""

    folder: str
    """The folder."""

    seed: int
    """The seed of the random cases."""

    level: str
    """The feature level at which the random cases are legal."""

    cases: int
    """The number of random cases."""

    questions: int
    """The number of cases for questions that DirectML's documents leave open."""
