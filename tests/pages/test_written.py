"""What the code generates is what the checkout has, and a block is written without touching the rest of its page."""

from __future__ import annotations

import pytest

from ci.pages.blocks import replaced, table
from ci.pages.written import ROOT, blocks, written

WRITTEN = dict(written())
PAGE = "above\n<!-- words: ci/pages writes it -->\n\nstale\n\n<!-- end of words -->\nbelow\n"


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_is_what_the_code_writes(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == WRITTEN[name], "run .venv/bin/python -m ci.pages"


def test_no_page_has_a_block_that_nothing_writes() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert text.count(": ci/pages writes it -->") == len(blocks().get(page.relative_to(ROOT).as_posix(), ())), page


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    assert replaced(PAGE, {"words": "fresh\n"}) == PAGE.replace("stale", "fresh")


@pytest.mark.parametrize(
    ("text", "lacks"), [("above", "<!-- words: ci/pages"), (PAGE.replace("end of", "end"), "<!-- end of words -->")]
)
def test_a_page_without_the_block_is_refused(text: str, lacks: str) -> None:
    with pytest.raises(ValueError, match=f"the page lacks '{lacks}"):
        replaced(text, {"words": ""})


def test_columns_of_words_are_aligned_at_the_left() -> None:
    assert table(("a", "b"), [("1", "2")], ("a",)) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
    assert table(("a", "b"), []) == "| a | b |\n| --- | --- |"
