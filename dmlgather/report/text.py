"""Findings as text, one line each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from dmlgather.report import node_lines
from dmlgather.report.check_report import CheckReport
from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.wording import printable

STYLES = {
    r"^ *(?P<place>\S[^ ]*?:\d+(:\d+)?:)": "bold",
    r"(?P<error>\b(DML|EXP)\d{3} error\b)": "bold red",
    r"(?P<warning>\b(DML|EXP)\d{3} warning\b)": "bold yellow",
    r"(?P<note>\b(DML|EXP)\d{3} note\b)": "bold cyan",
    r"(?P<fix>; fix: .*)": "green",
    r"(?P<known> \(known: in the baseline\))$": "dim",
}
"""Patterns that are highlighted on a terminal, each with one group, and the style of each."""


def lines(report: CheckReport) -> Iterator[str]:
    """One line per finding, which starts with FILE:LINE:COLUMN, as editors and terminals expect. Ignored findings are left out.

    An ONNX model or an OpenVINO IR also has a heading, and a line per node before its findings. Control characters in names are
    escaped.
    """
    for file in report.files:
        yield from map(printable, node_lines.lines(file, _shown) if file.kind in node_lines.HEADS else _shown(file.findings))


def _shown(findings: Iterable[ReportedFinding]) -> Iterator[str]:
    return (f"{found}{found.remark}" for found in findings if found.status is not FindingStatus.IGNORED)


def show(report: CheckReport) -> None:
    """Write to standard output; in colour if it is a terminal."""
    if not sys.stdout.isatty():
        for line in lines(report):
            sys.stdout.write(line + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for line in lines(report):
        text = Text(line)
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text)
