"""The tables of words in docs/explain.md: generated from the words in the package."""

from __future__ import annotations

from pathlib import Path

from ci.legend_page import rendered

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    fresh = rendered("before\n<!-- legend: names -->\nstale\n<!-- end of legend -->\nafter\n")
    assert "stale" not in fresh
    assert "| `kN` | N lookups for each element |" in fresh
    assert fresh.startswith("before\n")
    assert fresh.endswith("after\n")
    assert rendered(fresh) == fresh


def test_the_page_has_the_words_of_the_package() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- legend: ") == text.count("<!-- end of legend -->") == 5
    assert rendered(text) == text, "run ci/pages"
