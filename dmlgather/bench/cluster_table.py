"""The table of cases on a cluster: one row per contender, with what it took of the workers."""

from __future__ import annotations

from dmlgather.bench.report import AHEAD, BenchReport, CaseReport, Cluster, Measured
from dmlgather.bench.table import LOST, Row, Table, ratio
from dmlgather.wording import counted

RIVAL, GOAL = "fused-loop", 2.0
"""Whose time ours is held against, and at most how many times as long it may take."""


def cluster_table(report: BenchReport, cluster: Cluster) -> Table:
    """One row per case and contender. Ratios: theirs by ours, so that above 1 the operator is ahead."""
    return Table(
        heading=("case", "who", "median s", "rounds", "ratio", "sent MB", "peak MiB", "restarts", "as typed"),
        rows=[_row(case, item) for case in report.cases for item in case.measured],
        words=(0, 1, 8),
        judged=(4, 7),
        always=8,
        legend=(
            f"{_workers(cluster)}; tables in .npy files: {_sizes(report)}",
            "medians of interleaved rounds, until the rows are in the caller's memory; "
            f"ratio: the peer's time by ours, above 1 is ahead; {LOST} below {AHEAD:g}",
            "sent: by all workers in a round, to each other and to the caller; peak: the most that one worker had resident, "
            "mapped pages of the file included",
        ),
        footnotes=(*_held(report), _lost(cluster)),
    )


def _row(case: CaseReport, item: Measured) -> Row:
    usage = item.usage
    restarts = "-" if usage is None else f"{usage.restarts} {LOST}" if usage.restarts else "0"
    return (
        case.name,
        item.name,
        f"{item.warm.median_ms / 1e3:.3g}",
        str(item.rounds),
        "" if item == case.ours else ratio(item.median_ms("warm") / case.ours.median_ms("warm")),
        "-" if usage is None or usage.sent_bytes is None else f"{usage.sent_bytes / 1e6:.0f}",
        "-" if usage is None or usage.peak_bytes is None else f"{usage.peak_bytes / 2**20:.0f}",
        restarts,
        item.spelling,
    )


def _workers(cluster: Cluster) -> str:
    where = "processes of their own" if cluster.processes else "one process"
    size = f"{counted(cluster.threads, 'thread')} and {cluster.memory_bytes // 2**20} MiB"
    return f"{counted(cluster.workers, 'worker')} of {size} in {where}"


def _sizes(report: BenchReport) -> str:
    """The tables' sizes, in GB."""
    sizes = {case.input_shape: case.table_bytes for case in report.cases}
    return ", ".join(f"{' x '.join(map(str, shape))} ({bytes_ / 1e9:.3g} GB)" for shape, bytes_ in sizes.items())


def _held(report: BenchReport) -> list[str]:
    """Whether the goal is met, where the rival took part."""
    ratios = [found for case in report.cases if (found := case.ratio("warm", RIVAL))]
    if not ratios:
        return []
    most = 1 / min(ratios)
    missed = "" if most <= GOAL else f" {LOST} missed"
    return [f"dmlgather takes at most {most:.2f} times as long as {RIVAL}; goal: {GOAL:g}{missed}"]


def _lost(cluster: Cluster) -> str:
    if not cluster.restarts:
        return "no worker was lost and restarted, in no call of anybody, timed or not"
    lost = ", ".join(f"{name} {number}" for name, number in cluster.restarts.items())
    return f"{LOST} workers lost and restarted, in all calls, timed or not: {lost}; nobody else lost any"
