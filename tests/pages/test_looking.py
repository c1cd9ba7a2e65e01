"""The site in a browser: nothing is scrolled sideways at 1,280 pixels, and no line of code of the usual length is broken."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.pages.looking import browser, faults
from tests.seeds import ROOT

pytestmark = pytest.mark.heavy

WIDTH, CHARACTERS = 1280, 128

WIDE = {
    "code": f"<pre><code style='display: block; overflow: auto'>{'x ' * 200}</code></pre>",
    "lines": f"<pre><code style='display: block; line-height: 20px; white-space: pre-wrap; width: 9em'>{'x ' * 50}</code></pre>",
    "page": "<div style='width: 1400px; height: 9px'></div>",
    "table": f"<div style='overflow-x: auto'><table><tr>{'<td>twelve words</td>' * 40}</tr></table></div>",
}
"""Pages with one fault each."""


@pytest.fixture
def program() -> str:
    found = browser()
    if found is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    return found


def test_pages_are_as_wide_as_a_window(program: str, tmp_path: Path) -> None:
    subprocess.run([ROOT / "ci/docs"], check=True)
    pages = sorted((ROOT / "build/site").glob("*.html"))
    assert len(pages) > 30
    assert faults(program, pages, tmp_path, width=WIDTH, characters=CHARACTERS) == {}


def test_wide_pages_are_noticed(program: str, tmp_path: Path) -> None:
    pages = [tmp_path / f"{name}.html" for name in (*WIDE, "narrow")]
    for page in pages:
        page.write_text(f"<!doctype html><body>{WIDE.get(page.stem, '<pre><code>x</code></pre>')}</body>", encoding="utf-8")
    found = faults(program, pages, tmp_path, width=WIDTH, characters=CHARACTERS)
    kinds = {name.removesuffix(".html"): [fault.partition(":")[0] for fault in wrong] for name, wrong in found.items()}
    assert kinds == {"code": ["scrolled"], "lines": ["broken"], "page": ["scrolled"], "table": ["scrolled"]}
