"""docs/findings.md: a section per code, whose failing example is found under that code and whose mended one is clean."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlgather.directml import CODES, SOURCES, Finding, Severity, minimum_level, parse_descriptor, validate
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.report.code_registry import explanation
from dmlgather.report.rule_examples import shared_example, written_out

PAGE = Path(__file__).parents[2] / "docs" / "findings.md"
TEXT = PAGE.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Section:
    """One code's section."""

    code: str
    title: str
    text: str
    level: str
    failing: dict[str, Any]
    mended: dict[str, Any]


def _sections() -> dict[str, Section]:
    found = {}
    for part in TEXT.split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        if heading == "Sources" or heading.startswith("Example of"):
            continue
        code, _, title = heading.partition(" ")
        shown = explanation(code)
        failing, mended = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", shown, re.DOTALL))
        level = re.search(r"Fails at feature level (\d_\d):", shown)
        found[code] = Section(code, title, text, level[1] if level else "6_4", failing, mended)
    return found


SECTIONS = _sections()


def _findings(example: dict[str, Any], level: str, folder: Path) -> list[Finding]:
    if "type" in example:
        return list(validate(parse_descriptor(example), level).findings)
    np.save(folder / "values.npy", np.arange(4, dtype=np.int32))
    file = folder / "model.json"
    file.write_text(json.dumps(example), encoding="utf-8")
    checked = check_file(file, level)
    assert not checked.problems
    return list(checked.findings)


def test_every_code_has_its_section() -> None:
    assert list(SECTIONS) == list(CODES)
    for code, row in CODES.items():
        section = SECTIONS[code]
        assert section.title.lower() == row.title.lower(), f"docs/findings.md: the heading of {code} must be its title"
        assert section.text.strip().startswith(f"*{row.severity}* · {row.source}\n")


def test_a_title_states_what_must_or_should_hold() -> None:
    words = {code: {"must", "should"} & set(row.title.split()) for code, row in CODES.items()}
    assert words == {code: {"should" if row.severity is Severity.WARNING else "must"} for code, row in CODES.items()}


def test_every_source_is_explained() -> None:
    rows = TEXT.split("\n## Sources")[1]
    head, line, *listed = re.findall(r"^\| (.*) \| (.*) \|$", rows, re.MULTILINE)
    assert (head, line) == (("key", "document"), ("---", "---"))
    assert listed == list(SOURCES.items())


def test_a_diff_of_a_line_that_the_example_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no line like"):
        written_out('```diff\n-    "absent": 1\n+    "absent": 2\n```', TEXT)
    with pytest.raises(ValueError, match="no example before"):
        shared_example("## DML101", "# Findings\n")


def test_the_shared_examples_have_no_fault(tmp_path: Path) -> None:
    examples = re.findall(r"^## Example of .*?\n\n```json\n(.*?)```", TEXT, re.DOTALL | re.MULTILINE)
    assert len(examples) == 8
    for example in examples:
        assert _findings(json.loads(example), "6_4", tmp_path) == []


@pytest.mark.parametrize("section", SECTIONS.values(), ids=lambda section: section.code)
def test_examples(section: Section, tmp_path: Path) -> None:
    failing = _findings(section.failing, section.level, tmp_path)
    own = [finding for finding in failing if finding.code == section.code]
    assert own
    assert not [finding for finding in failing if finding.code != section.code and finding.severity is not Severity.NOTE]
    mended = _findings(section.mended, section.level, tmp_path)
    assert not [finding for finding in mended if finding.severity is not Severity.NOTE or finding.code == section.code]


def test_examples_of_levels_name_the_level_that_accepts() -> None:
    for code in ("DML201", "DML202", "DML203"):
        section = SECTIONS[code]
        desc = parse_descriptor(section.failing)
        levels = {finding.level for finding in validate(desc, section.level).findings}
        assert levels == {minimum_level(desc)} != {None}
