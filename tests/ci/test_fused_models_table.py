"""The table of fused models on the page about fusing: generated from the committed counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ci.fused_models_table import CLOSING, OPENING, rendered, table

ROOT = Path(__file__).parents[2]


def row(**more: Any) -> dict[str, Any]:
    names = ("moving", "launches_before", "launches_after", "bytes_before", "bytes_after")
    return {**dict.fromkeys(names, 0), "refused": None, **more}


def test_models_sums_and_what_is_not_shown() -> None:
    one = row(moving=1000, launches_before=12, launches_after=3, bytes_before=2_500_000, bytes_after=1_000_000)
    two = row(moving=2, launches_before=1, launches_after=1, bytes_before=20_000, bytes_after=20_000)
    lines = table({"a/one": one, "two": two, "none": row(moving=3), "open": row(refused="a size")}).splitlines()
    assert lines[2:5] == [
        "| `a/one` | 1,000 | 12 | 3 | 2.50 | 1.00 |",
        "| `two` | 2 | 1 | 1 | 0.02 | 0.02 |",
        "| sum | 1,002 | 13 | 4 | 2.52 | 1.02 |",
    ]
    assert lines[-1] == "1 models have no launch; 1 have no graph, because sizes follow only when they run."


def test_the_documentation_shows_the_committed_record() -> None:
    text = (ROOT / "docs" / "fusing.md").read_text()
    assert OPENING in text
    assert CLOSING in text
    assert rendered(text, ROOT) == text, "run ci/pages"
