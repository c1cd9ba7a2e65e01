"""Findings as text: a block of lines each, or one line each."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from dmlgather.output import put
from dmlgather.report import node_lines
from dmlgather.report.check_report import CheckReport, FileReport
from dmlgather.report.finding_status import FindingStatus, ReportedFinding
from dmlgather.report.node_lines import NodeListing
from dmlgather.report.source_lines import SourceLines
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
    r"(?m)^ +(expected|got) {2,}": "bold",
    r"(?m)^ +fix {2,}": "bold green",
    r"(?m); fix: .*$": "green",
    r"(?m) \(known: in the baseline\)$": "dim",
}
"""Patterns that are highlighted on a terminal, and the style of each."""


def lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG, width: int = WIDTH) -> Iterator[str]:
    """A block per finding: FILE:LINE:COLUMN, the code and what must hold; the line of the file with a caret; what was expected,
    what was got and the fix, wrapped to `width`. A known finding is one line. Ignored findings are left out.

    An ONNX model or an OpenVINO IR also has a heading, and a line for each node that is `listed`, before its findings. Control
    characters in names are escaped.
    """
    for file in report.files:
        room = width - node_lines.INDENT if file.kind in node_lines.HEADS else width
        yield from _of_file(
            file, listed, partial(_block, source=SourceLines(file.file), width=room, joint=JOINTS.get(file.kind, "."))
        )


def concise_lines(report: CheckReport, listed: NodeListing = NodeListing.WRONG) -> Iterator[str]:
    """As `lines`, but all of a finding in one line, without the line of the file."""
    for file in report.files:
        yield from _of_file(file, listed, lambda finding: [f"{finding}{finding.remark}"])


def _of_file(file: FileReport, listed: NodeListing, block: Callable[[ReportedFinding], Iterable[str]]) -> Iterator[str]:
    def shown(findings: Iterable[ReportedFinding]) -> Iterator[str]:
        return (line for found in findings if found.status is not FindingStatus.IGNORED for line in block(found))

    in_nodes = file.kind in node_lines.HEADS
    return map(printable, node_lines.lines(file, shown, listed) if in_nodes else shown(file.findings))


def _block(finding: ReportedFinding, source: SourceLines, width: int, joint: str) -> Iterator[str]:
    parts = [part for part in (finding.subject, finding.path) if part]
    path = f" ({joint.join(parts)})" if parts else ""
    yield f"{finding.place}: {finding.code} {finding.severity}: {finding.message}{path}{finding.times}{finding.remark}"
    if finding.status is FindingStatus.KNOWN:
        return
    yield from source.excerpt(finding.line, finding.column, width)
    for label, text in (("expected", finding.expected), ("got", finding.got), ("fix", finding.remedy)):
        yield from _labelled(label, printable(text), width)
    yield ""


def _labelled(label: str, text: str, width: int) -> list[str]:
    """The text behind its label, wrapped."""
    first = f"  {label:8}  "
    if len(first) + len(text) <= width:
        return [first + text]
    behind = " " * len(first)
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=behind, break_on_hyphens=False)


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
