"""Check one file of any kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from dmlgather.dialects.checked_model import CheckedModel
from dmlgather.directml.dxdispatch import descriptor_lines
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file
from dmlgather.directml.located import FileProblem, LocatedFinding
from dmlgather.directml.types import FeatureLevel
from dmlgather.limits import DEFAULT, LimitError, Limits
from dmlgather.report.check_report import FileReport
from dmlgather.report.finding_status import ReportedFinding


def _onnx(path: Path, level: FeatureLevel, include_host: bool) -> CheckedModel:
    from dmlgather.onnx.model.check import check_model

    return check_model(path, level, include_host)


def _openvino(path: Path, level: FeatureLevel, include_host: bool) -> CheckedModel:
    from dmlgather.openvino.model.check import check_ir

    return check_ir(path, level, include_host)


MODELS: dict[str, tuple[Literal["onnx", "openvino"], Callable[[Path, FeatureLevel, bool], CheckedModel]]] = {
    ".onnx": ("onnx", _onnx),
    ".xml": ("openvino", _openvino),
}
"""The models of dialects by the suffix of their names: the kind, and the function that checks one, which is told the level, and
whether to judge the host's arithmetic as well. Any other file is JSON.
"""

SUFFIXES = (".json", *descriptor_lines.SUFFIXES, *MODELS)
"""The suffixes of files that are checked in folders."""


def file_report(
    path: Path, level: FeatureLevel, allow_outside: bool = False, include_host: bool = False, limits: Limits = DEFAULT
) -> tuple[FileReport, bool]:
    """The report of a file at a feature level, and whether the file is of another sort. allow_outside: as in `check_file`.
    include_host: as in `check_model`. limits: of the work on the file.

    A file that takes too long, too much memory, or that meets an error in dmlgather is a problem of its own.
    """
    try:
        with limits.over(path):
            return _checked(path, level, allow_outside, include_host)
    except LimitError as error:
        message = f"{error}; it is not checked"
    except RecursionError:
        message = "is nested too deeply"
    except Exception as error:  # no file may cost the report of the others
        summary = " ".join(str(error).split())[:500]
        message = f"meets an internal error of dmlgather, please report it with the file: {type(error).__name__}: {summary}"
    problem = FileProblem(file=str(path), message=message)
    return FileReport(file=str(path), level=level, kind="unknown", problems=(problem,)), False


def _checked(path: Path, level: FeatureLevel, allow_outside: bool, include_host: bool) -> tuple[FileReport, bool]:
    name = path.name.lower()
    for suffix, (kind, check) in MODELS.items():
        if name.endswith(suffix):
            return _model(kind, check(path, level, include_host), level)
    if name.endswith(descriptor_lines.SUFFIXES):
        return _json(descriptor_lines.check_lines_file(path, level), level)
    return _json(check_file(path, level, allow_outside), level)


def stdin_report(level: FeatureLevel, allow_outside: bool = False) -> tuple[FileReport, bool]:
    """The report of what standard input holds, and whether it is of another sort. allow_outside: as in `check_file`."""
    checked = descriptor_lines.check_stdin(sys.stdin.buffer, level, allow_outside)
    report, foreign = _json(checked, level)
    return report.with_lines(checked.lines), foreign


def _json(checked: CheckedFile, level: FeatureLevel) -> tuple[FileReport, bool]:
    report = FileReport(
        file=checked.file,
        level=level,
        kind="unknown" if checked.kind in ("foreign", "unreadable") else checked.kind,
        descriptors=checked.descriptors,
        findings=_reported(checked.findings),
        problems=checked.problems,
    )
    return report, checked.kind == "foreign"


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
        relatives=checked.relatives,
        findings=_reported(checked.findings),
        problems=checked.problems,
    )
    return report, checked.foreign
