"""The result of checking files: what every format is written from, and itself the JSON format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field, computed_field

from dmlgather.dialects.checked_model import CheckedNode, Verdict
from dmlgather.directml.findings import Severity
from dmlgather.directml.located import FileProblem
from dmlgather.directml.types import FeatureLevelField
from dmlgather.record import Record
from dmlgather.report.standing import CountedFingerprint, ReportedFinding, Standing, UnusedIgnore


class FileReport(Record):
    """One file that was checked."""

    file: str
    """The file as it was named or found."""

    level: FeatureLevelField
    """The DirectML feature level that it was checked for."""

    kind: Literal["model", "descriptor", "onnx", "openvino", "unknown"]
    """What it holds, as far as it could be read: a DxDispatch model, a descriptor, an ONNX model, an OpenVINO IR."""

    format: int | None = None
    """The version of an OpenVINO IR's format; none for a single layer, and for other kinds."""

    opsets: dict[str, int] = Field(default_factory=dict)
    """Versions of the operator sets that an ONNX model imports, by domain; ONNX's own has the empty one."""

    nodes: tuple[CheckedNode, ...] = ()
    """The nodes of an ONNX model, or layers of an OpenVINO IR, that gather or slice, each with its verdict."""

    others: dict[str, int] = Field(default_factory=dict)
    """How many other nodes it has, by operator. They are not judged."""

    findings: tuple[ReportedFinding, ...] = ()
    """Rules that the file's descriptors and bindings break; of a node, what stands against it and what is not known."""

    problems: tuple[FileProblem, ...] = ()
    """Why the file, or parts of it, could not be understood."""


class Summary(Record):
    """How much was found."""

    files: int
    """Files checked."""

    skipped: int
    """Files that hold JSON or XML of another sort, in folders, or named where those are to be skipped."""

    problems: int
    """Things that could not be understood."""

    errors: int
    """Findings that keep a descriptor or a binding from working; those that count, as in warnings and notes."""

    warnings: int
    """Findings about what does not work everywhere, or not as it looks."""

    notes: int
    """Findings that are worth knowing."""

    ignored: int
    """Findings that the configuration ignores."""

    known: int
    """Findings that the baseline has."""

    vanished: int
    """Findings that the baseline has, and that are no longer there."""


class Verdicts(Record):
    """How many nodes of ONNX models and layers of OpenVINO IRs have which verdict."""

    taken: int
    """DirectML takes them at the level that was checked for."""

    refused: int
    """It does not."""

    unknown: int
    """Their models do not say enough to tell."""


class CheckReport(Record):
    """Everything that was found."""

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote this."""

    version: str
    """Its version."""

    level: FeatureLevelField
    """The DirectML feature level that was checked for, where the configuration has no other for a path."""

    configuration: str | None = None
    """The configuration that was used."""

    baseline: str | None = None
    """The baseline that findings were compared with, or that was written."""

    files: tuple[FileReport, ...]
    """Every file that was checked, in the order they were named and found."""

    skipped: tuple[str, ...] = ()
    """Files that hold JSON or XML of another sort, in folders, or named where those are to be skipped."""

    vanished: tuple[CountedFingerprint, ...] = ()
    """What the baseline has and what is no longer there, of the files that were checked or that are gone."""

    unused_ignores: tuple[UnusedIgnore, ...] = ()
    """Entries of the configuration that ignore a code and matched nothing."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def summary(self) -> Summary:
        """How much was found."""
        found = Counter(
            finding.severity if finding.standing is Standing.OPEN else finding.standing for finding in self.findings()
        )
        return Summary(
            files=len(self.files),
            skipped=len(self.skipped),
            problems=sum(len(file.problems) for file in self.files),
            errors=found[Severity.ERROR],
            warnings=found[Severity.WARNING],
            notes=found[Severity.NOTE],
            ignored=found[Standing.IGNORED],
            known=found[Standing.KNOWN],
            vanished=sum(entry.count for entry in self.vanished),
        )

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def verdicts(self) -> Verdicts:
        """What was found about the nodes of ONNX models and the layers of OpenVINO IRs."""
        return Verdicts(**counts([node for file in self.files for node in file.nodes]))

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def exit_code(self) -> int:
        """2 when something could not be understood, else 1 when there are errors that count, else 0."""
        summary = self.summary
        return 2 if summary.problems else 1 if summary.errors else 0

    def findings(self) -> Iterator[ReportedFinding]:
        """The findings of all files."""
        for file in self.files:
            yield from file.findings


def counts(nodes: Sequence[CheckedNode]) -> dict[str, int]:
    """How many of these nodes have each verdict."""
    return {str(verdict): sum(node.verdict is verdict for node in nodes) for verdict in Verdict}
