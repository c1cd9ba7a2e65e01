"""Check files and folders into one report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dmlgather import __version__
from dmlgather.dialects.checking import CheckedModel
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.directml.located import LocatedFinding, Problem
from dmlgather.directml.types import FeatureLevel
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.places import absolute
from dmlgather.report.standing import ReportedFinding
from dmlgather.wording import counted


def _onnx(path: Path, level: FeatureLevel) -> CheckedModel:
    from dmlgather.dialects.onnx.model.check import check_model

    return check_model(path, level)


def _openvino(path: Path, level: FeatureLevel) -> CheckedModel:
    from dmlgather.dialects.openvino.ir.check import check_ir

    return check_ir(path, level)


MODELS: Mapping[str, tuple[Literal["onnx", "openvino"], Callable[[Path, FeatureLevel], CheckedModel]]] = {
    ".onnx": ("onnx", _onnx),
    ".xml": ("openvino", _openvino),
}
"""The models of other dialects by what their names end with: the kind, and how it is checked. Anything else is JSON."""

SUFFIXES = (".json", *MODELS)
"""Files that are looked at in folders."""


LevelOf = Callable[[str], FeatureLevel | None]
"""The feature level of a file, by its name; None for the level of all."""


def check_paths(
    paths: Iterable[Path], level: str | FeatureLevel = "6_4", level_of: LevelOf | None = None, skip_others: bool = False
) -> CheckReport:
    """Check each file, and each model or descriptor in each folder, at a feature level; `level_of` a file where it has one of
    its own. skip_others: whether files of another sort are skipped where they are named, as they are in folders. ValueError for
    an unknown level.
    """
    level = FeatureLevel.parse(level)
    found = _Found(level, level_of, skip_others)
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 # unlike Path.is_dir, it never raises
            found.folder(path)
        else:
            found.named(path)
    return CheckReport(version=__version__, level=level, files=tuple(found.files), skipped=tuple(found.skipped))


@dataclass
class _Found:
    """What was found so far."""

    level: FeatureLevel
    level_of: LevelOf | None
    skip_others: bool
    files: list[FileReport] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Absolute paths of `files`: a file that is named twice, or also lies in a folder, is checked once."""

    def named(self, path: Path) -> None:
        if absolute(path) not in self.seen:
            report, foreign = self.checked(path)
            self.skip(path) if foreign and self.skip_others else self.add(absolute(path), report)

    def skip(self, path: Path) -> None:
        self.skipped.append(str(path))

    def add(self, name: str, report: FileReport) -> None:
        self.seen.add(name)
        self.files.append(report)

    def folder(self, folder: Path) -> None:
        problems: list[OSError] = []
        before = len(self.skipped)
        holds = False
        for name, path in _walk(folder, problems):
            if name in self.seen:
                holds = True
                continue
            report, foreign = self.checked(path)
            if foreign:
                self.skip(path)
            else:
                holds = True
                self.add(name, report)
        for error in problems:
            self.problem(str(error.filename), f"cannot be listed: {error.strerror}")
        if not holds and not problems:
            kinds = Counter(Path(name).suffix.lower() for name in self.skipped[before:])
            found = " and ".join(counted(count, f"{kind} file") for kind, count in sorted(kinds.items()))
            others = f" ({found} of another sort)" if found else ""
            self.problem(str(folder), f"holds no model or descriptor{others}")

    def problem(self, file: str, message: str) -> None:
        """A folder that cannot be checked."""
        problem = Problem(file=file, message=message)
        self.files.append(FileReport(file=file, level=self.level, kind="unknown", problems=(problem,)))

    def checked(self, path: Path) -> tuple[FileReport, bool]:
        """What was found in a file, and whether it is a file of another sort."""
        level = (self.level_of(str(path)) if self.level_of else None) or self.level
        name = path.name.lower()
        for suffix, (kind, check) in MODELS.items():
            if name.endswith(suffix):
                return _model(kind, check(path, level), level)
        checked = check_file(path, level)
        report = FileReport(
            file=checked.file,
            level=level,
            kind=checked.kind if checked.kind in ("model", "descriptor") else "unknown",
            findings=_reported(checked.findings),
            problems=checked.problems,
        )
        return report, checked.kind == "foreign"


def _walk(folder: Path, problems: list[OSError]) -> Iterator[tuple[str, Path]]:
    """The files to look at below `folder`, in order of their names, each with its absolute path before it. Links to folders are
    not followed.
    """
    for inside, folders, names in os.walk(folder, onerror=problems.append):
        folders.sort()
        start = os.path.join(absolute(inside), "")  # noqa: PTH118 # a Path has no separator at its end
        yield from ((start + name, Path(inside, name)) for name in sorted(names) if name.lower().endswith(SUFFIXES))


def _reported(findings: Iterable[LocatedFinding]) -> tuple[ReportedFinding, ...]:
    return tuple(map(ReportedFinding.of_located, findings))


def _model(kind: Literal["onnx", "openvino"], checked: CheckedModel, level: FeatureLevel) -> tuple[FileReport, bool]:
    report = FileReport(
        file=checked.file,
        level=level,
        kind="unknown" if checked.problems else kind,
        format=checked.format,
        opsets=checked.opsets,
        nodes=checked.nodes,
        others=checked.others,
        findings=_reported(checked.findings),
        problems=checked.problems,
    )
    return report, checked.foreign
