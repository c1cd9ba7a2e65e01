"""Check files and folders, and make one report of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dmlgather import __version__
from dmlgather.directml.dxdispatch.descriptor_lines import STDIN
from dmlgather.directml.located import FileProblem
from dmlgather.directml.types import FeatureLevel
from dmlgather.limits import DEFAULT, Limits
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.file_check import stdin_report
from dmlgather.report.paths import absolute
from dmlgather.report.patterns import Patterns
from dmlgather.report.searching import search
from dmlgather.report.worker_processes import Checked, Note, check_all, ignored
from dmlgather.wording import counted

LevelOf = Callable[[str], FeatureLevel | None]
"""The feature level of a file by its name; None for the common level."""


def check_paths(
    paths: Iterable[Path],
    level: str | FeatureLevel = "6_4",
    *,
    level_of: LevelOf | None = None,
    excluded: Patterns | None = None,
    skip_others: bool = False,
    jobs: int | None = 1,
    allow_outside: bool = False,
    include_host: bool = False,
    note: Note = ignored,
    limits: Limits = DEFAULT,
) -> CheckReport:
    """Check each file, and each model or descriptor in each folder, at `level`, or at the level that `level_of` has for it.

    "-" is standard input, which this process reads. excluded: files that are not checked where their folder is. skip_others:
    whether to skip files of another sort that are named, as those in folders are. allow_outside: as in `check_file`.
    include_host: as in `check_model`. jobs, note: as in `check_all`. limits: of the work on each file. ValueError for an unknown
    level.
    """
    level = FeatureLevel.parse(level)
    listed = [_listed(path, excluded, note) for path in paths]
    files = {name: path for part in listed for name, path in part.files.items()}
    named = {name: path for name, path in files.items() if name != STDIN}
    levels = [(level_of(str(path)) if level_of else None) or level for path in named.values()]
    leveled = [(path, each, allow_outside, include_host, limits) for path, each in zip(named.values(), levels, strict=True)]
    results = dict(zip(named, check_all(leveled, jobs, note), strict=True))
    if STDIN in files:
        results[STDIN] = stdin_report(level, allow_outside)
    collected = _ReportFiles(level, skip_others, results)
    for part in listed:
        collected.add_all(part)
    files_reported, skipped = tuple(collected.files), tuple(collected.skipped)
    return CheckReport(version=__version__, level=level, include_host=include_host, files=files_reported, skipped=skipped)


@dataclass(frozen=True, slots=True)
class _PathFiles:
    """The files to check for one path, by absolute path: the file itself, or those in the folder."""

    files: Mapping[str, Path]
    folder: Path | None = None
    problems: tuple[OSError, ...] = ()


def _listed(path: Path, excluded: Patterns | None, note: Note) -> _PathFiles:
    """The file, or the files to check in the folder."""
    if str(path) == "-":
        return _PathFiles({STDIN: path})
    if not os.path.isdir(path):  # noqa: PTH112 # unlike Path.is_dir, it never raises
        return _PathFiles({absolute(path): path})
    found = search(path, excluded)
    if (left_out := found.note()) is not None:
        note(left_out)
    return _PathFiles(found.files, path, tuple(found.problems))


@dataclass
class _ReportFiles:
    """The report while it is made. results: of each file that was checked, by absolute path."""

    level: FeatureLevel
    skip_others: bool
    results: Mapping[str, Checked]
    files: list[FileReport] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Absolute paths of `files`: a file that is named twice, or is also in a folder, is reported once."""

    def add_all(self, listed: _PathFiles) -> None:
        before = len(self.skipped)
        for name, path in listed.files.items():
            self.add(name, path, self.skip_others or listed.folder is not None)
        for error in listed.problems:
            self.problem(str(error.filename), f"cannot be listed: {error.strerror}")
        if listed.folder is not None and not listed.problems and self.seen.isdisjoint(listed.files):
            kinds = Counter(Path(name).suffix.lower() for name in self.skipped[before:])
            found = " and ".join(counted(count, f"{kind} file") for kind, count in sorted(kinds.items()))
            others = f" ({found} of another sort)" if found else ""
            self.problem(str(listed.folder), f"holds no model or descriptor{others}")

    def add(self, name: str, path: Path, skip_foreign: bool) -> None:
        if name in self.seen:
            return
        report, foreign = self.results[name]
        if foreign and skip_foreign:
            self.skipped.append(str(path))
        else:
            self.seen.add(name)
            self.files.append(report)

    def problem(self, file: str, message: str) -> None:
        """Add a folder that cannot be checked."""
        problem = FileProblem(file=file, message=message)
        self.files.append(FileReport(file=file, level=self.level, kind="unknown", problems=(problem,)))
