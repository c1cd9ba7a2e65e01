"""Findings of rules, reports of findings, and problems of files.

A finding names a field, the expected value, the actual value and the remedy. In a file it also has a line and a column.
"""

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
    """The descriptor cannot work."""
    WARNING = "warning"
    """The descriptor works, but not on every device, or in an unexpected way."""
    NOTE = "note"
    """For information; nothing has to be fixed."""


class Finding(Record):
    """One violation of a rule."""

    code: str
    """Stable code of the rule, "DML302"; `docs/findings.md` has a section for each."""

    severity: Severity
    """ERROR, WARNING or NOTE. All findings of a code have the same severity."""

    path: str
    """The field, in DirectML's names: "IndicesTensor.Sizes[2]". Empty for the whole descriptor."""

    message: str
    """The requirement, as a sentence with "must" or "should"."""

    expected: str
    """The value or the condition that the rule requires."""

    got: str
    """The actual value."""

    remedy: str
    """How to fix it."""

    level: FeatureLevelField | None = None
    """Lowest feature level that accepts the actual value. None if no level accepts it or the rule does not depend on levels."""

    source: str
    """The document of the rule, with a key of `SOURCES`: "[G] Tensor support"."""

    def __str__(self) -> str:
        where = f" {self.path}" if self.path else ""
        return f"{self.code} {self.severity}{where}: {self.message}: expected {self.expected}, got {self.got}; fix: {self.remedy}"


class Report(Record):
    """All findings in one descriptor."""

    subject: str
    """The operator of the checked descriptor: "DML_OPERATOR_GATHER"."""

    level: FeatureLevelField
    """The feature level of the check."""

    findings: tuple[Finding, ...] = ()
    """All findings, in the order of the rules."""

    @property
    def ok(self) -> bool:
        """Return True if there is no ERROR."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings of severity ERROR."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Return the findings of severity WARNING."""
        return self._of(Severity.WARNING)

    def raise_for_errors(self) -> None:
        """Raise DescriptorError, which lists all errors, unless `ok`."""
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
    """A descriptor has errors, which the message lists. `report` has all findings."""

    def __init__(self, report: Report) -> None:
        self.report = report
        head = f"{report.subject} at feature level {report.level} has {counted(len(report.errors), 'error')}"
        super().__init__("\n  ".join([head + ":", *map(str, report.errors)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report,)


def _location(file: str, line: int | None, column: int | None) -> str:
    return ":".join([file, *(str(number) for number in (line, column) if number is not None)])


def full_path(subject: str, path: str) -> str:
    """Return a path from the root of a file. `subject`: the part of the file at which `path` starts."""
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
    """The part of the file at which `path` starts, such as "dispatchables.gather". For a single descriptor, its "name" or ""."""

    lines: int = Field(default=1, ge=1)
    """Number of equal lines with this finding, in a file with one descriptor per line. `line` is the first of them."""

    @property
    def place(self) -> str:
        """Return FILE:LINE:COLUMN."""
        return _location(self.file, self.line, self.column)

    @property
    def full_path(self) -> str:
        """Return the path from the root of the file: "dispatchables.gather.OutputTensor.Sizes[1]"."""
        return full_path(self.subject, self.path)

    @property
    def times(self) -> str:
        """Return " (on N lines)" for a finding on several lines, else ""."""
        return f" (on {counted(self.lines, 'line')})" if self.lines > 1 else ""

    def __str__(self) -> str:
        subject = f" {self.subject}" if self.subject else ""
        return f"{self.place}:{subject} {super().__str__()}{self.times}"

    @classmethod
    def of(
        cls, finding: Finding, file: str, line: int | None, column: int | None, subject: str, *, lines: int = 1
    ) -> LocatedFinding:
        """Return `finding` with its location."""
        return cls(**dict(finding), file=file, line=line, column=column, subject=subject, lines=lines)


class FileProblem(Record):
    """The reason why a file or a part of it cannot be read. A part that cannot be read is not checked."""

    file: str
    """The file, as the user named it."""

    line: int | None = Field(default=None, ge=1)
    """Line, counted from 1; null if the problem concerns the whole file."""

    column: int | None = Field(default=None, ge=1)
    """Column in characters, counted from 1."""

    subject: str = ""
    """The "name" of a descriptor; empty in models."""

    path: str = ""
    """The value, by keys and indices: "resources.input.sizeInBytes"."""

    message: str
    """The fault, and what is expected instead."""

    count: int = Field(default=1, ge=1)
    """The number of problems in this entry. If a file has too many problems to list, the last entry counts the rest of them."""

    @property
    def place(self) -> str:
        """Return FILE:LINE:COLUMN, as far as it is known."""
        return _location(self.file, self.line, self.column)

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place, self.subject, self.path, self.message)))
