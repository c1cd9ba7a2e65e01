"""Which findings count, and what causes them: 47 nodes of one pattern are one cause with 47 places."""

from __future__ import annotations

import enum
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache

from pydantic import ConfigDict, Field

from dmlgather.directml.findings import Finding, LocatedFinding, Severity
from dmlgather.record import Record
from dmlgather.report.paths import program_file, program_line
from dmlgather.wording import counted


class FindingStatus(enum.StrEnum):
    """Whether a finding counts."""

    OPEN = "open"
    """It counts: an error fails the check."""
    KNOWN = "known"
    """It does not: the baseline has it."""
    IGNORED = "ignored"
    """It does not: the configuration ignores its code in this file, with a reason."""


class ProgramLine(Record):
    """A line of a program that creates an operator."""

    file: str
    """The source file as the compiler named it, with slashes; relative to the current folder if it is below."""

    line: int = Field(ge=1)
    """The line, counted from 1."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, name: str) -> ProgramLine | None:
        """Return the line that the name of a descriptor states, such as "src/rows.cpp:12"; None for another name."""
        found = program_line(name)
        file = program_file(found[0]) if found else None
        return cls(file=file, line=found[1]) if found and file and found[1] else None


def _none(value: object) -> bool:
    """Whether a field is left out of JSON."""
    return value is None


class ReportedFinding(LocatedFinding):
    """A finding in a file, and whether it counts."""

    model_config = ConfigDict(serialize_by_alias=True)

    status: FindingStatus = Field(default=FindingStatus.OPEN, alias="standing")
    """Whether it counts: "open" does; "known" is in the baseline, "ignored" in the configuration."""

    reason: str = ""
    """Why the configuration ignores it; empty for any other."""

    created: ProgramLine | None = Field(default=None, exclude_if=_none)
    """The line of the program that creates the descriptor, where the descriptor's name states it; left out of any other."""

    @classmethod
    def of_located(cls, finding: LocatedFinding, status: FindingStatus = FindingStatus.OPEN, reason: str = "") -> ReportedFinding:
        """`finding` with its status."""
        return cls.model_construct(**{**finding.__dict__, "standing": status, "reason": reason})

    @property
    def head(self) -> str:
        """Where to look first: FILE:LINE of the program, else `place`."""
        return self.place if self.created is None else str(self.created)

    def __str__(self) -> str:
        if self.created is None:
            return super().__str__()
        return f"{self.created}: {Finding.__str__(self)}{self.times} (dumped at {self.place})"

    @property
    def remark(self) -> str:
        """The text after a finding that does not count; empty for one that does."""
        if self.status is FindingStatus.KNOWN:
            return " (known: in the baseline)"
        return f" (ignored: {self.reason})" if self.status is FindingStatus.IGNORED else ""


class Fingerprint(Record):
    """What identifies a finding: all but its line and column, so that moving it in the file changes nothing."""

    file: str
    """The file, relative to the folder of the baseline, with slashes."""

    code: str
    """The finding's code: "DML302"."""

    subject: str = ""
    """The part of the file that `path` starts from: "dispatchables.gather"; empty for a single descriptor."""

    path: str = ""
    """The field, in DirectML's names: "OutputTensor.Sizes". Empty for the whole descriptor."""

    got: str
    """The actual value."""

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.subject, self.code, self.path)))
        return f"{self.file}: {where}: got {self.got}"


class CountedFingerprint(Fingerprint):
    """A finding in a baseline, and how often it occurs."""

    count: int = Field(default=1, ge=1)
    """The number of findings that are the same."""

    def __str__(self) -> str:
        return super().__str__() + (f" ({counted(self.count, 'time')})" if self.count > 1 else "")


class UnusedIgnore(Record):
    """An entry of the configuration that ignores a code and matches no finding."""

    file: str
    """The file of the configuration."""

    line: int | None = Field(default=None, ge=1)
    """Line of the entry, counted from 1; None where it is not known."""

    code: str
    """The code that it ignores."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: note: this entry for {self.code} matches no finding; remove it"


# Findings by what causes them: 47 nodes of one pattern are one cause with 47 places.


UNKNOWN = ("EXP301", "EXP302")
"""The codes of what a model leaves open. One input of the model may decide several inputs of a node."""

_DECIDES = re.compile(r"(?<!\w)('[^']*')(?=, an input of the graph)|(?<=input )('[^']*')")
"""The input of the model that decides a value, as findings name it."""

_TRIED = " (with "
"""Before the sizes that something was tried with, at the end of a text."""

_OWN = (
    (re.compile(r"""(?<!\w)'[^']*'|"[^"]*\""""), "''"),
    (re.compile(r"\{[^{}]*\}"), "{}"),
    (re.compile(r"\[[^][]*\]"), "[]"),
    (re.compile(r"(?<![\w.])(?<!\w-)-?\d+(?!\w)"), "0"),
)
"""What is a node's own in the texts of a finding: names, shapes, and numbers that are no part of a word. The time that they take
grows with the length of a text, which a hostile file may make long, and not with its square.
"""


class Cause(Record):
    """What findings have in common that one change may mend: code and standing, and texts that are alike but for the names and
    numbers of each node.
    """

    code: str
    """The code of its findings."""

    severity: Severity
    """Their severity."""

    standing: FindingStatus
    """Whether they count."""

    findings: tuple[int, ...]
    """Their positions in the `findings` of the file, counted from 0. Each finding has one cause."""

    places: tuple[str, ...]
    """The field of each of them, from the root of the file on: "If_0.then_branch/Slice_7.starts"."""


def causes(findings: Sequence[ReportedFinding], of_model: bool) -> tuple[Cause, ...]:
    """Return the causes of the findings of a file, in the order of their first findings. of_model: whether it is an ONNX model.

    A finding about a whole file, and one in a file of another sort, where each has a line of its own, is the only one of its
    cause.
    """
    grouped: dict[Hashable, list[int]] = {}
    for number, finding in enumerate(findings):
        grouped.setdefault(_alike(finding) if of_model and finding.subject else number, []).append(number)
    return tuple(_cause(findings, numbers) for numbers in grouped.values())


def _cause(findings: Sequence[ReportedFinding], numbers: Sequence[int]) -> Cause:
    first = findings[numbers[0]]
    places = tuple(findings[number].full_path for number in numbers)
    return Cause(code=first.code, severity=first.severity, standing=first.status, findings=tuple(numbers), places=places)


def _alike(finding: ReportedFinding) -> Hashable:
    """What the findings of one cause have in common."""
    texts = [finding.expected, finding.got, finding.remedy]
    if finding.code in UNKNOWN:
        where, decided = "", tuple(_DECIDES.findall(f"{finding.got} {finding.remedy}"))
    else:
        where, decided = finding.path, ()
    return finding.code, finding.status, decided, tuple(_without_own(text) for text in (where, *texts))


@lru_cache(maxsize=1024)  # what is expected, and the fix, are often the same
def _without_own(text: str) -> str:
    for pattern, replacement in _OWN:
        text = pattern.sub(replacement, text)
    return text.rpartition(_TRIED)[0] if _TRIED in text and text.endswith(")") else text
