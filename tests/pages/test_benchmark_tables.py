"""Tables of benchmark results in pages: generated from the committed files."""

from __future__ import annotations

from ci.pages.benchmark_tables import markdown
from tests.benchmarks.test_report import REPORT


def test_markdown_has_every_ratio() -> None:
    text = markdown(REPORT)
    assert "- versions: python 3.13.1, numpy 2.4" in text
    assert "| ahead float32 | 1 | 1 | 2.2 | 15% | torch | 2.00 | 1.00 | 3.00 | 2.00 |" in text
    assert "| behind float32 | 1 | 2 | 1.1 | 8% | numpy | 0.50 ◀ | 2.00 | 0.50 ◀ | - |" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
