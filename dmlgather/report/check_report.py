"""The result of checking files: what every format is written from, and itself the JSON format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, computed_field

from dmlgather.dialects.checking import CheckedNode, Verdict
from dmlgather.directml.findings import Severity
from dmlgather.directml.located import LocatedFinding, Problem
from dmlgather.directml.types import FeatureLevelField


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class FileReport(_Value):
    """One file that was checked."""

    file: str
    """The file as it was named or found."""

    kind: Literal["model", "descriptor", "onnx", "openvino", "unknown"]
    """What it holds, as far as it could be read: a DxDispatch model, a descriptor, an ONNX model, an OpenVINO IR."""

    format: int | None = None
    """The version of an OpenVINO IR's format; none for a single layer, and for other kinds."""

    opsets: dict[str, int] = {}
    """Versions of the operator sets that an ONNX model imports, by domain; ONNX's own has the empty one."""

    nodes: tuple[CheckedNode, ...] = ()
    """The nodes of an ONNX model, or layers of an OpenVINO IR, that gather or slice, each with its verdict."""

    others: dict[str, int] = {}
    """How many other nodes it has, by operator. They are not judged."""

    findings: tuple[LocatedFinding, ...] = ()
    """Rules that the file's descriptors and bindings break; of a node, what stands against it and what is not known."""

    problems: tuple[Problem, ...] = ()
    """Why the file, or parts of it, could not be understood."""


class Summary(_Value):
    """How much was found."""

    files: int
    """Files checked."""

    skipped: int
    """Files in folders that hold JSON or XML of another sort."""

    problems: int
    """Things that could not be understood."""

    errors: int
    """Findings that keep a descriptor or a binding from working."""

    warnings: int
    """Findings about what does not work everywhere, or not as it looks."""

    notes: int
    """Findings that are worth knowing."""


class Verdicts(_Value):
    """How many nodes of ONNX models and layers of OpenVINO IRs have which verdict."""

    taken: int
    """DirectML takes them at the level that was checked for."""

    refused: int
    """It does not."""

    unknown: int
    """Their models do not say enough to tell."""


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
    """Files in folders that hold JSON or XML of another sort."""

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
    def verdicts(self) -> Verdicts:
        """What was found about the nodes of ONNX models and the layers of OpenVINO IRs."""
        return Verdicts(**counts([node for file in self.files for node in file.nodes]))

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


def counts(nodes: Sequence[CheckedNode]) -> dict[str, int]:
    """How many of these nodes have each verdict."""
    return {str(verdict): sum(node.verdict is verdict for node in nodes) for verdict in Verdict}
