"""The tables of traffic and of the sweep on the page about kernels, generated from the committed records (tests/kernels)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ci.pages.blocks import table
from tests.kernels.goals import Goals

WORDS = ("workload", "layout", "kernel", "misses")
"""The columns that hold words."""

Rows = dict[str, dict[str, dict[str, Any]]]


def traffic_tables(before: Rows, now: Rows) -> str:
    """Both tables as Markdown: memory, and instructions with occupancy."""
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
                *_compared(before, now, name, "fetched", _short),
                *_compared(before, now, name, "used", _percent),
                *(_changed(before, now, name, figure, _short) for figure in ("index_lines", "load_lines", "store_lines")),
            )
            for name in now
        ),
        WORDS,
    )
    work = table(
        ("workload", "kernel", "instructions", "naive", "row", "bank passes", "resident threads", "blocks"),
        (
            (
                name,
                _changed(before, now, name, "kernel", lambda kernel: f"`{kernel}`"),
                *_compared(before, now, name, "instructions", _short),
                *(_changed(before, now, name, figure, _short) for figure in ("passes", "resident", "blocks")),
            )
            for name in now
        ),
        WORDS,
    )
    return f"{memory}\n\n{work}"


def sweep_table(rows: Rows, goals: Goals) -> str:
    """How many layouts meet the goals, and a table of all of them, as Markdown."""
    ours = {name: row["ours"] for name, row in rows.items()}
    misses = goals.misses(ours)
    made = table(
        ("layout", "kernel", "fetched", "used", "load lines", "store lines", "instructions", "misses"),
        (
            (
                re.sub(r"\[.*[\])]", r"`\g<0>`", name),
                f"`{figures['kernel']}`",
                _short(figures["fetched"]),
                _percent(figures["used"]),
                *(_short(figures[each]) for each in ("load_lines", "store_lines", "instructions")),
                ": ".join(filter(None, (", ".join(misses[name].figures), misses[name].reason))) if name in misses else "",
            )
            for name, figures in ours.items()
        ),
        WORDS,
    )
    return f"{goals.summary(ours)}\n\n{made}"


def _compared(before: Rows, now: Rows, name: str, figure: str, shown: Callable[[Any], str]) -> tuple[str, ...]:
    """Ours, the naive kernel's and the row kernel's."""
    plain = (shown(now[name][kind][figure]) if kind in now[name] else "-" for kind in ("naive", "row"))
    return _changed(before, now, name, figure, shown), *plain


def _changed(before: Rows, now: Rows, name: str, figure: str, shown: Callable[[Any], str]) -> str:
    """Ours, with what it was before."""
    values = [shown(rows[name]["ours"][figure]) for rows in (before, now) if name in rows]
    return " → ".join(dict.fromkeys(values))


def _short(value: float) -> str:
    return "-" if value == 0 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"
