"""Findings of codes that the configuration ignores."""

from __future__ import annotations

from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.configuration_file import Loaded
from dmlgather.report.patterns import Patterns
from dmlgather.report.standing import ReportedFinding, Standing, UnusedIgnore


def ignoring(report: CheckReport, loaded: Loaded) -> CheckReport:
    """`report` with the findings ignored that the configuration ignores, and with its entries that matched nothing.

    An entry for some paths is not called unused when no file that was checked lies there.
    """
    entries = [_Entry(loaded, number) for number in range(len(loaded.configuration.ignore))]
    files = tuple(_ignored(file, entries) for file in report.files) if entries else report.files
    unused = tuple(
        UnusedIgnore(file=str(loaded.file), line=loaded.line("ignore", entry.number), code=entry.code)
        for entry in entries
        if not entry.used and any(entry.covers(file.file) for file in report.files)
    )
    return report.model_copy(update={"configuration": str(loaded.file), "files": files, "unused_ignores": unused})


def _ignored(file: FileReport, entries: list[_Entry]) -> FileReport:
    if not file.findings:
        return file
    here = [entry for entry in entries if entry.covers(file.file)]
    return file.model_copy(update={"findings": tuple(_judged(finding, here) for finding in file.findings)})


def _judged(finding: ReportedFinding, entries: list[_Entry]) -> ReportedFinding:
    for entry in entries:
        if entry.code == finding.code:
            entry.used = True
            return ReportedFinding.of_located(finding, Standing.IGNORED, entry.reason)
    return finding


class _Entry:
    """One entry of the configuration, and whether it matched anything."""

    def __init__(self, loaded: Loaded, number: int) -> None:
        ignore = loaded.configuration.ignore[number]
        self.number, self.code, self.reason, self.used = number, ignore.code, ignore.reason, False
        self._patterns = None if ignore.paths is None else Patterns(ignore.paths, str(loaded.folder))

    def covers(self, file: str) -> bool:
        """Whether the entry is meant for `file`."""
        return self._patterns is None or self._patterns.match(file)
