"""Findings: a rule that does not hold, with its place, the expected and actual value and the remedy; and reports of them.

In files, findings and the problems that keep a file from being understood have a line and a column.
"""

from __future__ import annotations

import enum
from typing import Any

from pydantic import Field

from dmlgather.directml.types import FeatureLevelField
from dmlgather.record import Record
from dmlgather.wording import counted


class Severity(enum.StrEnum):
    """How severe a finding is."""

    ERROR = "error"
    """The descriptor cannot work."""
    WARNING = "warning"
    """It works, but not on every device, or not as it appears to."""
    NOTE = "note"
    """For information; nothing has to be fixed."""


class Finding(Record):
    """One thing that a rule found."""

    code: str
    """Stable code of the rule, "DML302"; `docs/findings.md` has a section for each."""

    severity: Severity
    """ERROR, WARNING or NOTE; the same for every finding of a code."""

    path: str
    """The field, in DirectML's names: "IndicesTensor.Sizes[2]". Empty for the whole descriptor."""

    message: str
    """What must or should hold, as a sentence."""

    expected: str
    """The value or the condition that the rule requires."""

    got: str
    """The actual value."""

    remedy: str
    """How to fix it."""

    level: FeatureLevelField | None = None
    """Lowest feature level that accepts the actual value; None where no level does, or the rule does not depend on levels."""

    source: str
    """Where the rule comes from, with a key of `SOURCES`: "[G] Tensor support"."""

    def __str__(self) -> str:
        where = f" {self.path}" if self.path else ""
        return f"{self.code} {self.severity}{where}: {self.message}: expected {self.expected}, got {self.got}; fix: {self.remedy}"


class Report(Record):
    """All findings in one descriptor."""

    subject: str
    """What was checked: "DML_OPERATOR_GATHER"."""

    level: FeatureLevelField
    """The feature level it was checked for."""

    findings: tuple[Finding, ...] = ()
    """All of them, in the order of the rules."""

    @property
    def ok(self) -> bool:
        """Whether there are no ERRORs."""
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
        """DescriptorError, listing all errors, unless `ok`."""
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
    """A descriptor that cannot work. `report` has all findings; the message lists all errors."""

    def __init__(self, report: Report) -> None:
        self.report = report
        head = f"{report.subject} at feature level {report.level} has {counted(len(report.errors), 'error')}"
        super().__init__("\n  ".join([head + ":", *map(str, report.errors)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report,)


def _place(file: str, line: int | None, column: int | None) -> str:
    """The place as compilers write it: FILE:LINE:COLUMN."""
    return ":".join([file, *(str(number) for number in (line, column) if number is not None)])


def full_path(subject: str, path: str) -> str:
    """A path from the root of a file on. subject: where `path` starts."""
    return ".".join(filter(None, (subject, path)))


class LocatedFinding(Finding):
    """A finding in a file: the descriptor or the bindings there break a rule."""

    file: str
    """The file as it was named."""

    line: int | None = Field(default=None, ge=1)
    """Line of the value, counted from 1."""

    column: int | None = Field(default=None, ge=1)
    """Column of that value in characters, counted from 1."""

    subject: str = ""
    """The part of the file that `path` starts from: "dispatchables.gather"; of a single descriptor the name that it states, or
    nothing."""

    lines: int = Field(default=1, ge=1)
    """How many lines of a stream of descriptors it stands for; `line` is the first."""

    @property
    def place(self) -> str:
        """FILE:LINE:COLUMN."""
        return _place(self.file, self.line, self.column)

    @property
    def full_path(self) -> str:
        """The field from the root of the file on: "dispatchables.gather.OutputTensor.Sizes[1]"; empty for a whole descriptor."""
        return full_path(self.subject, self.path)

    @property
    def times(self) -> str:
        """The text after a finding on several lines; empty after any other."""
        return f" (on {counted(self.lines, 'line')})" if self.lines > 1 else ""

    def __str__(self) -> str:
        subject = f" {self.subject}" if self.subject else ""
        return f"{self.place}:{subject} {super().__str__()}{self.times}"

    @classmethod
    def of(
        cls, finding: Finding, file: str, line: int | None, column: int | None, subject: str, *, lines: int = 1
    ) -> LocatedFinding:
        """`finding` with its place."""
        return cls(**dict(finding), file=file, line=line, column=column, subject=subject, lines=lines)


class FileProblem(Record):
    """Why a file, or a part of it, cannot be understood. That part is not checked."""

    file: str
    """The file as it was named."""

    line: int | None = Field(default=None, ge=1)
    """Line, counted from 1; none when the whole file is meant."""

    column: int | None = Field(default=None, ge=1)
    """Column in characters, counted from 1."""

    subject: str = ""
    """The name that a descriptor states; empty in models."""

    path: str = ""
    """The value, by keys and indices: "resources.input.sizeInBytes"."""

    message: str
    """What is wrong and what is expected."""

    count: int = Field(default=1, ge=1)
    """The number of problems that this stands for: more than 1 only in the last one of a file that has too many to list."""

    def __str__(self) -> str:
        return ": ".join(filter(None, (_place(self.file, self.line, self.column), self.subject, self.path, self.message)))
