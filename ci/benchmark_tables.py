"""Tables of benchmark results in a page, generated from the JSON files that the page names.

<!-- results: benchmarks/results/cpu-….json -->
(generated)
<!-- end of results -->
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.bench_report import BenchReport
from benchmarks.tables import notes, table_of

_BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def rendered(text: str, root: Path) -> str:
    """`text` with a new table in every block. root: the folder to which the names of the JSON files are relative."""

    def block(found: re.Match[str]) -> str:
        report = BenchReport.model_validate_json((root / found[2]).read_text(encoding="utf-8"))
        return f"{found[1]}\n{markdown(report)}\n{found[3]}"

    return _BLOCK.sub(block, text)


def markdown(report: BenchReport) -> str:
    """The notes, the versions and the table of a report as Markdown."""
    table = table_of(report)
    ruled = [
        f"| {' | '.join(table.heading)} |",
        f"|{'|'.join(' --- ' if place in table.words else ' ---: ' for place in range(len(table.heading)))}|",
        *(f"| {' | '.join(row)} |" for row in table.rows),
    ]
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return "\n".join([*(f"- {note}" for note in (*notes(report), f"versions: {versions}")), "", *ruled, ""])
