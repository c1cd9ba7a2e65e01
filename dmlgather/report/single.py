"""Check one file, whatever it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from dmlgather.dialects.checked_model import CheckedModel
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.directml.located import LocatedFinding
from dmlgather.directml.types import FeatureLevel
from dmlgather.report.check_report import FileReport
from dmlgather.report.standing import ReportedFinding


def _onnx(path: Path, level: FeatureLevel) -> CheckedModel:
    from dmlgather.onnx.model.check import check_model

    return check_model(path, level)


def _openvino(path: Path, level: FeatureLevel) -> CheckedModel:
    from dmlgather.openvino.model.check import check_ir

    return check_ir(path, level)


MODELS: Mapping[str, tuple[Literal["onnx", "openvino"], Callable[[Path, FeatureLevel], CheckedModel]]] = {
    ".onnx": ("onnx", _onnx),
    ".xml": ("openvino", _openvino),
}
"""The models of other dialects by what their names end with: the kind, and how it is checked. Anything else is JSON."""

SUFFIXES = (".json", *MODELS)
"""Files that are looked at in folders."""


def check_one(path: Path, level: FeatureLevel) -> tuple[FileReport, bool]:
    """What was found in a file at a feature level, and whether it is a file of another sort."""
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
