"""Findings as workflow commands, which GitHub Actions shows next to the lines of a pull request.

Source: GitHub's documentation, "Workflow commands for GitHub Actions": ::error file=…,line=…,col=…,title=…::message.
"""

from __future__ import annotations

from collections.abc import Iterator

from dmlgather.directml.findings import Severity
from dmlgather.report.blocks import common, line
from dmlgather.report.causes import Cause
from dmlgather.report.check_report import CheckReport
from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.report.paths import named, repository
from dmlgather.wording import printable

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
"""The workflow command of each severity."""

MOST_PLACES = 100
"""Places of a cause that an annotation names."""

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def lines(report: CheckReport) -> Iterator[str]:
    """A command per problem and per cause whose findings count, at the first place; a line of the log per known cause."""
    folder = repository()
    for file in report.files:
        for problem in file.problems:
            yield command("error", (named(problem.file, folder), problem.line, problem.column), "not understood", str(problem))
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
    return command(COMMANDS[first.severity], (named(first.file, folder), first.line, first.column), title, message)


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
