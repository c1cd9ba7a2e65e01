"""Tables of benchmark results from the JSON files under benchmarks/results: one file with all, and a summary."""

from __future__ import annotations

import statistics

from benchmarks.bench_report import AHEAD, BenchReport
from benchmarks.tables import LOST, notes, table_of
from ci.pages.blocks import table


def markdown(report: BenchReport) -> str:
    """Return notes, versions and table of a report, without the remedies for missing peers."""
    report = report.model_copy(update={"missing": {name: why.partition("; ")[0] for name, why in report.missing.items()}})
    results = table_of(report)
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    left_aligned = [results.heading[place] for place in results.words]
    bullets = [f"- {note}" for note in (*notes(report), f"versions: {versions}")]
    return "\n".join([*bullets, "", table(results.heading, results.rows, left_aligned)])


def full(name: str, report: BenchReport) -> str:
    """Return the Markdown file of a report. `name`: its JSON file."""
    return f"# Suite {report.suite}\n\nThe figures of {name}. docs/benchmarks.md explains the columns.\n\n{markdown(report)}\n"


def summary(name: str, report: BenchReport) -> str:
    """Return the geometric means, and the cases in which a peer is faster. `name`: the file with the full table."""
    peers = [peer for peer in report.peers if peer in report.geometric_means["warm"]]
    rows = [
        (f"geometric mean of {len(report.cases)} cases, {temperature}", *(_ratio(means.get(peer)) for peer in ("best", *peers)))
        for temperature, means in report.geometric_means.items()
        if means
    ]
    gains = [case.gain for case in report.cases if case.gain is not None]
    if gains:
        rows.append(
            (f"unfused: geometric mean; least {min(gains):.2f}", f"{statistics.geometric_mean(gains):.2f}", *[""] * len(peers))
        )
    for case in report.cases:
        ratios = case.ratios["warm"]
        if round(ratios.get("best", AHEAD), 2) < AHEAD:
            rows.append((case.name, *(_ratio(ratios.get(peer)) for peer in ("best", *peers))))
    heading = ("ratio", "best peer", *peers)
    date, machine = report.date.partition("T")[0], f"{report.machine.processor}, {report.machine.cpus} CPUs"
    lines = [f"Measured on {date} ({machine}). All cases: `{name}`.", "", table(heading, rows, heading[:1])]
    if report.cluster is not None:
        lines += ["", *(f"- {note}" for note in table_of(report).footnotes)]
    return "\n".join(lines)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" + (f" {LOST}" if round(value, 2) < AHEAD else "")
