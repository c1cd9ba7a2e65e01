"""Tables of benchmark results in pages: generated from the committed files."""

from __future__ import annotations

from ci.pages.benchmark_tables import full, markdown, summary
from tests.benchmarks.test_report import REPORT


def test_markdown_has_every_ratio() -> None:
    text = markdown(REPORT)
    assert "- versions: python 3.13.1, numpy 2.4" in text
    assert "| ahead float32 | 1 | 1 | 2.2 | 15% | torch | 2.00 | 1.00 | 3.00 | 2.00 |" in text
    assert "| behind float32 | 1 | 2 | 1.1 | 8% | numpy | 0.50 ◀ | 2.00 | 0.50 ◀ | - |" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_the_summary_has_means_and_the_cases_of_faster_peers() -> None:
    lines = summary("results.md", REPORT).splitlines()
    assert lines[0] == "Measured on 2026-01-02 (Abacus, 2 CPUs). All cases: `results.md`."
    assert lines[2] == "| ratio | best peer | numpy | torch |"
    assert lines[4] == "| geometric mean of 2 cases, warm | 1.00 | 1.23 | 2.00 |"  # 1.225, the square root of 1.5
    assert lines[6:] == ["| behind float32 | 0.50 ◀ | 0.50 ◀ | – |"]


def test_the_file_has_the_full_table() -> None:
    text = full("results.json", REPORT)
    assert text.startswith("# Suite cpu\n\nThe figures of results.json.")
    assert text.endswith(f"{markdown(REPORT)}\n")
