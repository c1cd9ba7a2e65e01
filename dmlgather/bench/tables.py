"""A report as a table: one list of rows, rendered as plain text, for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Any

from dmlgather.bench.report import AHEAD, BenchReport, CaseReport, Measured

LOST = "◀"
"""Stands behind the ratio of a case in which a peer was quicker."""

Row = tuple[str, ...]

_WORDS, _RATIO, _ALWAYS = (0, 5), 6, 8
"""Columns of words; the column of the ratio to the best peer; columns before the peers."""


def heading(report: BenchReport) -> Row:
    """The columns' names. Ratios: theirs by ours, so that above 1 the operator is ahead."""
    return ("case", "MB", "ours ms", "GB/s", "of copy", "best peer", "ratio", "cold", *report.peers)


def rows(report: BenchReport) -> list[Row]:
    """One row per case and a last one with the geometric means."""
    means = report.geometric_means
    last = ("geometric mean", "", "", "", "", "", _ratio(means["warm"].get("best")), _ratio(means["cold"].get("best")))
    return [
        *(_row(case, tuple(report.peers)) for case in report.cases),
        (*last, *(_ratio(means["warm"].get(name)) for name in report.peers)),
    ]


def lines(report: BenchReport) -> list[str]:
    """The table in plain text, and what to know about it."""
    table = [heading(report), *rows(report)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    aligned = ["  ".join(_cells(row, widths)).rstrip() for row in table]
    return [*aligned, "", *notes(report)]


def notes(report: BenchReport) -> list[str]:
    """One line each: the machine, what the columns mean, what becomes of bad indices, who is missing, who cannot say what."""
    machine = report.machine
    where = f"{machine.processor}, {machine.cpus} CPUs" + (f"; {machine.gpu.name}" if machine.gpu else "")
    cannot = {(name, why): None for case in report.cases for name, why in case.cannot.items()}
    return [
        f"suite {report.suite} on {where}, {report.date}",
        "medians of interleaved rounds, warm unless it says cold; ratio: the peer's time by ours, above 1 is ahead; "
        f"{LOST} below {AHEAD:g}; of copy: rate of the bytes that must move, by the rate of a copy",
        "an index out of range, dmlgather: clamped; a negative one counts from the end, as in DirectML",
        *(f"an index out of range, {name}: {bounds}" for name, bounds in report.peers.items()),
        *(f"{name} took no part: {why}" for name, why in report.missing.items()),
        *(f"{name} cannot say {_where(report, name, why)}: {why}" for name, why in cannot),
        *_floor(report),
    ]


def rich_table(report: BenchReport, width: int) -> Any:
    """The table for a terminal of `width` columns; peers that do not fit are left out."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    cells = [heading(report), *rows(report)]
    widths = [max(map(len, column)) + 1 for column in zip(*cells, strict=True)]
    shown = max(_ALWAYS, sum(end <= width for end in accumulate(widths)))
    for place, name in enumerate(cells[0][:shown]):
        table.add_column(name, justify="left" if place in _WORDS else "right", no_wrap=True)
    for row in cells[1:]:
        table.add_row(*row[:shown], style="red" if LOST in row[_RATIO] else None)
    return table


def markdown(report: BenchReport) -> str:
    """The results as Markdown: where, versions, the table."""
    head = heading(report)
    table = [
        f"| {' | '.join(head)} |",
        f"| --- |{' ---: |' * 4} --- |{' ---: |' * (len(head) - 6)}",
        *(f"| {' | '.join(row)} |" for row in rows(report)),
    ]
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return "\n".join([*(f"- {note}" for note in (*notes(report), f"versions: {versions}")), "", *table, ""])


def _row(case: CaseReport, peers: Sequence[str]) -> Row:
    best, share = case.best("peer", "warm"), case.share_of_copy("warm")
    ratio = case.ratio("warm")
    return (
        case.name,
        f"{case.traffic.output_bytes / 1e6:.3g}",
        f"{case.ours.warm.median_ms:.3g}",
        f"{case.gigabytes_per_second('warm'):.3g}",
        "-" if share is None else f"{share:.0%}",
        "-" if best is None else best.name,
        _ratio(ratio),
        _ratio(case.ratio("cold")),
        *(_ratio(case.ratio("warm", name)) for name in peers),
    )


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.2f}" + (f" {LOST}" if round(ratio, 2) < AHEAD else "")


def _where(report: BenchReport, name: str, why: str) -> str:
    found = dict.fromkeys(case.workload for case in report.cases if case.cannot.get(name) == why)
    return ", ".join(found)


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


def _cells(row: Row, widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if place in _WORDS else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
