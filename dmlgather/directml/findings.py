"""Findings (violations of rules), reports of all findings of a descriptor, and reasons why files cannot be read."""

from __future__ import annotations

import enum
from typing import Any

from pydantic import Field

from dmlgather.directml.types import FeatureLevelField
from dmlgather.record import Record
from dmlgather.wording import counted


class Severity(enum.StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """The descriptor cannot work as it is."""
    WARNING = "warning"
    """The descriptor works, but not on every device, or perhaps not as intended."""
    NOTE = "note"
    """Information. Nothing has to be fixed."""


class Finding(Record):
    """One violation of a rule."""

    code: str
    """Code of the rule, such as "DML302". Codes never change their meaning. `docs/findings.md` explains each code."""

    severity: Severity
    """ERROR, WARNING or NOTE. All findings of a code have the same severity."""

    path: str
    """The field at fault, in DirectML's names: "IndicesTensor.Sizes[2]". Empty if the finding concerns the whole descriptor."""

    message: str
    """The rule, as a sentence with "must" or "should"."""

    expected: str
    """The value or the condition that the rule requires."""

    got: str
    """The actual value."""

    remedy: str
    """How to fix the fault."""

    level: FeatureLevelField | None = None
    """Lowest feature level that accepts the actual value. None if no level accepts it, or if the rule is the same at all
    levels."""

    source: str
    """The document that states the rule, and the section: "[G] Tensor support". G is the document's key in `SOURCES`."""

    def __str__(self) -> str:
        where = f" {self.path}" if self.path else ""
        return f"{self.code} {self.severity}{where}: {self.message}: expected {self.expected}, got {self.got}; fix: {self.remedy}"


class Report(Record):
    """The result of checking one descriptor: all findings."""

    subject: str
    """The operator of the checked descriptor, such as "DML_OPERATOR_GATHER"."""

    level: FeatureLevelField
    """The feature level at which the descriptor was checked."""

    findings: tuple[Finding, ...] = ()
    """All findings, in the order of the rules."""

    @property
    def ok(self) -> bool:
        """True if there is no ERROR."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity ERROR."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings of severity WARNING."""
        return self._of(Severity.WARNING)

    def raise_for_errors(self) -> None:
        """Raise DescriptorError if there is an ERROR. Its message lists all errors."""
        if not self.ok:
            raise DescriptorError(self)

    def _of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is severity)

    def __str__(self) -> str:
        head = f"{self.subject} at feature level {self.level}: "
        if not self.findings:
            return head + "no findings"
        counts = [counted(n, kind) for kind in Severity if (n := len(self._of(kind)))]
        return "\n  ".join([head + ", ".join(counts), *map(str, self.findings)])


class DescriptorError(ValueError):
    """A descriptor has findings of severity ERROR. The message lists them. `report`: all findings, also warnings."""

    def __init__(self, report: Report) -> None:
        self.report = report
        head = f"{report.subject} at feature level {report.level} has {counted(len(report.errors), 'error')}"
        super().__init__("\n  ".join([head + ":", *map(str, report.errors)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report,)


def _location(file: str, line: int | None, column: int | None) -> str:
    return ":".join([file, *(str(number) for number in (line, column) if number is not None)])


def full_path(subject: str, path: str) -> str:
    """Join a subject and a path: "dispatchables.gather" and "Axis" give "dispatchables.gather.Axis"."""
    return ".".join(filter(None, (subject, path)))


class LocatedFinding(Finding):
    """A finding in a file, about a descriptor or its bindings."""

    file: str
    """The file, as the user named it."""

    line: int | None = Field(default=None, ge=1)
    """Line of the value, counted from 1."""

    column: int | None = Field(default=None, ge=1)
    """Column of the value in characters, counted from 1."""

    subject: str = ""
    """The part of the file that `path` starts at, such as "dispatchables.gather". For a single descriptor, it is its "name", or
    empty."""

    lines: int = Field(default=1, ge=1)
    """Number of equal lines with this finding, in a file with one descriptor per line. `line` is the first of them."""

    @property
    def place(self) -> str:
        """FILE:LINE:COLUMN."""
        return _location(self.file, self.line, self.column)

    @property
    def full_path(self) -> str:
        """Path of the field from the root of the file: "dispatchables.gather.OutputTensor.Sizes[1]"."""
        return full_path(self.subject, self.path)

    @property
    def times(self) -> str:
        """The text " (on N lines)" if several lines have this finding, else an empty text."""
        return f" (on {counted(self.lines, 'line')})" if self.lines > 1 else ""

    def __str__(self) -> str:
        subject = f" {self.subject}" if self.subject else ""
        return f"{self.place}:{subject} {super().__str__()}{self.times}"

    @classmethod
    def of(
        cls, finding: Finding, file: str, line: int | None, column: int | None, subject: str, *, lines: int = 1
    ) -> LocatedFinding:
        """Return a copy of `finding` with a place in a file. `lines`: the number of lines that have this finding."""
        return cls(**dict(finding), file=file, line=line, column=column, subject=subject, lines=lines)


class FileProblem(Record):
    """A fault that prevents a file, or a part of it, from being read. This part is not checked against the rules."""

    file: str
    """The file, as the user named it."""

    line: int | None = Field(default=None, ge=1)
    """Line, counted from 1; null if the problem concerns the whole file."""

    column: int | None = Field(default=None, ge=1)
    """Column in characters, counted from 1."""

    subject: str = ""
    """The "name" of the descriptor with the problem. Empty in models."""

    path: str = ""
    """The value with the problem, as keys and indices from the root of the file: "resources.input.sizeInBytes"."""

    message: str
    """The fault, and what is expected instead."""

    count: int = Field(default=1, ge=1)
    """Number of problems: 1, or more in the last entry of a file with too many problems to list. This entry stands for the rest
    of them.
    """

    @property
    def place(self) -> str:
        """FILE:LINE:COLUMN, without unknown parts."""
        return _location(self.file, self.line, self.column)

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place, self.subject, self.path, self.message)))
