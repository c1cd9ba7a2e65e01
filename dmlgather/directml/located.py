"""Findings in files, and problems that keep a file from being understood, each with its line and column."""

from __future__ import annotations

from pydantic import Field

from dmlgather.directml.findings import Finding
from dmlgather.record import Record
from dmlgather.wording import counted


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
