"""The table of cases on devices: one row per case, ratios to every peer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dmlgather.bench.report import AHEAD, BenchReport, CaseReport, Measured
from dmlgather.bench.table import LOST, Row, Table, ratio


def device_table(report: BenchReport) -> Table:
    """One row per case and a last one with the geometric means. Ratios: theirs by ours, so that above 1 the operator is ahead."""
    means, peers = report.geometric_means, tuple(report.peers)
    last = ("geometric mean", "", "", "", "", "", ratio(means["warm"].get("best")), ratio(means["cold"].get("best")))
    return Table(
        heading=("case", "MB", "ours ms", "GB/s", "of copy", "best peer", "ratio", "cold", *peers),
        rows=[
            *(_row(case, peers) for case in report.cases),
            (*last, *(ratio(means["warm"].get(name)) for name in peers)),
        ],
        words=(0, 5),
        judged=(6,),
        always=8,
        legend=(
            "medians of interleaved rounds, warm unless it says cold; ratio: the peer's time by ours, above 1 is ahead; "
            f"{LOST} below {AHEAD:g}; of copy: rate of the bytes that must move, by the rate of a copy",
        ),
        footnotes=tuple(_floor(report)),
    )


def _row(case: CaseReport, peers: Sequence[str]) -> Row:
    best, share = case.best("peer", "warm"), case.share_of_copy("warm")
    return (
        case.name,
        f"{case.traffic.output_bytes / 1e6:.3g}",
        f"{case.ours.warm.median_ms:.3g}",
        f"{case.gigabytes_per_second('warm'):.3g}",
        "-" if share is None else f"{share:.0%}",
        "-" if best is None else best.name,
        ratio(case.ratio("warm")),
        ratio(case.ratio("cold")),
        *(ratio(case.ratio("warm", name)) for name in peers),
    )


def _floor(report: BenchReport) -> list[str]:
    """What a call costs, where the report has it."""
    found = []
    for name, cases in groupby(report.cases, lambda case: case.name):
        others = [item for case in cases for item in case.measured if item.role in ("checked", "launch")]
        found += [f"{name}: {item.spelling} takes {_call(item)}" for item in others]
    return found


def _call(item: Measured) -> str:
    host = "" if item.host is None else f", {1e3 * item.host.median_ms:.3g} us of the host"
    return f"{1e3 * item.warm.median_ms:.3g} us{host}"
