"""The table of optimised models on ONNX's page: generated from the committed verdicts."""

from __future__ import annotations

from pathlib import Path

from ci.optimised_models_table import CLOSING, OPENING, rendered, table

ROOT = Path(__file__).parents[2]


def test_verdicts_are_counted_without_the_step_that_stops_a_proof() -> None:
    one = {"basic": "proven", "extended": "not proven: Add node 'a'"}
    two = {"basic": "not proven: Add node 'b'", "extended": "no graph"}
    assert table({"one": one, "two": two}).splitlines()[2:] == ["| basic | 1 | 1 | 0 | 0 |", "| extended | 0 | 1 | 0 | 1 |"]


def test_the_documentation_shows_the_committed_record() -> None:
    text = (ROOT / "docs" / "onnx.md").read_text()
    assert OPENING in text
    assert CLOSING in text
    assert rendered(text, ROOT) == text, "run ci/pages"
