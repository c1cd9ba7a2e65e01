"""The output formats of a report: SARIF, JUnit, GitHub's workflow commands, JSON and text."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlgather.directml.findings import FileProblem, Severity, full_path
from dmlgather.files import writing
from dmlgather.output import put
from dmlgather.report import paths, text
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.code_registry import INDEX, rules
from dmlgather.report.finding_status import Cause, CountedFingerprint, FindingStatus, ProgramLine, ReportedFinding, UnusedIgnore
from dmlgather.report.paths import named, repository
from dmlgather.report.snippets import common, line
from dmlgather.report.text import NodeListing
from dmlgather.wording import alternatives, counted, printable

if TYPE_CHECKING:
    from junitparser import TestCase
    from junitparser.junitparser import FinalResult


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""SARIF's name for the folder that URIs are relative to."""

MOST_LOCATIONS = 1_000
"""GitHub's limit for the locations of a result. Source: its documentation, "SARIF support for code scanning"."""


def sarif_lines(report: CheckReport) -> Iterator[str]:
    """Yield the report as a SARIF log.

    Bytes of file names that are not UTF-8 are percent-encoded in URIs, and escaped in messages.
    """
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
    all_rules = rules(providers=report.provider is not None)
    return sarif.Run(
        tool=sarif.Tool(
            driver=sarif.ToolComponent(
                name="dmlgather",
                version=report.version,
                semanticVersion=report.version,
                language="en",
                rules=all_rules,
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
    """Return one SARIF result for all findings with the same cause.

    Its location is the first finding, because code scanning shows only one. The other findings are related locations.
    """
    from pydantic_sarif import model as sarif

    finding = findings[0]
    merged = common(findings)
    state = {}
    if report.baseline is not None:
        is_known = finding.status is FindingStatus.KNOWN
        state["baselineState"] = sarif.BaselineState.unchanged if is_known else sarif.BaselineState.new
    ignored = [sarif.Suppression(kind=sarif.Kind1.external, justification=printable(finding.reason))]
    text = f"{merged.message}: expected {merged.expected}, got {merged.got}; fix: {merged.remedy}"
    others = findings if finding.created else findings[1:]
    related = [_location(other.file, other.line, other.column, folder, other.full_path) for other in others]
    number = sum(finding.lines for finding in findings)
    return sarif.Result(
        ruleId=finding.code,
        ruleIndex=INDEX[finding.code],
        level=sarif.Level(str(finding.severity)),
        message=sarif.Message(text=printable(f"{text}{f' (at {len(findings)} places)' if len(findings) > 1 else ''}")),
        locations=[_location(*_shown(finding), folder, finding.full_path)],
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
            locations=[_location(*_shown(item), folder)],
        )
        for item in items
    ]


def _shown(item: ReportedFinding | FileProblem | UnusedIgnore) -> tuple[str, int | None, int | None]:
    """Return the file, line and column to show. If a descriptor is named after a source line, return this line instead."""
    created = item.created if isinstance(item, ReportedFinding) else ProgramLine.of(getattr(item, "subject", ""))
    return (item.file, item.line, getattr(item, "column", None)) if created is None else (created.file, created.line, None)


def _location(file: str, line: int | None, column: int | None, folder: str, name: str = "") -> Any:
    from pydantic_sarif import model as sarif

    uri, is_relative = paths.uri(file, folder)
    where: dict[str, Any] = {"artifactLocation": sarif.ArtifactLocation(uri=uri, **({"uriBaseId": ROOT} if is_relative else {}))}
    if line is not None:
        where["region"] = sarif.Region(startLine=line, **({} if column is None else {"startColumn": column}))
    logical = {"logicalLocations": [sarif.LogicalLocation(fullyQualifiedName=printable(name))]} if name else {}
    return sarif.Location(physicalLocation=sarif.PhysicalLocation(**where), **logical)


def junit_lines(report: CheckReport) -> Iterator[str]:
    """Yield the report as a JUnit test suite.

    Findings that fail the check become failures, problems become errors, and all other findings become system-out text.
    """
    from junitparser import JUnitXml, TestSuite

    suite = TestSuite("dmlgather check")
    suite.add_testcases([case for file in report.files for case in _cases(file, report.fails)])
    document = JUnitXml("dmlgather")
    document.add_testsuite(suite)
    buffer = io.BytesIO()
    document.write(buffer, pretty=True)
    yield buffer.getvalue().decode("utf-8").rstrip()


def _cases(file: FileReport, fails: Callable[[ReportedFinding], bool]) -> Iterator[TestCase]:
    name = printable(file.file)
    others, of_nodes = text.by_node(file)
    yield _case(name, "dmlgather.check", _split(others, fails), file.problems)
    for node in file.nodes:
        verdict = text.line(node, file.level)
        yield _case(printable(node.place), name, _split(of_nodes[node.place], fails), (), verdict)


_Split = tuple[list[ReportedFinding], list[ReportedFinding]]
"""The findings that fail the check, and the others."""


def _split(findings: Iterable[ReportedFinding], fails: Callable[[ReportedFinding], bool]) -> _Split:
    parts: _Split = ([], [])
    for finding in findings:
        parts[not fails(finding)].append(finding)
    return parts


def _case(name: str, group: str, findings: _Split, problems: Sequence[FileProblem], verdict: str = "") -> TestCase:
    from junitparser import Error, Failure, TestCase

    errors, others = findings
    output = [*filter(None, [verdict]), *(f"{finding}{finding.remark}" for finding in others)]
    results: list[FinalResult] = []
    if problems:
        results.append(_with_text(Error("not understood", "problem"), problems))
    if errors:
        codes = ", ".join(dict.fromkeys(finding.code for finding in errors))
        results.append(_with_text(Failure(f"{counted(len(errors), 'error')}: {codes}", "error"), errors))
    case = TestCase(name, group)
    case.result = results
    if output:
        case.system_out = _text(output)
    return case


def _with_text(result: FinalResult, items: Iterable[object]) -> FinalResult:
    result.text = _text(items)
    return result


def _text(items: Iterable[object]) -> str:
    return "\n".join(printable(str(item)) for item in items)


COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}

MOST_PLACES = 100
"""Places of a cause in one annotation."""

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def github_lines(report: CheckReport) -> Iterator[str]:
    """Yield the report as GitHub's workflow commands, which become annotations of the source code."""
    folder = repository()
    for file in report.files:
        for problem in file.problems:
            yield command("error", _shown_in(folder, problem), "not understood", str(problem))
        for cause, findings in file.by_cause():
            if cause.standing is FindingStatus.OPEN:
                yield _annotation(cause, findings, folder)
            elif cause.standing is FindingStatus.KNOWN:
                yield printable(f"known: {line(common(findings), len(findings))}")
    for vanished in report.vanished:
        yield command("notice", (named(report.baseline or "", folder), None, None), "no longer found", str(vanished))
    for unused in report.unused_ignores:
        yield command("notice", (named(unused.file, folder), unused.line, None), f"unused ignore of {unused.code}", str(unused))


def _annotation(cause: Cause, findings: list[ReportedFinding], folder: str) -> str:
    first, places = findings[0], cause.places
    if len(places) == 1:
        title, message = " ".join(filter(None, (first.code, first.subject, first.path))), line(first)
    else:
        more = [f"and {len(places) - MOST_PLACES} others"] if len(places) > MOST_PLACES else []
        title = f"{first.code} at {len(places)} places"
        message = "\n".join([line(common(findings), len(places)), *places[:MOST_PLACES], *more])
    return command(COMMANDS[first.severity], _shown_in(folder, first), title, message)


def _shown_in(folder: str, item: ReportedFinding | FileProblem) -> tuple[str, int | None, int | None]:
    file, line, column = _shown(item)
    return named(file, folder), line, column


def command(kind: str, place: tuple[str | None, int | None, int | None], title: str, message: str) -> str:
    """Return a workflow command: ::error file=…,line=…,col=…,title=…::message.

    Source: GitHub's documentation, "Workflow commands for GitHub Actions".
    """
    values = {**dict(zip(("file", "line", "col"), place, strict=True)), "title": title}
    properties = ",".join(f"{key}={escaped(value, _PROPERTY)}" for key, value in values.items() if value is not None)
    return f"::{kind} {properties}::{escaped(message, _DATA)}"


def escaped(value: object, replacements: dict[str, str]) -> str:
    """Return a value as text, with replacements and with unprintable characters escaped."""
    return "".join(replacements.get(character, printable(character)) for character in str(value))


def _json_lines(report: CheckReport) -> Iterator[str]:
    yield json.dumps(report.model_dump(mode="json"), indent=2)


DATA: dict[str, Callable[[CheckReport], Iterator[str]]] = {
    "json": _json_lines,
    "sarif": sarif_lines,
    "junit": junit_lines,
    "github": github_lines,
}
"""The formats that programs read."""

FORMATS = ("text", "concise", *DATA)


class Output(NamedTuple):
    """The format of a report and the file to write it to. `file`: None for standard output."""

    format: str
    file: Path | None = None

    @classmethod
    def parse(cls, value: str, folder: Path | None = None) -> Output:
        """Parse "FORMAT" or "FORMAT:FILE", with FILE relative to `folder`. Raise ValueError for other texts."""
        name, colon, file = value.partition(":")
        if name not in FORMATS or (colon and not file):
            raise ValueError(
                f"expected {alternatives(FORMATS)}, or one of these and a file like sarif:report.sarif, got {value!r}"
            )
        return cls(name, (folder or Path()) / file if colon else None)

    def write(self, report: CheckReport, listed: NodeListing = NodeListing.WRONG, made_from: Iterable[Path] = ()) -> None:
        """Write the report. Raise FileError if the file cannot be written, or is in `made_from`."""
        if self.file is not None:
            with writing(self.file, made_from) as file:
                for line in self._lines(report, listed, text.WIDTH):
                    file.write(line.encode("utf-8", "backslashreplace") + b"\n")
            return
        lines = self._lines(report, listed, text.terminal_width())
        if self.format in DATA:
            for line in lines:
                put(line + "\n")
        else:
            text.show(lines)

    def _lines(self, report: CheckReport, listed: NodeListing, width: int) -> Iterator[str]:
        if self.format in DATA:
            return DATA[self.format](report)
        return text.concise_lines(report, listed) if self.format == "concise" else text.lines(report, listed, width)


def complete(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """Add an output to standard output if there is none, and put it last. Raise ValueError if two formats go to one place."""
    files: dict[Path | None, Output] = {}
    for output in outputs:
        first = files.setdefault(output.file, output)
        if first != output:
            place = "standard output" if output.file is None else str(output.file)
            raise ValueError(f"{first.format} and {output.format} cannot both be written to {place}; name a file: FORMAT:FILE")
    stdout = files.pop(None, None) or Output("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    return (*files.values(), stdout)
