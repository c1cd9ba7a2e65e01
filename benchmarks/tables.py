"""A report as a table, in plain text or for a terminal: one row per case, or per contender on a cluster."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from benchmarks.bench_report import AHEAD, CHAIN, BenchReport, CaseReport, Cluster, Measured
from dmlgather.wording import counted

LOST = "◀"
"""Mark of ratios with a faster peer, and of other failures."""

RIVAL, GOAL = "fused-loop", 2.0
"""Goal on a cluster: dmlgather takes at most `GOAL` times as long as the peer `RIVAL`."""

GAIN = 1.5
"""Goal of fusing: least speed-up of a chain of two or more launches."""

_GAIN_LEGEND = f"unfused: the time of dmlgather for the steps one by one, divided by that of the fused chain; goal: {GAIN:g}"

Row = tuple[str, ...]

_RATIO_LEGEND = f"ratio: the peer's time divided by dmlgather's, above 1 dmlgather is faster, {LOST} marks less than {AHEAD:g}"


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table as text.

    `words`: left-aligned columns. `judged`: columns that may have the mark `LOST`. `always`: number of columns that are shown
    even on a narrow terminal. `legend`: the meaning of the columns.
    """

    heading: Row
    rows: list[Row]
    words: tuple[int, ...]
    judged: tuple[int, ...]
    always: int
    legend: tuple[str, ...]
    footnotes: list[str]


def table_of(report: BenchReport) -> ResultTable:
    """Return the table of a report."""
    return _device_table(report) if report.cluster is None else _cluster_table(report, report.cluster)


def lines(report: BenchReport) -> list[str]:
    """Return the table in plain text, followed by notes."""
    table = table_of(report)
    cells = [table.heading, *table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = ["  ".join(_aligned(row, widths, table)).rstrip() for row in cells]
    return [*aligned, "", *notes(report)]


def notes(report: BenchReport) -> list[str]:
    """Return the lines below the table, with the machine and the legend first."""
    machine, table = report.machine, table_of(report)
    where = f"{machine.processor}, {machine.cpus} CPUs"
    if machine.gpu is not None:
        fetched = machine.gpu.l2_fetch_bytes
        where += f"; {machine.gpu.name}" + ("" if fetched is None else f", L2 fetches of {fetched} bytes")
    chained = all(case.operator == CHAIN for case in report.cases)
    cannot: dict[tuple[str, str], dict[str, None]] = {}
    for case in report.cases:
        for name, why in case.cannot.items():
            cannot.setdefault((name, why), {})[case.workload] = None
    return [
        f"suite {report.suite} on {where}, {report.date}" + ("" if report.seed is None else f", seed {report.seed}"),
        *table.legend,
        "an index out of range, dmlgather: "
        + ("raises" if chained else "clamped")
        + "; a negative one counts from the end, as in "
        + ("NumPy" if chained else "DirectML"),
        *(f"an index out of range, {name}: {bounds}" for name, bounds in report.peers.items()),
        *(f"{name} took no part: {why}" for name, why in report.missing.items()),
        *(f"{name} cannot do {', '.join(workloads)}: {why}" for (name, why), workloads in cannot.items()),
        *table.footnotes,
    ]


def rich_table(report: BenchReport, width: int) -> Any:
    """Return the table for a terminal of `width` characters. Columns that do not fit are left out."""
    from rich.table import Table

    rich, table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold"), table_of(report)
    widths = [max(map(len, column)) + 1 for column in zip(table.heading, *table.rows, strict=True)]
    count = max(table.always, sum(end <= width for end in accumulate(widths)))
    for place, name in enumerate(table.heading[:count]):
        rich.add_column(name, justify="left" if place in table.words else "right", no_wrap=True)
    for row in table.rows:
        rich.add_row(*row[:count], style="red" if any(LOST in row[place] for place in table.judged) else None)
    return rich


def _aligned(row: Row, widths: Sequence[int], table: ResultTable) -> list[str]:
    cells = enumerate(zip(row, widths, strict=True))
    return [cell.ljust(width) if place in table.words else cell.rjust(width) for place, (cell, width) in cells]


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" + (f" {LOST}" if round(value, 2) < AHEAD else "")


def _device_table(report: BenchReport) -> ResultTable:
    """Return a table with one row per case, and the geometric means."""
    means, peers = report.geometric_means, tuple(report.peers)
    last = ("geometric mean", "", "", "", "", "", _ratio(means["warm"].get("best")), _ratio(means["cold"].get("best")))
    calls = [(case.name, item) for case in report.cases for item in case.measured if item.role in ("checked", "launch")]
    gains = [case.gain for case in report.cases if case.gain is not None]
    chains = (_ratio(statistics.geometric_mean(gains)),) if gains else ()
    return ResultTable(
        heading=(
            *("case", "MB", "ours ms", "GB/s", "of copy", "best peer", "ratio", "cold"),
            *(("unfused",) if gains else ()),
            *peers,
        ),
        rows=[
            *(_case_row(case, peers, chains=bool(gains)) for case in report.cases),
            (*last, *chains, *(_ratio(means["warm"].get(name)) for name in peers)),
        ],
        words=(0, 5),
        judged=(6,),
        always=8,
        legend=(
            f"times are medians of interleaved rounds, warm unless marked cold; {_RATIO_LEGEND}; of copy: the rate of moving "
            "the necessary bytes, divided by the rate of a copy",
            *([_GAIN_LEGEND] if gains else []),
        ),
        footnotes=[f"{name}: {item.spelling} takes {_call(item)}" for name, item in calls],
    )


def _case_row(case: CaseReport, peers: Sequence[str], *, chains: bool) -> Row:
    best, share = case.best("peer", "warm"), case.share_of_copy("warm")
    return (
        case.name,
        f"{case.traffic.output_bytes / 1e6:.3g}",
        f"{case.ours.warm.median_ms:.3g}",
        f"{case.gigabytes_per_second('warm'):.3g}",
        "-" if share is None else f"{share:.0%}",
        "-" if best is None else best.name,
        _ratio(case.ratio("warm")),
        _ratio(case.ratio("cold")),
        *((_ratio(case.gain),) if chains else ()),
        *(_ratio(case.ratio("warm", name)) for name in peers),
    )


def _call(item: Measured) -> str:
    host = "" if item.host is None else f", {1e3 * item.host.median_ms:.3g} us of the host"
    return f"{1e3 * item.warm.median_ms:.3g} us{host}"


def _cluster_table(report: BenchReport, cluster: Cluster) -> ResultTable:
    """Return a table with one row per case and contender, with its use of the workers."""
    kind = "separate processes" if cluster.processes else "one process"
    size = f"{counted(cluster.threads, 'thread')} and {cluster.memory_bytes // 2**20} MiB"
    sizes = {case.input_shape: case.table_bytes for case in report.cases}
    tables = ", ".join(f"{' x '.join(map(str, shape))} ({bytes_ / 1e9:.3g} GB)" for shape, bytes_ in sizes.items())
    return ResultTable(
        heading=("case", "who", "median s", "rounds", "ratio", "sent MB", "peak MiB", "restarts", "as typed"),
        rows=[_contender_row(case, item) for case in report.cases for item in case.measured],
        words=(0, 1, 8),
        judged=(4, 7),
        always=8,
        legend=(
            f"{counted(cluster.workers, 'worker')} of {size} in {kind}; tables in .npy files: {tables}",
            f"times are medians of interleaved rounds, until the rows are in the caller's memory; {_RATIO_LEGEND}",
            "sent: by all workers in a round, to each other and to the caller; peak: the largest resident memory of a worker, "
            "mapped pages of the file included",
        ),
        footnotes=[*_goal(report), _restarts(cluster)],
    )


def _contender_row(case: CaseReport, item: Measured) -> Row:
    usage = item.usage
    restarts = "-" if usage is None else f"{usage.restarts} {LOST}" if usage.restarts else "0"
    return (
        case.name,
        item.name,
        f"{item.warm.median_ms / 1e3:.3g}",
        str(item.rounds),
        "" if item == case.ours else _ratio(item.median_ms("warm") / case.ours.median_ms("warm")),
        "-" if usage is None or usage.sent_bytes is None else f"{usage.sent_bytes / 1e6:.0f}",
        "-" if usage is None or usage.peak_bytes is None else f"{usage.peak_bytes / 2**20:.0f}",
        restarts,
        item.spelling,
    )


def _goal(report: BenchReport) -> list[str]:
    """Return a note on the goal if `RIVAL` took part."""
    ratios = [ratio for case in report.cases if (ratio := case.ratio("warm", RIVAL))]
    if not ratios:
        return []
    most = 1 / min(ratios)
    missed = "" if most <= GOAL else f" {LOST} missed"
    return [f"dmlgather takes at most {most:.2f} times as long as {RIVAL}; goal: {GOAL:g}{missed}"]


def _restarts(cluster: Cluster) -> str:
    if not cluster.restarts:
        return "no worker was lost and restarted in any call, timed or not"
    lost = ", ".join(f"{name} {number}" for name, number in cluster.restarts.items())
    return f"{LOST} workers lost and restarted in all calls, timed or not: {lost}"
