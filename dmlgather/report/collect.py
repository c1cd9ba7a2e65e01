"""Check files and folders into one report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dmlgather import __version__
from dmlgather.directml.dxdispatch.located import Problem
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file
from dmlgather.directml.types import FeatureLevel
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.wording import counted

SUFFIXES = (".json",)
"""Files that are looked at in folders."""


def check_paths(paths: Iterable[Path], level: str | FeatureLevel = "6_4") -> CheckReport:
    """Check each file, and each model or descriptor in each folder, at a feature level. ValueError for an unknown level."""
    level = FeatureLevel.parse(level)
    files: list[FileReport] = []
    skipped: list[str] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 # unlike Path.is_dir, it never raises
            _folder(path, level, files, skipped)
        else:
            files.append(_report(check_file(path, level)))
    return CheckReport(version=__version__, level=level, files=tuple(files), skipped=tuple(skipped))


def _folder(folder: Path, level: FeatureLevel, files: list[FileReport], skipped: list[str]) -> None:
    problems: list[OSError] = []
    before = len(files), len(skipped)
    for path in _walk(folder, problems):
        checked = check_file(path, level)
        if checked.kind == "foreign":
            skipped.append(str(path))
        else:
            files.append(_report(checked))
    for error in problems:
        problem = Problem(file=str(error.filename), message=f"cannot be listed: {error.strerror}")
        files.append(FileReport(file=str(error.filename), kind="unknown", problems=(problem,)))
    if len(files) == before[0]:
        count = len(skipped) - before[1]
        others = f" ({counted(count, '.json file')} of another sort)" if count else ""
        problem = Problem(file=str(folder), message=f"holds no model or descriptor{others}")
        files.append(FileReport(file=str(folder), kind="unknown", problems=(problem,)))


def _walk(folder: Path, problems: list[OSError]) -> Iterator[Path]:
    """The files to look at below `folder`, in order of their names. Links to folders are not followed."""
    for inside, folders, names in os.walk(folder, onerror=problems.append):
        folders.sort()
        yield from (Path(inside, name) for name in sorted(names) if name.lower().endswith(SUFFIXES))


def _report(checked: CheckedFile) -> FileReport:
    kind = checked.kind if checked.kind in ("model", "descriptor") else "unknown"
    return FileReport(file=checked.file, kind=kind, findings=checked.findings, problems=checked.problems)
