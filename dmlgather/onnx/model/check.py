"""Check an ONNX model file: every node of the family is judged, and nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dmlgather.dialects.checked_model import CheckedModel
from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import FeatureLevel
from dmlgather.directml.located import LocatedFinding, Problem
from dmlgather.files import FileError
from dmlgather.onnx.model.file import read_model
from dmlgather.onnx.model.judging import judge, undefined
from dmlgather.onnx.model.node_records import described
from dmlgather.onnx.model.walking import ModelContents, walk


def check_model(path: Path, level: str | FeatureLevel = "6_4") -> CheckedModel:
    """Read the model at `path` and judge its nodes at a feature level. External data is not read.

    A file that cannot be understood has one problem. ValueError for an unknown level.
    """
    level = FeatureLevel.parse(level)
    file = str(path)
    try:
        walked = walk(read_model(path))
    except FileError as error:
        return CheckedModel(file, problems=(Problem(file=file, message=str(error)),))
    judged = [(site, judge(site, level)) for site in walked.sites]
    findings = [LocatedFinding.of(finding, file, None, None, site.place) for site, found in judged for finding in found.findings]
    return CheckedModel(
        file,
        opsets=walked.opsets,
        nodes=tuple(described(*pair) for pair in judged),
        others=dict(sorted(walked.others.items())),
        findings=(*_remarks(walked, file), *_broken(walked, file), *findings),
    )


def _broken(walked: ModelContents, file: str) -> Iterator[LocatedFinding]:
    """Nodes outside the family that read what is not defined."""
    for place, name, reason in walked.broken:
        yield LocatedFinding.of(undefined("", name, reason), file, None, None, place)


def _remarks(walked: ModelContents, file: str) -> list[LocatedFinding]:
    """What kept shapes from being inferred, where anything is judged."""
    found = []
    for graph, reason in walked.remarks.items() if walked.sites else ():
        finding = CODES["EXP303"].finding(
            "",
            expected="a model whose shapes follow from its inputs",
            got=reason,
            remedy="correct the model; what it states itself is all that is known of its shapes",
        )
        found.append(LocatedFinding.of(finding, file, None, None, graph))
    return found
