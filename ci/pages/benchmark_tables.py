"""Tables of benchmark results, from the JSON files in benchmarks/results."""

from __future__ import annotations

from benchmarks.bench_report import BenchReport
from benchmarks.tables import notes, table_of
from ci.pages.blocks import table


def markdown(report: BenchReport) -> str:
    """Return notes, versions and table of a report as Markdown, without the remedies for missing peers."""
    report = report.model_copy(update={"missing": {name: why.partition("; ")[0] for name, why in report.missing.items()}})
    results = table_of(report)
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    left_aligned = [results.heading[place] for place in results.words]
    bullets = [f"- {note}" for note in (*notes(report), f"versions: {versions}")]
    return "\n".join([*bullets, "", table(results.heading, results.rows, left_aligned)])
