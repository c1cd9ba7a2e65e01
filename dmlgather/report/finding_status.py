"""The status of a finding (open, known, ignored), and groups of findings that one change may fix."""

from __future__ import annotations

import enum
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache

from pydantic import ConfigDict, Field

from dmlgather.directml.findings import Finding, LocatedFinding, Severity
from dmlgather.record import Record, is_none
from dmlgather.report.paths import program_file, program_line
from dmlgather.wording import counted


class FindingStatus(enum.StrEnum):
    """The status of a finding. Only open findings can fail the check."""

    OPEN = "open"
    """The finding counts, and can fail the check."""
    KNOWN = "known"
    """The finding is in the baseline."""
    IGNORED = "ignored"
    """The configuration ignores the finding's code in its file."""


class ProgramLine(Record):
    """A line of a program's source code that creates a DirectML operator."""

    file: str
    """The source file as the compiler names it, with slashes. The name is relative if the file is inside the current folder."""

    line: int = Field(ge=1)
    """The line, counted from 1."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, name: str) -> ProgramLine | None:
        """Return the source line in a descriptor's name, such as "src/rows.cpp:12". None for other names."""
        place = program_line(name)
        file = program_file(place[0]) if place else None
        return cls(file=file, line=place[1]) if place and file and place[1] else None


class ReportedFinding(LocatedFinding):
    """A finding in a file, with its status."""

    model_config = ConfigDict(serialize_by_alias=True)

    status: FindingStatus = Field(default=FindingStatus.OPEN, alias="standing")
    """The status: "open" counts, "known" is listed in the baseline, "ignored" is ignored by the configuration."""

    reason: str = ""
    """The configuration's reason for ignoring the finding; empty if the finding is not ignored."""

    created: ProgramLine | None = Field(default=None, exclude_if=is_none)
    """The line of the program that creates the descriptor. Left out if the descriptor's name does not state it."""

    @classmethod
    def of_located(cls, finding: LocatedFinding, status: FindingStatus = FindingStatus.OPEN, reason: str = "") -> ReportedFinding:
        """Convert a `LocatedFinding`, and add a status and the reason for it."""
        return cls.model_construct(**{**finding.__dict__, "standing": status, "reason": reason})

    @property
    def head(self) -> str:
        """The place to look at first: FILE:LINE of the program that creates the descriptor, or else `place`."""
        return self.place if self.created is None else str(self.created)

    def __str__(self) -> str:
        if self.created is None:
            return super().__str__()
        return f"{self.created}: {Finding.__str__(self)}{self.times} (dumped at {self.place})"

    @property
    def remark(self) -> str:
        """The finding's status as a text to append. Empty for an open finding."""
        if self.status is FindingStatus.KNOWN:
            return " (known: in the baseline)"
        return f" (ignored: {self.reason})" if self.status is FindingStatus.IGNORED else ""


class Fingerprint(Record):
    """The identity of a finding in a baseline. It has no line and column, because these change when the file is edited."""

    file: str
    """The file, relative to the folder of the baseline, with slashes."""

    code: str
    """The finding's code: "DML302"."""

    subject: str = ""
    """The part of the file that the finding is about: "dispatchables.gather"; empty for a single descriptor."""

    path: str = ""
    """The field of the subject, in DirectML's names: "OutputTensor.Sizes"; empty for the whole descriptor."""

    got: str
    """The actual value, in words."""

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.subject, self.code, self.path)))
        return f"{self.file}: {where}: got {self.got}"


class CountedFingerprint(Fingerprint):
    """A finding in a baseline, and how often it occurs."""

    count: int = Field(default=1, ge=1)
    """The number of findings with this identity."""

    def __str__(self) -> str:
        return super().__str__() + (f" ({counted(self.count, 'time')})" if self.count > 1 else "")


class UnusedIgnore(Record):
    """An ignore entry of the configuration that matches no finding."""

    file: str
    """The file of the configuration."""

    line: int | None = Field(default=None, ge=1)
    """The line of the entry, counted from 1; null if it is unknown."""

    code: str
    """The code that it ignores."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: note: this entry for {self.code} matches no finding; remove it"


UNKNOWN = ("EXP301", "EXP302")
"""Codes of findings about facts that a model leaves open."""

_DECIDES = re.compile(r"(?<!\w)('[^']*')(?=, an input of the graph)|(?<=input )('[^']*')")
"""Finds the name of the model input that determines a value."""

_EXAMPLE = " (with "
"""Stands before example sizes at the end of a finding's text."""

_NODE_SPECIFIC = (
    (re.compile(r"""(?<!\w)'[^']*'|"[^"]*\""""), "''"),
    (re.compile(r"\{[^{}]*\}"), "{}"),
    (re.compile(r"\[[^][]*\]"), "[]"),
    (re.compile(r"(?<![\w.])(?<!\w-)-?\d+(?!\w)"), "0"),
)
"""Replacements of names, shapes and numbers. After them, findings with the same cause have equal texts.

Matching takes linear time, because a hostile file may have long texts.
"""


class Cause(Record):
    """A group of findings that one change may fix. All have the same code and status. The texts differ only in names
    and numbers.
    """

    code: str
    """The code of the findings."""

    severity: Severity
    """The severity of the findings."""

    standing: FindingStatus
    """The status of the findings."""

    findings: tuple[int, ...]
    """The positions of the findings in the file's `findings`, counted from 0. Each finding belongs to one cause."""

    places: tuple[str, ...]
    """The field of each finding, from the root of the file: "If_0.then_branch/Slice_7.starts"."""


def causes(findings: Sequence[ReportedFinding], of_model: bool) -> tuple[Cause, ...]:
    """Group a file's findings by cause. Only findings about nodes of ONNX models are grouped."""
    grouped: dict[Hashable, list[int]] = {}
    for number, finding in enumerate(findings):
        grouped.setdefault(_cause_key(finding) if of_model and finding.subject else number, []).append(number)
    return tuple(_cause(findings, numbers) for numbers in grouped.values())


def _cause(findings: Sequence[ReportedFinding], numbers: Sequence[int]) -> Cause:
    first = findings[numbers[0]]
    places = tuple(findings[number].full_path for number in numbers)
    return Cause(code=first.code, severity=first.severity, standing=first.status, findings=tuple(numbers), places=places)


def _cause_key(finding: ReportedFinding) -> Hashable:
    texts = [finding.expected, finding.got, finding.remedy]
    if finding.code in UNKNOWN:  # without the path, because one input of the model may decide several inputs of a node
        path, inputs = "", tuple(_DECIDES.findall(f"{finding.got} {finding.remedy}"))
    else:
        path, inputs = finding.path, ()
    return finding.code, finding.status, inputs, tuple(_generalised(text) for text in (path, *texts))


@lru_cache(maxsize=1024)  # many findings have the same texts
def _generalised(text: str) -> str:
    for pattern, replacement in _NODE_SPECIFIC:
        text = pattern.sub(replacement, text)
    return text.rpartition(_EXAMPLE)[0] if _EXAMPLE in text and text.endswith(")") else text
