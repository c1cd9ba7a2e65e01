"""The report of a check, from which all output formats are written. The JSON format is the report itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Self

from pydantic import Field, PrivateAttr, computed_field

from dmlgather.directml.findings import FileProblem, Severity
from dmlgather.directml.types import FeatureLevelField
from dmlgather.onnx_checking.checked_model import CheckedNode, Provider, ProviderSummary, Verdict
from dmlgather.onnx_checking.related_operators import Relative
from dmlgather.record import Record, is_none
from dmlgather.report.finding_status import Cause, CountedFingerprint, FindingStatus, ReportedFinding, UnusedIgnore, causes
from dmlgather.report.snippets import SourceLines


class FileReport(Record):
    """The report of one file."""

    file: str
    """The file, as named by the user or found in a folder."""

    level: FeatureLevelField
    """The DirectML feature level of the check."""

    kind: Literal["model", "descriptor", "descriptors", "onnx", "folder", "unknown"]
    """The kind of file: a DxDispatch model, a descriptor, a stream of descriptors, an ONNX model, or unknown. "folder" stands
    for a folder that has no such file or cannot be listed.
    """

    descriptors: int = 0
    """The number of descriptors that were checked in a stream."""

    opsets: dict[str, int] = Field(default_factory=dict)
    """The versions of the operator sets that an ONNX model imports, by domain. ONNX's own domain is the empty string."""

    nodes: tuple[CheckedNode, ...] = ()
    """The nodes of an ONNX model that gather or slice, each with its verdict."""

    others: dict[str, int] = Field(default_factory=dict)
    """The number of nodes with other operators, by operator. They are not checked."""

    relatives: tuple[Relative, ...] = ()
    """Operators in `others` that also gather, slice, scatter or look up, with DirectML's support for each."""

    findings: tuple[ReportedFinding, ...] = ()
    """Broken rules of descriptors and bindings, and nodes that cannot be expressed or about which a fact is unknown."""

    problems: tuple[FileProblem, ...] = ()
    """Reasons why the file, or parts of it, could not be read."""

    provider: ProviderSummary | None = Field(None, exclude_if=is_none)
    """The number of nodes that the provider runs on DirectML, on the CPU, and so on; left out if no provider was requested."""

    _lines: Mapping[int, str] = PrivateAttr({})

    def with_lines(self, lines: Mapping[int, str]) -> Self:
        """Store the lines of standard input, by number from 1, because it cannot be read again."""
        self._lines = lines
        return self

    def source(self) -> SourceLines:
        """Return the lines of the checked file."""
        return SourceLines(self.file, self._lines)

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings in groups with the same cause. Each finding is in one group."""
        return causes(self.findings, self.kind == "onnx")

    def by_cause(self) -> Iterator[tuple[Cause, list[ReportedFinding]]]:
        """Yield each cause with its findings."""
        return ((cause, [self.findings[number] for number in cause.findings]) for cause in self.causes)


class Summary(Record):
    """Counts of files, problems and findings."""

    files: int
    """The number of files that were read and have a known kind."""

    skipped: int
    """The number of JSON and XML files that are neither models nor descriptors. They were in folders, or named with
    --skip-others.
    """

    problems: int
    """The number of problems: files, or parts of files, that could not be read."""

    errors: int
    """The number of open findings of severity error, neither ignored nor known."""

    warnings: int
    """The number of open findings of severity warning."""

    notes: int
    """The number of open findings of severity note."""

    ignored: int
    """The number of findings that the configuration ignores."""

    known: int
    """The number of findings that are known, because the baseline lists them."""

    vanished: int
    """The number of the baseline's findings that no longer occur."""


class Verdicts(Record):
    """Counts of nodes in ONNX models, by verdict."""

    decided: int
    """The number of nodes that DirectML can express at the level, whatever their unknown sizes are."""

    conditional: int
    """The number of nodes that DirectML can express at the level if sizes satisfy conditions, such as N <= 7."""

    undecided: int
    """The number of nodes without a verdict, because the model leaves too much open."""

    host: int
    """The number of nodes that only compute shapes, bounds and conditions. The caller of DirectML computes them on the CPU."""

    refused: int
    """The number of nodes that DirectML cannot express at the level."""

    unreached: int
    """The number of dead nodes, which no run of the model executes."""

    taken: int
    """The number of nodes that DirectML can express at the level: the sum of `decided` and `conditional`."""

    unknown: int
    """The same number as `undecided`."""

    from_data: int
    """The number of conditional nodes that depend on a size that is unknown until the model runs."""

    @property
    def counts(self) -> dict[str, int]:
        """The six counts that reports show, by field name. Together they count each node once."""
        numbers = self.model_dump()
        return {name: numbers[name] for name in ("decided", "conditional", "undecided", "host", "refused", "unreached")}

    def described(self, name: str) -> str:
        """Return one of `counts` as text: "14 conditional (2 on data)"."""
        on_data = f" ({self.from_data} on data)" if name == "conditional" and self.from_data else ""
        return f"{self.counts[name]} {name}{on_data}"


class CheckReport(Record):
    """The result of a check."""

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote the report."""

    version: str
    """The version of the program."""

    level: FeatureLevelField
    """The DirectML feature level at which files were checked, unless the configuration states another level for a file."""

    configuration: str | None = None
    """The configuration file."""

    baseline: str | None = None
    """The baseline file that was read or written."""

    error_on_warning: bool = False
    """True if warnings fail the check, too."""

    include_host: bool = False
    """True if nodes that only compute shapes, bounds and conditions were judged like other nodes."""

    provider: Provider | None = Field(None, exclude_if=is_none)
    """The provider that the report also covers; left out if none was requested."""

    files: tuple[FileReport, ...]
    """The files, in the order in which they were named and found."""

    skipped: tuple[str, ...] = ()
    """JSON and XML files that are neither models nor descriptors. They were in folders, or named with --skip-others."""

    vanished: tuple[CountedFingerprint, ...] = ()
    """The baseline's findings that no longer occur, although their files were checked or no longer exist."""

    unused_ignores: tuple[UnusedIgnore, ...] = ()
    """Ignore entries of the configuration that match no finding, although all their files were checked."""

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def summary(self) -> Summary:
        """Return the counts of files, problems and findings."""
        counts = Counter(
            finding.severity if finding.status is FindingStatus.OPEN else finding.status for finding in self.findings()
        )
        return Summary(
            files=sum(file.kind not in ("folder", "unknown") for file in self.files),
            skipped=len(self.skipped),
            problems=sum(problem.count for file in self.files for problem in file.problems),
            errors=counts[Severity.ERROR],
            warnings=counts[Severity.WARNING],
            notes=counts[Severity.NOTE],
            ignored=counts[FindingStatus.IGNORED],
            known=counts[FindingStatus.KNOWN],
            vanished=sum(entry.count for entry in self.vanished),
        )

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def verdicts(self) -> Verdicts:
        """The counts of nodes in ONNX models, by verdict."""
        return verdicts(node for file in self.files for node in file.nodes)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def exit_code(self) -> int:
        """Return 2 if there are problems, otherwise 1 if a finding fails the check, otherwise 0."""
        if any(file.problems for file in self.files):
            return 2
        return 1 if any(map(self.fails, self.findings())) else 0

    def fails(self, finding: ReportedFinding) -> bool:
        """Return True if a finding fails the check: an open error, or an open warning with `error_on_warning`."""
        failing = (Severity.ERROR, Severity.WARNING) if self.error_on_warning else (Severity.ERROR,)
        return finding.status is FindingStatus.OPEN and finding.severity in failing

    def findings(self) -> Iterator[ReportedFinding]:
        """Yield the findings of all files."""
        for file in self.files:
            yield from file.findings


def verdicts(nodes: Iterable[CheckedNode]) -> Verdicts:
    """Count nodes by verdict."""
    nodes = tuple(nodes)
    counts = Counter((node.verdict, bool(node.provided)) for node in nodes)
    totals = {verdict: counts[verdict, False] + counts[verdict, True] for verdict in Verdict}
    taken = [node for node in nodes if node.verdict is Verdict.TAKEN]
    return Verdicts(
        decided=counts[Verdict.TAKEN, False],
        conditional=counts[Verdict.TAKEN, True],
        from_data=sum(any(condition.from_data for condition in node.conditions) for node in taken),
        undecided=totals[Verdict.UNKNOWN],
        **{str(verdict): count for verdict, count in totals.items()},
    )
