"""The documentation site contains all pages and all public names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

import dmlgather as dg

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation_once() -> None:
    content = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(_pages(content["nav"])) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_the_reference_has_every_public_name() -> None:
    listed = {name.rpartition(".")[2] for name in re.findall(r"^::: (dmlgather\S*)", (DOCS / "api.md").read_text(), re.MULTILINE)}
    assert listed == set(dg.__all__)


def _pages(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [page for item in (part.values() if isinstance(part, dict) else part) for page in _pages(item)]
