"""The result of checking files: all formats are written from it; JSON is the report itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Self

from pydantic import Field, PrivateAttr, computed_field

from dmlgather.directml.findings import FileProblem, Severity
from dmlgather.directml.types import FeatureLevelField
from dmlgather.onnx_checking.checked_model import CheckedNode, Provider, ProviderSummary, Verdict, left_out
from dmlgather.onnx_checking.related_operators import Relative
from dmlgather.record import Record
from dmlgather.report.finding_status import Cause, CountedFingerprint, FindingStatus, ReportedFinding, UnusedIgnore, causes
from dmlgather.report.snippets import SourceLines


class FileReport(Record):
    """One file that was checked."""

    file: str
    """The file as it was named or found."""

    level: FeatureLevelField
    """The DirectML feature level that it was checked for."""

    kind: Literal["model", "descriptor", "descriptors", "onnx", "folder", "unknown"]
    """What it is, as far as it could be read: a DxDispatch model, a descriptor, a stream of descriptors on lines, or an ONNX
    model; a folder that has none of these, or cannot be listed."""

    descriptors: int = 0
    """Lines of a stream whose descriptor was checked."""

    opsets: dict[str, int] = Field(default_factory=dict)
    """Versions of the operator sets that an ONNX model imports, by domain; ONNX's own has the empty one."""

    nodes: tuple[CheckedNode, ...] = ()
    """The nodes of an ONNX model that gather or slice, each with its verdict."""

    others: dict[str, int] = Field(default_factory=dict)
    """How many other nodes it has, by operator. They are not checked."""

    relatives: tuple[Relative, ...] = ()
    """Those of the other nodes that gather, slice, scatter or look up as well: what DirectML has or lacks for each operator."""

    findings: tuple[ReportedFinding, ...] = ()
    """Rules that descriptors and bindings break; of a node, why it cannot be expressed and what is not known."""

    problems: tuple[FileProblem, ...] = ()
    """Why the file, or parts of it, could not be understood."""

    provider: ProviderSummary | None = Field(None, exclude_if=left_out)
    """How many of the nodes the provider that was asked about runs where; left out where none was."""

    _lines: Mapping[int, str] = PrivateAttr({})

    def with_lines(self, lines: Mapping[int, str]) -> Self:
        """This report of a text that cannot be read again, with the lines that findings are about, by their numbers from 1."""
        self._lines = lines
        return self

    def source(self) -> SourceLines:
        """The lines of the file."""
        return SourceLines(self.file, self._lines)

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings by what causes them; each of them has one cause."""
        return causes(self.findings, self.kind == "onnx")

    def by_cause(self) -> Iterator[tuple[Cause, list[ReportedFinding]]]:
        """Each cause with its findings."""
        return ((cause, [self.findings[number] for number in cause.findings]) for cause in self.causes)


class Summary(Record):
    """Counts of files, problems and findings."""

    files: int
    """Files checked: those that could be read, and understood well enough to tell what they are."""

    skipped: int
    """Files of JSON or XML of another sort, in folders, or named with --skip-others."""

    problems: int
    """Problems: files, or parts of them, that could not be understood."""

    errors: int
    """Findings of severity error that count: neither ignored nor known."""

    warnings: int
    """Findings of severity warning that count."""

    notes: int
    """Findings of severity note that count."""

    ignored: int
    """Findings that the configuration ignores."""

    known: int
    """Findings that the baseline has."""

    vanished: int
    """Findings in the baseline that are no longer there."""


class Verdicts(Record):
    """How many nodes of ONNX models have which verdict, and how reports count them."""

    decided: int
    """Those that are taken without a condition."""

    conditional: int
    """Those that are taken, provided that sizes are as they state."""

    undecided: int
    """Those whose verdict is unknown."""

    host: int
    """Those that DirectML's caller computes on the CPU."""

    refused: int
    """Those that DirectML cannot express at the level that was checked for."""

    unreached: int
    """Those that no run of their models reaches."""

    taken: int
    """Those that DirectML can express at the level: decided and conditional."""

    unknown: int
    """As `undecided`: their models do not specify enough to tell."""

    from_data: int
    """Those of `conditional` with a condition on a size that depends on data: only a run shows whether it holds."""

    @property
    def counts(self) -> dict[str, int]:
        """The nodes by what reports call them, each node once."""
        counted = self.model_dump()
        return {name: counted[name] for name in ("decided", "conditional", "undecided", "host", "refused", "unreached")}

    def told(self, name: str) -> str:
        """The number of nodes that reports call so: "14 conditional (2 on data)"."""
        apart = f" ({self.from_data} on data)" if name == "conditional" and self.from_data else ""
        return f"{self.counts[name]} {name}{apart}"


class CheckReport(Record):
    """The result of a check."""

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote this."""

    version: str
    """Its version."""

    level: FeatureLevelField
    """The DirectML feature level that was checked for, unless the configuration has another for a path."""

    configuration: str | None = None
    """The configuration that was used."""

    baseline: str | None = None
    """The baseline that findings were compared with, or that was written."""

    error_on_warning: bool = False
    """Whether warnings fail the check as errors do."""

    include_host: bool = False
    """Whether nodes that are the host's arithmetic were judged like the others."""

    provider: Provider | None = Field(None, exclude_if=left_out)
    """The provider of which was asked what it does with the nodes of models; left out where none was."""

    files: tuple[FileReport, ...]
    """Every file that was checked, in the order they were named and found."""

    skipped: tuple[str, ...] = ()
    """Files of JSON or XML of another sort, in folders, or named with --skip-others."""

    vanished: tuple[CountedFingerprint, ...] = ()
    """Findings in the baseline that are no longer there, of files that were checked or no longer exist."""

    unused_ignores: tuple[UnusedIgnore, ...] = ()
    """Entries of the configuration that ignore a code and match no finding, though all files that they are for were checked."""

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def summary(self) -> Summary:
        """Counts of files, problems and findings."""
        found = Counter(
            finding.severity if finding.status is FindingStatus.OPEN else finding.status for finding in self.findings()
        )
        return Summary(
            files=sum(file.kind not in ("folder", "unknown") for file in self.files),
            skipped=len(self.skipped),
            problems=sum(problem.count for file in self.files for problem in file.problems),
            errors=found[Severity.ERROR],
            warnings=found[Severity.WARNING],
            notes=found[Severity.NOTE],
            ignored=found[FindingStatus.IGNORED],
            known=found[FindingStatus.KNOWN],
            vanished=sum(entry.count for entry in self.vanished),
        )

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def verdicts(self) -> Verdicts:
        """How many nodes of ONNX models have each verdict."""
        return verdicts(node for file in self.files for node in file.nodes)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def exit_code(self) -> int:
        """2 when something could not be understood, else 1 when there are findings that fail the check, else 0."""
        if any(file.problems for file in self.files):
            return 2
        return 1 if any(map(self.fails, self.findings())) else 0

    def fails(self, finding: ReportedFinding) -> bool:
        """Whether a finding fails the check: an error that counts, or a warning where warnings fail it too."""
        failing = (Severity.ERROR, Severity.WARNING) if self.error_on_warning else (Severity.ERROR,)
        return finding.status is FindingStatus.OPEN and finding.severity in failing

    def findings(self) -> Iterator[ReportedFinding]:
        """The findings of all files."""
        for file in self.files:
            yield from file.findings


def verdicts(nodes: Iterable[CheckedNode]) -> Verdicts:
    """How many of these nodes have which verdict."""
    nodes = tuple(nodes)
    found = Counter((node.verdict, bool(node.provided)) for node in nodes)
    number = {verdict: found[verdict, False] + found[verdict, True] for verdict in Verdict}
    return Verdicts(
        decided=found[Verdict.TAKEN, False],
        conditional=found[Verdict.TAKEN, True],
        from_data=sum(node.verdict is Verdict.TAKEN and any(each.from_data for each in node.conditions) for node in nodes),
        undecided=number[Verdict.UNKNOWN],
        **{str(verdict): count for verdict, count in number.items()},
    )
