"""Tables of memory traffic and of the sweep, generated from the committed records."""

from __future__ import annotations

from typing import Any

from ci.pages.traffic_tables import sweep_table, traffic_summary, traffic_tables
from tests.kernels.goals import Goals


def row(kernel: str, **figures: Any) -> dict[str, Any]:
    names = ("fetched", "used", "index_lines", "load_lines", "store_lines", "instructions", "passes", "resident", "blocks")
    return {"kernel": kernel, **dict.fromkeys(names, 1.0), **figures}


def test_a_workload_shows_the_plain_kernels_beside_ours() -> None:
    rows = {"rows": {"ours": row("gather", used=0.994, resident=2048, passes=0.0), "naive": row("naive", fetched=1.06)}}
    lines = traffic_tables(rows).splitlines()
    assert "| rows | 1 | 1.06 | - | 99 % | 100 % | - | 1 | 1 | 1 |" in lines
    assert "| rows | `gather` | 1 | 1 | - | - | 2,048 | 1 |" in lines


def test_the_summary_has_median_and_worst_of_each_kernel() -> None:
    rows = {
        "one": {"ours": row("gather", fetched=3.0, used=0.5), "naive": row("naive", instructions=1090)},
        "two": {"ours": row("gather"), "naive": row("naive", instructions=200), "row": row("row")},
        "three": {"ours": row("gather", used=0.75), "naive": row("naive", instructions=10)},
    }
    assert traffic_summary(rows).splitlines()[2:] == [
        "| dmlgather's | 3 | 1; 3 | 75 %; 50 % | 1; 1 |",
        "| naive | 3 | 1; 1 | 100 %; 100 % | 200; 1,090 |",
        "| row | 1 | 1; 1 | 100 %; 100 % | 1; 1 |",
    ]


def test_a_layout_that_misses_a_goal_is_shown_with_it() -> None:
    rows = {
        "heads: [2, 3, 4].transpose(1, 0, 2), uint8": {"ours": row("copy")},
        "flip: [2, 3][:, ::-1], uint8": {"ours": row("copy", fetched=2.0, used=0.5, reason="many flips")},
        "rows of 4": {"ours": row("gather", fetched=1.12, reason="few rows")},
    }
    lines = sweep_table(rows, Goals(used=0.95, needed=0.9, share=0.8)).splitlines()
    assert lines[0].startswith(
        "1 of 3 cases (33 %) meet both goals: used is at least 0.95, and 1 / fetched at least 0.9. The aim is 80 %."
    )
    assert lines[0].endswith("1 of the 2 others have a reason.")
    assert lines[-3].startswith("| ---")
    assert lines[-2:] == [
        "| flip: `[2, 3][:, ::-1]`, uint8 | `copy` | 2 | 50 % | 1 | 1 | 1 | fetched, used |",
        "| rows of 4 | `gather` | 1.12 | 100 % | 1 | 1 | 1 | fetched: few rows |",
    ]
