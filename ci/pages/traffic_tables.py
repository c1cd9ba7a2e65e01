"""Tables of memory traffic and of the sweep, from the committed records in tests/kernels."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from ci.pages.blocks import table
from tests.kernels.goals import Goals

WORDS = ("workload", "layout", "kernel", "misses")
"""Left-aligned columns."""

Rows = dict[str, dict[str, dict[str, Any]]]

KERNELS = {"ours": "dmlgather's", "naive": "naive", "row": "row"}
"""Headings of the counted kernels by names in the record."""


def traffic_summary(rows: Rows) -> str:
    """Return a table with the median and the worst figure of each counted kernel."""
    lines: list[tuple[str, ...]] = []
    for kind, heading in KERNELS.items():
        kernels = [row[kind] for row in rows.values() if kind in row]
        fetched, used, instructions = ([kernel[name] for kernel in kernels] for name in ("fetched", "used", "instructions"))
        lines.append(
            (
                heading,
                f"{len(kernels)}",
                f"{_short(statistics.median(fetched))}; {_short(max(fetched))}",
                f"{_percent(statistics.median(used))}; {_percent(min(used))}",
                f"{_short(statistics.median(instructions))}; {_short(max(instructions))}",
            )
        )
    figures = ("fetched", "used", "PTX instructions for 16 bytes")
    return table(("kernels", "workloads", *(f"{figure}: median; worst" for figure in figures)), lines, ("kernels",))


def traffic_tables(rows: Rows) -> str:
    """Return two tables as Markdown: memory, and instructions with occupancy."""
    memory = table(
        (
            "workload",
            "fetched",
            "fetched, naive",
            "fetched, row",
            "used",
            "used, naive",
            "used, row",
            "index lines",
            "load lines",
            "store lines",
        ),
        (
            (
                name,
                *_of_each(row, "fetched", _short),
                *_of_each(row, "used", _percent),
                *(_short(row["ours"][figure]) for figure in ("index_lines", "load_lines", "store_lines")),
            )
            for name, row in rows.items()
        ),
        WORDS,
    )
    work = table(
        ("workload", "kernel", "instructions", "naive", "row", "bank passes", "resident threads", "blocks"),
        (
            (
                name,
                f"`{row['ours']['kernel']}`",
                *_of_each(row, "instructions", _short),
                *(_short(row["ours"][figure]) for figure in ("passes", "resident", "blocks")),
            )
            for name, row in rows.items()
        ),
        WORDS,
    )
    return f"{memory}\n\n{work}"


def sweep_table(rows: Rows, goals: Goals) -> str:
    """Return the number of layouts that meet the goals, and a table of the others."""
    ours = {name: row["ours"] for name, row in rows.items()}
    misses = table(
        ("layout", "kernel", "fetched", "used", "load lines", "store lines", "instructions", "misses"),
        (
            (
                re.sub(r"\[.*[\])]", r"`\g<0>`", name),
                f"`{ours[name]['kernel']}`",
                _short(ours[name]["fetched"]),
                _percent(ours[name]["used"]),
                *(_short(ours[name][figure]) for figure in ("load_lines", "store_lines", "instructions")),
                ": ".join(filter(None, (", ".join(miss.figures), miss.reason))),
            )
            for name, miss in goals.misses(ours).items()
        ),
        WORDS,
    )
    return f"{goals.summary(ours)}\n\n{misses}"


def _of_each(row: dict[str, dict[str, Any]], figure: str, shown: Callable[[Any], str]) -> Iterator[str]:
    """Return a figure of dmlgather, of the naive kernel and of the row kernel."""
    return (shown(row[kind][figure]) if kind in row else "-" for kind in ("ours", "naive", "row"))


def _short(value: float) -> str:
    return "-" if value == 0 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"
