"""Ignore findings of the codes that the configuration names."""

from __future__ import annotations

from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.configuration_file import LoadedConfiguration
from dmlgather.report.finding_status import FindingStatus, ReportedFinding, UnusedIgnore
from dmlgather.report.patterns import Patterns


def ignoring(report: CheckReport, loaded: LoadedConfiguration) -> CheckReport:
    """`report` where the findings that the configuration names are ignored, and with its entries that match no finding.

    An entry for some paths is not reported as unused if no file with such a path was checked.
    """
    entries = [_IgnoreEntry(loaded, number) for number in range(len(loaded.configuration.ignore))]
    files = tuple(_ignored(file, entries) for file in report.files) if entries else report.files
    unused = tuple(
        UnusedIgnore(file=str(loaded.file), line=loaded.line("ignore", entry.number), code=entry.code)
        for entry in entries
        if not entry.used and any(entry.covers(file.file) for file in report.files)
    )
    return report.model_copy(update={"configuration": str(loaded.file), "files": files, "unused_ignores": unused})


def _ignored(file: FileReport, entries: list[_IgnoreEntry]) -> FileReport:
    if not file.findings:
        return file
    here = [entry for entry in entries if entry.covers(file.file)]
    return file.model_copy(update={"findings": tuple(_judged(finding, here) for finding in file.findings)})


def _judged(finding: ReportedFinding, entries: list[_IgnoreEntry]) -> ReportedFinding:
    for entry in entries:
        if entry.code == finding.code:
            entry.used = True
            return ReportedFinding.of_located(finding, FindingStatus.IGNORED, entry.reason)
    return finding


class _IgnoreEntry:
    """One entry of the configuration, and whether it matched a finding."""

    def __init__(self, loaded: LoadedConfiguration, number: int) -> None:
        ignore = loaded.configuration.ignore[number]
        self.number, self.code, self.reason, self.used = number, ignore.code, ignore.reason, False
        self._patterns = None if ignore.paths is None else Patterns(ignore.paths, str(loaded.folder))

    def covers(self, file: str) -> bool:
        """Whether the entry applies to `file`."""
        return self._patterns is None or self._patterns.match(file)
