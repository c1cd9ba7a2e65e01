"""Tables of benchmark results in pages: generated from the committed files."""

from __future__ import annotations

from pathlib import Path

from ci.benchmark_tables import markdown, rendered
from tests.benchmarks.test_report import REPORT

ROOT = Path(__file__).parents[2]


def test_markdown_has_every_ratio() -> None:
    text = markdown(REPORT)
    assert "- versions: python 3.13.1, numpy 2.4" in text
    assert "| ahead float32 | 1 | 1 | 2.2 | 15% | torch | 2.00 | 1.00 | 3.00 | 2.00 |" in text
    assert "| behind float32 | 1 | 2 | 1.1 | 8% | numpy | 0.50 ◀ | 2.00 | 0.50 ◀ | - |" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_a_document_is_rendered_from_the_files_it_names(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(REPORT.to_json())
    text = "before\n<!-- results: one.json -->\nstale\n<!-- end of results -->\nafter\n"
    fresh = rendered(text, tmp_path)
    assert markdown(REPORT) in fresh
    assert "stale" not in fresh
    assert fresh.startswith("before\n")
    assert fresh.endswith("after\n")
    assert rendered(fresh, tmp_path) == fresh


def test_the_documentation_shows_the_committed_results() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert "<!-- results: benchmarks/results/cpu-" in text
    assert "<!-- results: benchmarks/results/distributed-" in text
    assert rendered(text, ROOT) == text, "run ci/pages"
