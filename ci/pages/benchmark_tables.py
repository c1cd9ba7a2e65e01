"""Tables of benchmark results, generated from the JSON files under benchmarks/results."""

from __future__ import annotations

from benchmarks.bench_report import BenchReport
from benchmarks.tables import notes, table_of
from ci.pages.blocks import table


def markdown(report: BenchReport) -> str:
    """Return the notes, the versions and the table of a report as Markdown, without the remedies for peers that took no part."""
    report = report.model_copy(update={"missing": {name: why.partition("; ")[0] for name, why in report.missing.items()}})
    made = table_of(report)
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    words = [made.heading[place] for place in made.words]
    return "\n".join(
        [*(f"- {note}" for note in (*notes(report), f"versions: {versions}")), "", table(made.heading, made.rows, words)]
    )
