"""The result of checking files: what every format is written from, and itself the JSON format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, computed_field

from dmlgather.directml.dxdispatch.located import LocatedFinding, Problem
from dmlgather.directml.findings import Severity
from dmlgather.directml.types import FeatureLevelField


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class FileReport(_Value):
    """One file that was checked."""

    file: str
    """The file as it was named or found."""

    kind: Literal["model", "descriptor", "unknown"]
    """What it holds, as far as it could be read."""

    findings: tuple[LocatedFinding, ...] = ()
    """Rules that the file's descriptors and bindings break."""

    problems: tuple[Problem, ...] = ()
    """Why the file, or parts of it, could not be understood."""


class Summary(_Value):
    """How much was found."""

    files: int
    """Files checked."""

    skipped: int
    """Files in folders that hold JSON of another sort."""

    problems: int
    """Things that could not be understood."""

    errors: int
    """Findings that keep a descriptor or a binding from working."""

    warnings: int
    """Findings about what does not work everywhere, or not as it looks."""

    notes: int
    """Findings that are worth knowing."""


class CheckReport(_Value):
    """Everything that was found."""

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote this."""

    version: str
    """Its version."""

    level: FeatureLevelField
    """The DirectML feature level that was checked for."""

    files: tuple[FileReport, ...]
    """Every file that was checked, in the order they were named and found."""

    skipped: tuple[str, ...] = ()
    """Files in folders that hold JSON of another sort."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def summary(self) -> Summary:
        """How much was found."""
        severities = [finding.severity for finding in self.findings()]
        return Summary(
            files=len(self.files),
            skipped=len(self.skipped),
            problems=sum(len(file.problems) for file in self.files),
            errors=severities.count(Severity.ERROR),
            warnings=severities.count(Severity.WARNING),
            notes=severities.count(Severity.NOTE),
        )

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def exit_code(self) -> int:
        """2 when something could not be understood, else 1 when there are errors, else 0."""
        if self.summary.problems:
            return 2
        return 1 if self.summary.errors else 0

    def findings(self) -> Iterator[LocatedFinding]:
        """The findings of all files."""
        for file in self.files:
            yield from file.findings
