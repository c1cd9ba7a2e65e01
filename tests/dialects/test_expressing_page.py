"""docs/expressing.md: a section per code, as the registry has it, and an example that is found under its code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dmlgather.dialects.export_codes import CODES, SOURCES
from dmlgather.directml import CODES as DIRECTML_CODES
from dmlgather.directml import SOURCES as DIRECTML_SOURCES

TEXT = (Path(__file__).parents[2] / "docs" / "expressing.md").read_text(encoding="utf-8")
SECTIONS = {
    heading: text for heading, text in (part.split("\n", 1) for part in TEXT.split("\n## ")[1:]) if heading.startswith("EXP")
}


def test_every_code_has_its_section() -> None:
    assert [heading.split(" ", 1)[0] for heading in SECTIONS] == list(CODES)
    for (heading, text), row in zip(SECTIONS.items(), CODES.values(), strict=True):
        assert heading.split(" ", 1)[1].lower() == row.title.lower(), f"docs/expressing.md: heading of {row.code}"
        assert text.strip().startswith(f"*{row.severity}* · {row.source}\n")


def test_codes_of_the_dialects_are_none_of_directml() -> None:
    assert not CODES.keys() & DIRECTML_CODES.keys()
    assert not SOURCES.keys() & DIRECTML_SOURCES.keys()


def test_every_source_is_explained_on_one_of_the_two_pages() -> None:
    rows = TEXT.split("\n## Sources")[1]
    head, line, *listed = re.findall(r"^\| (.*) \| (.*) \|$", rows, re.MULTILINE)
    assert (head, line) == (("key", "document"), ("---", "---"))
    assert listed == list(SOURCES.items())
    known = SOURCES.keys() | DIRECTML_SOURCES.keys()
    assert {key for row in CODES.values() for key in re.findall(r"\[(\w+)\]", row.source)} <= known


@pytest.mark.parametrize("heading", [heading for heading in SECTIONS if heading.startswith("EXP1")])
def test_the_example_prints_its_code(heading: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", SECTIONS[heading], re.DOTALL)  # conftest.py runs it
    assert example.splitlines()[-1].startswith(f"('{heading.split(' ', 1)[0]}', ")
