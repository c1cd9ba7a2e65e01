"""Findings as text, one line each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from dmlgather.report import nodes
from dmlgather.report.check_report import CheckReport
from dmlgather.report.standing import ReportedFinding, Standing
from dmlgather.wording import printable

STYLES = {
    r"^ *(?P<place>\S[^ ]*?:\d+(:\d+)?:)": "bold",
    r"(?P<error>\b(DML|EXP)\d{3} error\b)": "bold red",
    r"(?P<warning>\b(DML|EXP)\d{3} warning\b)": "bold yellow",
    r"(?P<note>\b(DML|EXP)\d{3} note\b)": "bold cyan",
    r"(?P<fix>; fix: .*)": "green",
    r"(?P<known> \(known: in the baseline\))$": "dim",
}
"""What stands out on a terminal, and how: one named group each, which names its style."""


def lines(report: CheckReport) -> Iterator[str]:
    """One line per finding, FILE:LINE:COLUMN first, as editors and terminals know it. Problems go to standard error.

    For an ONNX model or an OpenVINO IR also a heading, and a line per node above its findings. What files and file systems name
    cannot break a line or steer a terminal, wherever it stands in one. Findings that the configuration ignores are not shown.
    """
    for file in report.files:
        yield from map(printable, nodes.lines(file, _shown) if file.kind in nodes.HEADS else _shown(file.findings))


def _shown(findings: Iterable[ReportedFinding]) -> Iterator[str]:
    return (f"{found}{found.remark}" for found in findings if found.standing is not Standing.IGNORED)


def show(report: CheckReport) -> None:
    """Write to standard output, in colours where it is a terminal; the text is the same."""
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
