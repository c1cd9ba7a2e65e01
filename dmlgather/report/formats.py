"""The formats of a report, by the name that `--output-format` takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from dmlgather.report import nodes
from dmlgather.report.check_report import CheckReport
from dmlgather.wording import printable


def text(report: CheckReport) -> Iterator[str]:
    """One line per finding, FILE:LINE:COLUMN first, as editors and terminals know it. Problems go to standard error.

    For an ONNX model or an OpenVINO IR also a heading, and a line per node above its findings. What files and file systems name
    cannot break a line or steer a terminal, wherever it stands in one.
    """
    for file in report.files:
        yield from map(printable, nodes.lines(file, report.level) if file.kind in nodes.HEADS else map(str, file.findings))


def as_json(report: CheckReport) -> Iterator[str]:
    """The whole report as one JSON object; `dmlgather schema report` prints its schema."""
    yield json.dumps(report.model_dump(mode="json"), indent=2)


FORMATS: dict[str, Callable[[CheckReport], Iterator[str]]] = {"text": text, "json": as_json}
"""Each yields lines for standard output."""
