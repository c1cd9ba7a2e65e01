"""The formats of a report, by their names in `--output-format`, and where they are written."""

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
"""The name of the folder to which URIs are relative: the checkout on GitHub, else the current folder."""

MOST_LOCATIONS = 1_000
"""Locations of a result that GitHub takes. Source: GitHub's documentation, "SARIF support for code scanning"."""


def sarif_lines(report: CheckReport) -> Iterator[str]:
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
    known = rules(providers=report.provider is not None)
    return sarif.Run(
        tool=sarif.Tool(
            driver=sarif.ToolComponent(
                name="dmlgather",
                version=report.version,
                semanticVersion=report.version,
                language="en",
                rules=known,
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
    """A cause. Its first place is the location, because code scanning shows one; the others are related locations. What a
    program dumped also has its place in the dump there.
    """
    from pydantic_sarif import model as sarif

    finding = findings[0]
    told = common(findings)
    state = {}
    if report.baseline is not None:
        known = finding.status is FindingStatus.KNOWN
        state["baselineState"] = sarif.BaselineState.unchanged if known else sarif.BaselineState.new
    ignored = [sarif.Suppression(kind=sarif.Kind1.external, justification=printable(finding.reason))]
    text = f"{told.message}: expected {told.expected}, got {told.got}; fix: {told.remedy}"
    others = findings if finding.created else findings[1:]
    related = [_location(each.file, each.line, each.column, folder, each.full_path) for each in others]
    number = sum(each.lines for each in findings)
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


def _shown(found: ReportedFinding | FileProblem | UnusedIgnore) -> tuple[str, int | None, int | None]:
    """File, line and column next to which something is shown: of what a program dumped, where the program creates it."""
    created = found.created if isinstance(found, ReportedFinding) else ProgramLine.of(getattr(found, "subject", ""))
    return (found.file, found.line, getattr(found, "column", None)) if created is None else (created.file, created.line, None)


def _location(file: str, line: int | None, column: int | None, folder: str, name: str = "") -> Any:
    from pydantic_sarif import model as sarif

    uri, inside = paths.uri(file, folder)
    where: dict[str, Any] = {"artifactLocation": sarif.ArtifactLocation(uri=uri, **({"uriBaseId": ROOT} if inside else {}))}
    if line is not None:
        where["region"] = sarif.Region(startLine=line, **({} if column is None else {"startColumn": column}))
    logical = {"logicalLocations": [sarif.LogicalLocation(fullyQualifiedName=printable(name))]} if name else {}
    return sarif.Location(physicalLocation=sarif.PhysicalLocation(**where), **logical)


# Findings as test results in JUnit's format: a test case per file, and per node of a model.


def junit_lines(report: CheckReport) -> Iterator[str]:
    """A suite of test cases: findings that fail the check are failures, problems are errors, all other findings are output."""
    from junitparser import JUnitXml, TestSuite

    suite = TestSuite("dmlgather check")
    suite.add_testcases([case for file in report.files for case in _cases(file, report.fails)])
    document = JUnitXml("dmlgather")
    document.add_testsuite(suite)
    written = io.BytesIO()
    document.write(written, pretty=True)
    yield written.getvalue().decode("utf-8").rstrip()


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
    found: _Split = ([], [])
    for finding in findings:
        found[not fails(finding)].append(finding)
    return found


def _case(name: str, group: str, findings: _Split, problems: Sequence[FileProblem], verdict: str = "") -> TestCase:
    from junitparser import Error, Failure, TestCase

    errors, others = findings
    output = [*filter(None, [verdict]), *(f"{finding}{finding.remark}" for finding in others)]
    results: list[FinalResult] = []
    if problems:
        results.append(_told(Error("not understood", "problem"), problems))
    if errors:
        codes = ", ".join(dict.fromkeys(finding.code for finding in errors))
        results.append(_told(Failure(f"{counted(len(errors), 'error')}: {codes}", "error"), errors))
    case = TestCase(name, group)
    case.result = results
    if output:
        case.system_out = _text(output)
    return case


def _told(result: FinalResult, found: Iterable[object]) -> FinalResult:
    result.text = _text(found)
    return result


def _text(found: Iterable[object]) -> str:
    return "\n".join(printable(str(line)) for line in found)


# Findings as workflow commands, which GitHub Actions shows next to the lines of a pull request. Source: GitHub's
# documentation, "Workflow commands for GitHub Actions": ::error file=…,line=…,col=…,title=…::message.


COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
"""The workflow command of each severity."""

MOST_PLACES = 100
"""Places of a cause that an annotation names."""

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def github_lines(report: CheckReport) -> Iterator[str]:
    """A command per problem and per cause whose findings count, at the first place; a line of the log per known cause."""
    folder = repository()
    for file in report.files:
        for problem in file.problems:
            yield command("error", _in(folder, problem), "not understood", str(problem))
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
    return command(COMMANDS[first.severity], _in(folder, first), title, message)


def _in(folder: str, found: ReportedFinding | FileProblem) -> tuple[str, int | None, int | None]:
    """As `_shown`, with the file relative to a folder."""
    file, line, column = _shown(found)
    return named(file, folder), line, column


def command(kind: str, place: tuple[str | None, int | None, int | None], title: str, message: str) -> str:
    """One workflow command about a place: file, line and column. Characters that would end it or a property are escaped, and
    control characters of terminals.
    """
    given = {**dict(zip(("file", "line", "col"), place, strict=True)), "title": title}
    properties = ",".join(f"{key}={escaped(value, _PROPERTY)}" for key, value in given.items() if value is not None)
    return f"::{kind} {properties}::{escaped(message, _DATA)}"


def escaped(value: object, replacements: dict[str, str]) -> str:
    """`value` with these characters replaced, and others that cannot be shown escaped."""
    return "".join(replacements.get(character, printable(character)) for character in str(value))


# The formats of a report, by their names in `--output-format`, and where they are written.


def _json_lines(report: CheckReport) -> Iterator[str]:
    """The report as one JSON object; `dmlgather schema report` prints its schema."""
    yield json.dumps(report.model_dump(mode="json"), indent=2)


DATA: dict[str, Callable[[CheckReport], Iterator[str]]] = {
    "json": _json_lines,
    "sarif": sarif_lines,
    "junit": junit_lines,
    "github": github_lines,
}
"""The lines of a report in each format for other programs."""

FORMATS = ("text", "concise", *DATA)
"""The names of all formats."""


class Output(NamedTuple):
    """A format and the file to write to; standard output where that is None."""

    format: str
    file: Path | None = None

    @classmethod
    def parse(cls, value: str, folder: Path | None = None) -> Output:
        """The output that a user names: "text", or "sarif:report.sarif" for a file in `folder`. ValueError for anything else."""
        name, colon, file = value.partition(":")
        if name not in FORMATS or (colon and not file):
            raise ValueError(
                f"expected {alternatives(FORMATS)}, or one of these and a file like sarif:report.sarif, got {value!r}"
            )
        return cls(name, (folder or Path()) / file if colon else None)

    def write(self, report: CheckReport, listed: NodeListing = NodeListing.WRONG, made_from: Iterable[Path] = ()) -> None:
        """Write the report there. FileError when a file cannot be written, or when it is one of `made_from`. listed: the nodes of
        models that text lists.
        """
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
    """These outputs, files first, and one for standard output: by default github in a workflow of GitHub Actions, text elsewhere.

    ValueError for two formats in one file or on standard output.
    """
    files: dict[Path | None, Output] = {}
    for output in outputs:
        other = files.setdefault(output.file, output)
        if other != output:
            place = "standard output" if output.file is None else str(output.file)
            raise ValueError(f"{other.format} and {output.format} cannot both be written to {place}; name a file: FORMAT:FILE")
    shown = files.pop(None, None) or Output("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    return (*files.values(), shown)
