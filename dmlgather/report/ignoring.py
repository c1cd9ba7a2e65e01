"""Ignore findings of the codes that the configuration names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.configuration_file import LoadedConfiguration
from dmlgather.report.finding_status import FindingStatus, ReportedFinding, UnusedIgnore
from dmlgather.report.paths import relative
from dmlgather.report.patterns import Patterns, root


def ignoring(report: CheckReport, loaded: LoadedConfiguration, checked: Sequence[Path]) -> CheckReport:
    """`report` where the findings that the configuration names are ignored, and with its entries that match no finding.

    checked: the files and folders that were named. An entry is reported as unused only if they hold all files that it is for, one
    of these was checked, and all of them could be understood. Otherwise it may be what ignores a finding of another run.
    """
    entries = [_IgnoreEntry(loaded, number) for number in range(len(loaded.configuration.ignore))]
    files = tuple(_ignored(file, entries) for file in report.files) if entries else report.files
    unused = tuple(
        UnusedIgnore(file=str(loaded.file), line=loaded.line("ignore", entry.number), code=entry.code)
        for entry in entries
        if not entry.used and entry.is_complete(report, checked)
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
        self._roots = [str(loaded.folder / root(pattern)) for pattern in ignore.paths or ["*"]]

    def covers(self, file: str) -> bool:
        """Whether the entry applies to `file`."""
        return self._patterns is None or self._patterns.match(file)

    def is_complete(self, report: CheckReport, checked: Iterable[Path]) -> bool:
        """Whether the report on the `checked` paths has findings of all files that the entry applies to."""
        files = [file for file in report.files if self.covers(file.file)]
        whole = all(any(relative(root, str(path)) is not None for path in checked) for root in self._roots)
        return whole and bool(files) and not any(file.problems for file in files)
