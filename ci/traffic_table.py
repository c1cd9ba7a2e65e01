"""The tables of traffic and of the sweep on the page about kernels, generated from the committed records.

<!-- traffic: ci/pages writes it -->
(generated)
<!-- end of traffic -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.kernels.goals import Goals

RECORDS = "tests/kernels/traffic_before.json", "tests/kernels/traffic.json"
SWEEP = "tests/kernels/sweep.json"
OPENING, CLOSING = "<!-- {}: ci/pages writes it -->\n", "<!-- end of {} -->"

Rows = dict[str, dict[str, dict[str, Any]]]


def rendered(text: str, root: Path) -> str:
    """`text` with new tables between the markers. root: the folder with the records."""
    before, now, sweep = (json.loads((root / name).read_text(encoding="utf-8")) for name in (*RECORDS, SWEEP))
    text = _between(text, "traffic", tables(before["rows"], now["rows"]))
    return _between(text, "sweep", sweep_table(sweep["rows"], Goals(**sweep["goals"])))


def _between(text: str, name: str, content: str) -> str:
    """`text` with this content between the markers of that name; as it is, where it has none."""
    opening, closing = OPENING.format(name), CLOSING.format(name)
    head, found, rest = text.partition(opening)
    return f"{head}{opening}\n{content}\n{closing}{rest.partition(closing)[2]}" if found else text


def tables(before: Rows, now: Rows) -> str:
    """Both tables as Markdown: memory, and instructions with occupancy."""
    memory = _table(
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
    )
    work = _table(
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
    )
    return f"{memory}\n\n{work}\n"


def sweep_table(rows: Rows, goals: Goals) -> str:
    """How many layouts meet the goals, and a table of all of them, as Markdown."""
    ours = {name: row["ours"] for name, row in rows.items()}
    misses = goals.misses(ours)
    table = _table(
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
    )
    return f"{goals.summary(ours)}\n\n{table}\n"


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


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    ruled = ("---" if word in ("workload", "layout", "kernel", "misses") else "---:" for word in heading)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, tuple(ruled), *rows))
