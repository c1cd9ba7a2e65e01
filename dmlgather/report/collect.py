"""Check files and folders into one report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from dmlgather import __version__
from dmlgather.dialects.checking import CheckedModel
from dmlgather.dialects.onnx.model import check as onnx_check
from dmlgather.dialects.openvino.ir import check as ir_check
from dmlgather.dialects.openvino.ir import file as ir_file
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.directml.located import Problem
from dmlgather.directml.types import FeatureLevel
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.wording import counted

MODELS: Mapping[str, tuple[Literal["onnx", "openvino"], Callable[[Path, FeatureLevel], CheckedModel]]] = {
    onnx_check.SUFFIX: ("onnx", onnx_check.check_model),
    ir_file.SUFFIX: ("openvino", ir_check.check_ir),
}
"""The models of other dialects by what their names end with: the kind, and how it is checked. Anything else is JSON."""

SUFFIXES = (".json", *MODELS)
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
            files.append(_file(path, level)[0])
    return CheckReport(version=__version__, level=level, files=tuple(files), skipped=tuple(skipped))


def _folder(folder: Path, level: FeatureLevel, files: list[FileReport], skipped: list[str]) -> None:
    problems: list[OSError] = []
    before = len(files), len(skipped)
    for path in _walk(folder, problems):
        report, foreign = _file(path, level)
        if foreign:
            skipped.append(str(path))
        else:
            files.append(report)
    for error in problems:
        problem = Problem(file=str(error.filename), message=f"cannot be listed: {error.strerror}")
        files.append(FileReport(file=str(error.filename), kind="unknown", problems=(problem,)))
    if len(files) == before[0]:
        kinds = Counter(Path(name).suffix.lower() for name in skipped[before[1] :])
        found = " and ".join(counted(count, f"{kind} file") for kind, count in sorted(kinds.items()))
        others = f" ({found} of another sort)" if found else ""
        problem = Problem(file=str(folder), message=f"holds no model or descriptor{others}")
        files.append(FileReport(file=str(folder), kind="unknown", problems=(problem,)))


def _walk(folder: Path, problems: list[OSError]) -> Iterator[Path]:
    """The files to look at below `folder`, in order of their names. Links to folders are not followed."""
    for inside, folders, names in os.walk(folder, onerror=problems.append):
        folders.sort()
        yield from (Path(inside, name) for name in sorted(names) if name.lower().endswith(SUFFIXES))


def _file(path: Path, level: FeatureLevel) -> tuple[FileReport, bool]:
    """What was found in a file, and whether it is a file of another sort."""
    for suffix, (kind, check) in MODELS.items():
        if path.name.lower().endswith(suffix):
            return _model(kind, check(path, level))
    checked = check_file(path, level)
    known = checked.kind if checked.kind in ("model", "descriptor") else "unknown"
    report = FileReport(file=checked.file, kind=known, findings=checked.findings, problems=checked.problems)
    return report, checked.kind == "foreign"


def _model(kind: Literal["onnx", "openvino"], checked: CheckedModel) -> tuple[FileReport, bool]:
    report = FileReport(
        file=checked.file,
        kind="unknown" if checked.problems else kind,
        format=checked.format,
        opsets=checked.opsets,
        nodes=checked.nodes,
        others=checked.others,
        findings=checked.findings,
        problems=checked.problems,
    )
    return report, checked.foreign
