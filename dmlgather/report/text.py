"""Findings as text: a block of lines each, or one line each."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from itertools import islice

from dmlgather.output import put
from dmlgather.report import blocks
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.report.model_lines import model_lines
from dmlgather.report.node_lines import HEADS, NodeListing
from dmlgather.wording import printable

WIDTH = 120
"""Characters of a line where nobody's terminal decides, so that a log does not depend on where it was written."""

NARROWEST, WIDEST = 40, 130
"""The widths of terminals to which lines are wrapped."""

AT_ONCE = 100
"""Lines that are coloured at a time, which takes little longer than one."""

JOINTS = {"descriptor": ": ", "descriptors": ": "}
"""What joins the subject and the path of a finding, by the kind of file, where the subject is a name and no path."""

STYLES = {
    r"(?m)^ *\S[^\n ]*?:\d+(:\d+)?:": "bold",
    r"\b(DML|EXP)\d{3} error\b": "bold red",
    r"\b(DML|EXP)\d{3} warning\b": "bold yellow",
    r"\b(DML|EXP)\d{3} note\b": "bold cyan",
    r"(?m)^ +\d+ \|": "dim",
    r"(?m)^ +\| +\^$": "bold red",
    r"(?m)^ +(expected|got|nodes?|layers?) {2,}": "bold",
    r"(?m)^ +fix {2,}": "bold green",
    r"(?m); fix: .*$": "green",
    r"(?m) \(known: in the baseline\)$": "dim",
}
"""Patterns that are highlighted on a terminal, and the style of each."""


def lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG, width: int = WIDTH) -> Iterator[str]:
    """A block per cause, as `blocks.block`. A known finding is one line. Ignored findings are left out.

    An ONNX model or an OpenVINO IR also has a heading, and lines about the nodes that are `listed`. Control characters in names
    are escaped.
    """
    for file in report.files:
        yield from map(printable, model_lines(file, listed, width) if file.kind in HEADS else _blocks(file, width))


def concise_lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG) -> Iterator[str]:
    """As `lines`, but all of a cause in one line, without the line of the file."""
    for file in report.files:
        yield from map(printable, model_lines(file, listed) if file.kind in HEADS else map(blocks.line, _shown(file)))


def _blocks(file: FileReport, width: int) -> Iterator[str]:
    source = file.source()
    for finding in _shown(file):
        yield from blocks.block(finding, source, width, JOINTS.get(file.kind, "."))
        if finding.status is FindingStatus.OPEN:
            yield ""


def _shown(file: FileReport) -> Iterator[ReportedFinding]:
    """The findings of a file without nodes, but those that are ignored."""
    return (finding for finding in file.findings if finding.status is not FindingStatus.IGNORED)


def terminal_width() -> int:
    """The width to which lines on standard output are wrapped: that of the terminal, within limits; WIDTH where it is none."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(NARROWEST, min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDEST))


def show(lines: Iterator[str]) -> None:
    """Write to standard output; in colour if it is a terminal."""
    if not sys.stdout.isatty():
        for line in lines:
            put(line + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    while some := list(islice(lines, AT_ONCE)):
        text = Text("\n".join(some))
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text)
