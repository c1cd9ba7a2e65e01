"""The sections of the pages that explain codes: docs/findings.md and docs/expressing.md, which the wheel carries."""

from __future__ import annotations

import re
from functools import cache

from dmlgather.files import read_text, shipped
from dmlgather.report.code_registry import CODES, PAGES, SOURCES

_SECTION = re.compile(r"^## (?P<code>[A-Z]{3}\d{3}) [^\n]*\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"\s*\*\w+\* · [^\n]*\n")


def explanation(code: str) -> str:
    """The section about a code, as Markdown: why the rule exists, an example that breaks it and one that does not.

    The heading, the severity and the source are left out, which the registry of codes has as well.
    """
    return _sections(PAGES[code[:3]])[code]


def documents(code: str) -> dict[str, str]:
    """The documents that the rule comes from, by the keys in brackets of its source."""
    return {key: SOURCES[key] for key in re.findall(r"\[([A-Z0-9-]+)\]", CODES[code].source)}


@cache
def _sections(page: str) -> dict[str, str]:
    text = read_text(shipped(page))
    return {found["code"]: _HEAD.sub("", found["text"], count=1).strip() for found in _SECTION.finditer(text)}
