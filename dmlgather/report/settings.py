"""The settings of a check, from the command's options and the configuration, and running it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dmlgather.directml.types import FeatureLevel
from dmlgather.input_files import InputFiles
from dmlgather.limits import DEFAULT, Limits
from dmlgather.report import baseline as baselines
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.collect import LevelOf, check_paths
from dmlgather.report.configuration import Configuration
from dmlgather.report.configuration_file import LoadedConfiguration
from dmlgather.report.finding_status import FindingStatus, ReportedFinding, UnusedIgnore
from dmlgather.report.formats import Output, complete
from dmlgather.report.paths import relative
from dmlgather.report.patterns import Patterns, root
from dmlgather.report.worker_processes import Note, ignored
from dmlgather.written_files import check_spared

# Ignore findings of the codes that the configuration names.


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


@dataclass(frozen=True)
class Settings:
    """The settings of a check. Options override the configuration; those that are None were not given.

    level: the feature level of every file. outputs: formats and where they are written. baseline: the file to compare with.
    write_baseline: the file to write, and to compare with if it exists. error_on_warning: whether warnings fail the check.
    include_host: whether nodes that are the host's arithmetic are judged like the others.
    skip_others, jobs, allow_outside, note, limits: as in `check_paths`.
    """

    loaded: LoadedConfiguration | None = None
    level: FeatureLevel | None = None
    outputs: Sequence[Output] = ()
    baseline: Path | None = None
    write_baseline: Path | None = None
    error_on_warning: bool | None = None
    include_host: bool | None = None
    skip_others: bool = False
    jobs: int | None = 1
    allow_outside: bool = False
    note: Note = ignored
    limits: Limits = DEFAULT

    @property
    def configuration(self) -> Configuration:
        """The configuration; the default one where there is none."""
        return self.loaded.configuration if self.loaded else Configuration()

    def complete_outputs(self) -> tuple[Output, ...]:
        """All outputs of the report, standard output last. ValueError for two formats in one file or on standard output."""
        if self.outputs or self.loaded is None:
            return complete(self.outputs)
        return complete(Output.parse(value, self.loaded.folder) for value in self.configuration.formats)

    def check(self, paths: Iterable[Path], outputs: Sequence[Output] = ()) -> CheckReport:
        """Check these files and folders, and write the baseline if requested. FileError for a baseline that cannot be used, and
        where writing it, or one of the outputs, would replace a file that was checked or read.
        """
        old, paths = self._baseline(), tuple(paths)
        report = check_paths(
            paths,
            self.level or self.configuration.level,
            level_of=self._level_of(),
            excluded=self._excluded(),
            skip_others=self.skip_others,
            jobs=self.jobs,
            allow_outside=self.allow_outside,
            include_host=self.configuration.include_host if self.include_host is None else self.include_host,
            note=self.note,
            limits=self.limits,
        )
        check_spared(self._targets(outputs), self.made_from(report))
        fail = self.configuration.error_on_warning if self.error_on_warning is None else self.error_on_warning
        report = report.model_copy(update={"error_on_warning": fail})
        if self.loaded is not None:
            report = ignoring(report, self.loaded, () if self.level is not None else paths)  # other levels have other findings
        if self.write_baseline is not None:
            known = baselines.renewed(report, self.write_baseline, old)
            baselines.write(self.write_baseline, known, self.made_from(report))
            vanished = baselines.compared(report, self.write_baseline, old).vanished if old is not None else ()
            report = baselines.compared(report, self.write_baseline, known).model_copy(update={"vanished": vanished})
        elif old is not None and self._baseline_file is not None:
            report = baselines.compared(report, self._baseline_file, old)
        return report

    def made_from(self, report: CheckReport) -> InputFiles:
        """The files that the report is made from. What could not be understood is no model that consists of several."""
        read = [self.loaded.file] if self.loaded is not None else []
        if self.write_baseline is None and self._baseline_file is not None:
            read.append(self._baseline_file)
        files = [(Path(file.file), file.kind not in ("unknown", "folder")) for file in report.files]
        read += [file for file, known in files if not known]
        return InputFiles(tuple(file for file, known in files if known), tuple(read))

    def _targets(self, outputs: Sequence[Output]) -> list[Path]:
        files = [output.file for output in outputs if output.file is not None]
        return files if self.write_baseline is None else [*files, self.write_baseline]

    @cached_property
    def _baseline_file(self) -> Path | None:
        if self.baseline is not None or self.loaded is None or self.configuration.baseline is None:
            return self.baseline
        return self.loaded.folder / self.configuration.baseline

    def _baseline(self) -> baselines.Baseline | None:
        """The baseline to compare with. It is read before the check, which may overwrite it."""
        if self.write_baseline is None:
            return baselines.read(self._baseline_file) if self._baseline_file is not None else None
        return baselines.read(self.write_baseline) if self.write_baseline.exists() else None

    def _excluded(self) -> Patterns | None:
        return Patterns(self.configuration.exclude, str(self.loaded.folder)) if self.loaded else None

    def _level_of(self) -> LevelOf | None:
        if self.level is not None or self.loaded is None or not self.configuration.levels:
            return None
        rows = [(Patterns([pattern], str(self.loaded.folder)), level) for pattern, level in self.configuration.levels.items()]
        rows.reverse()
        return lambda file: next((level for patterns, level in rows if patterns.match(file)), None)
