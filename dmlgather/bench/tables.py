"""A report as a table: one list of rows, rendered as plain text, for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from dmlgather.bench.cluster_table import cluster_table
from dmlgather.bench.device_table import device_table
from dmlgather.bench.report import BenchReport
from dmlgather.bench.table import LOST, Row, Table


def table_of(report: BenchReport) -> Table:
    """The table that fits where the report was made."""
    return device_table(report) if report.cluster is None else cluster_table(report, report.cluster)


def lines(report: BenchReport) -> list[str]:
    """The table in plain text, and what to know about it."""
    table = table_of(report)
    cells = [table.heading, *table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = ["  ".join(_cells(row, widths, table)).rstrip() for row in cells]
    return [*aligned, "", *notes(report)]


def notes(report: BenchReport) -> list[str]:
    """One line each: the machine, what the columns mean, what becomes of bad indices, who is missing, who cannot say what."""
    machine, table = report.machine, table_of(report)
    where = f"{machine.processor}, {machine.cpus} CPUs" + (f"; {machine.gpu.name}" if machine.gpu else "")
    cannot = {(name, why): None for case in report.cases for name, why in case.cannot.items()}
    return [
        f"suite {report.suite} on {where}, {report.date}" + ("" if report.seed is None else f", seed {report.seed}"),
        *table.legend,
        "an index out of range, dmlgather: clamped; a negative one counts from the end, as in DirectML",
        *(f"an index out of range, {name}: {bounds}" for name, bounds in report.peers.items()),
        *(f"{name} took no part: {why}" for name, why in report.missing.items()),
        *(f"{name} cannot say {_where(report, name, why)}: {why}" for name, why in cannot),
        *table.footnotes,
    ]


def rich_table(report: BenchReport, width: int) -> Any:
    """The table for a terminal of `width` columns; the last columns are left out where they do not fit."""
    from rich.table import Table as RichTable

    rich, table = RichTable(box=None, padding=(0, 1, 0, 0), header_style="bold"), table_of(report)
    widths = [max(map(len, column)) + 1 for column in zip(table.heading, *table.rows, strict=True)]
    shown = max(table.always, sum(end <= width for end in accumulate(widths)))
    for place, name in enumerate(table.heading[:shown]):
        rich.add_column(name, justify="left" if place in table.words else "right", no_wrap=True)
    for row in table.rows:
        rich.add_row(*row[:shown], style="red" if any(LOST in row[place] for place in table.judged) else None)
    return rich


def markdown(report: BenchReport) -> str:
    """The results as Markdown: where, versions, the table."""
    table = table_of(report)
    ruled = [
        f"| {' | '.join(table.heading)} |",
        f"|{'|'.join(' --- ' if place in table.words else ' ---: ' for place in range(len(table.heading)))}|",
        *(f"| {' | '.join(row)} |" for row in table.rows),
    ]
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return "\n".join([*(f"- {note}" for note in (*notes(report), f"versions: {versions}")), "", *ruled, ""])


def _where(report: BenchReport, name: str, why: str) -> str:
    found = dict.fromkeys(case.workload for case in report.cases if case.cannot.get(name) == why)
    return ", ".join(found)


def _cells(row: Row, widths: Sequence[int], table: Table) -> list[str]:
    return [
        cell.ljust(width) if place in table.words else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
