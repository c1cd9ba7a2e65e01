"""Findings as SARIF 2.1.0, which code scanning services and editors read.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dmlgather.directml.located import FileProblem, full_path
from dmlgather.report import paths
from dmlgather.report.blocks import common
from dmlgather.report.check_report import CheckReport
from dmlgather.report.code_registry import INDEX, rules
from dmlgather.report.finding_status import CountedFingerprint, FindingStatus, ReportedFinding, UnusedIgnore
from dmlgather.wording import printable

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""The name of the folder to which URIs are relative: the checkout on GitHub, else the current folder."""

MOST_LOCATIONS = 1_000
"""Locations of a result that GitHub takes. Source: GitHub's documentation, "SARIF support for code scanning"."""


def lines(report: CheckReport) -> Iterator[str]:
    """One SARIF log with one run. Bytes of file names that are not text are percent-encoded in URIs and escaped in messages."""
    from pydantic_sarif import model as sarif

    folder = paths.repository()
    log = sarif.StaticAnalysisResultsFormatSarifVersion210JsonSchema(
        **{"$schema": SCHEMA}, version=sarif.Version.field_2_1_0, runs=[_run(report, folder)]
    )
    yield json.dumps(log.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True), indent=2)


def _run(report: CheckReport, folder: str) -> Any:
    from pydantic_sarif import model as sarif

    results = [
        _result([file.findings[number] for number in cause.findings], report, folder)
        for file in report.files
        for cause in file.causes
    ]
    results += [_absent(entry, report, folder) for entry in report.vanished]
    return sarif.Run(
        tool=sarif.Tool(
            driver=sarif.ToolComponent(
                name="dmlgather", version=report.version, semanticVersion=report.version, language="en", rules=rules()
            )
        ),
        columnKind=sarif.ColumnKind.unicodeCodePoints,
        originalUriBaseIds={ROOT: sarif.ArtifactLocation(uri=paths.absolute_uri(folder) + "/")},
        invocations=[
            sarif.Invocation(
                executionSuccessful=report.exit_code != 2,
                exitCode=report.exit_code,
                toolExecutionNotifications=_notifications(
                    "error", (problem for file in report.files for problem in file.problems), folder
                ),
                toolConfigurationNotifications=_notifications("note", report.unused_ignores, folder),
            )
        ],
        results=results,
    )


def _result(findings: Sequence[ReportedFinding], report: CheckReport, folder: str) -> Any:
    """A cause. Its first place is the location, because code scanning shows one; the others are related locations."""
    from pydantic_sarif import model as sarif

    finding, *others = findings
    told = common(findings)
    state = {}
    if report.baseline is not None:
        known = finding.status is FindingStatus.KNOWN
        state["baselineState"] = sarif.BaselineState.unchanged if known else sarif.BaselineState.new
    ignored = [sarif.Suppression(kind=sarif.Kind1.external, justification=printable(finding.reason))]
    text = f"{told.message}: expected {told.expected}, got {told.got}; fix: {told.remedy}"
    related = [_location(other.file, other.line, other.column, folder, other.full_path) for other in others]
    number = sum(each.lines for each in findings)
    return sarif.Result(
        ruleId=finding.code,
        ruleIndex=INDEX[finding.code],
        level=sarif.Level(str(finding.severity)),
        message=sarif.Message(text=printable(f"{text}{f' (at {len(findings)} places)' if others else ''}")),
        locations=[_location(finding.file, finding.line, finding.column, folder, finding.full_path)],
        **({"relatedLocations": related[: MOST_LOCATIONS - 1]} if related else {}),
        **({"occurrenceCount": number} if number > 1 else {}),
        suppressions=ignored if finding.status is FindingStatus.IGNORED else [],
        **state,
    )


def _absent(entry: CountedFingerprint, report: CheckReport, folder: str) -> Any:
    from pydantic_sarif import model as sarif

    file = paths.beside(entry.file, report.baseline)
    return sarif.Result(
        ruleId=entry.code,
        **({"ruleIndex": INDEX[entry.code]} if entry.code in INDEX else {}),
        message=sarif.Message(text=printable(f"no longer found: got {entry.got}")),
        locations=[_location(file, None, None, folder, full_path(entry.subject, entry.path))],
        occurrenceCount=entry.count,
        suppressions=[],
        baselineState=sarif.BaselineState.absent,
    )


def _notifications(level: str, items: Iterable[FileProblem | UnusedIgnore], folder: str) -> list[Any]:
    from pydantic_sarif import model as sarif

    return [
        sarif.Notification(
            level=sarif.Level(level),
            message=sarif.Message(text=printable(str(item))),
            locations=[_location(item.file, item.line, getattr(item, "column", None), folder)],
        )
        for item in items
    ]


def _location(file: str, line: int | None, column: int | None, folder: str, name: str = "") -> Any:
    from pydantic_sarif import model as sarif

    uri, inside = paths.uri(file, folder)
    where: dict[str, Any] = {"artifactLocation": sarif.ArtifactLocation(uri=uri, **({"uriBaseId": ROOT} if inside else {}))}
    if line is not None:
        where["region"] = sarif.Region(startLine=line, **({} if column is None else {"startColumn": column}))
    logical = {"logicalLocations": [sarif.LogicalLocation(fullyQualifiedName=printable(name))]} if name else {}
    return sarif.Location(physicalLocation=sarif.PhysicalLocation(**where), **logical)
