"""The tables of traffic on the page about kernels: generated from the committed records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ci.traffic_table import CLOSING, OPENING, rendered, tables

ROOT = Path(__file__).parents[2]


def row(kernel: str, **figures: Any) -> dict[str, Any]:
    names = ("fetched", "used", "index_lines", "load_lines", "store_lines", "instructions", "passes", "resident", "blocks")
    return {"kernel": kernel, **dict.fromkeys(names, 1.0), **figures}


def test_a_figure_that_changed_shows_what_it_was() -> None:
    before = {"rows": {"ours": row("span", used=0.25, resident=1536)}}
    now = {"rows": {"ours": row("gather", used=0.994, resident=2048, passes=0.0), "naive": row("naive", fetched=1.06)}}
    lines = tables(before, now).splitlines()
    assert "| rows | 1 | 1.06 | - | 25 % → 99 % | 100 % | - | 1 | 1 | 1 |" in lines
    assert "| rows | `span` → `gather` | 1 | 1 | - | 1 → - | 1,536 → 2,048 | 1 |" in lines


def test_a_case_that_the_first_record_lacks_shows_one_figure() -> None:
    assert "→" not in tables({}, {"rows": {"ours": row("gather")}})


def test_only_what_is_between_the_markers_is_written() -> None:
    text = f"above\n{OPENING}stale\n{CLOSING}\nbelow\n"
    fresh = rendered(text, ROOT)
    assert "stale" not in fresh
    assert fresh.startswith("above\n")
    assert fresh.endswith("below\n")
    assert rendered(fresh, ROOT) == fresh


def test_the_documentation_shows_the_committed_record() -> None:
    text = (ROOT / "docs" / "kernels.md").read_text()
    assert OPENING in text
    assert rendered(text, ROOT) == text, "run ci/pages"
