"""Every rule's findings name the line and column of what they are about: each rule broken, and the reported line read.

The files are written here, value by value, so that the line of each is known without reading them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from dmlgather.directml import CODES
from tests.cli.command import Command
from tests.directml.test_findings_page import SECTIONS, Section
from tests.strategies import BREAKERS, Broken, broken_descriptors

ABSENT = {"DML701"}
"""Codes whose findings are about what is not there."""


class Written:
    """A JSON text with every key and entry on a line of its own, and those lines."""

    def __init__(self, document: Any) -> None:
        self.document, self.lines, self.places = document, list[str](), dict[tuple[str | int, ...], int]()
        self._write(document, (), "", "")

    def _write(self, value: Any, path: tuple[str | int, ...], before: str, after: str) -> None:
        self.places[path] = len(self.lines) + 1
        if not isinstance(value, dict | list) or not value:
            self.lines.append(before + json.dumps(value) + after)
            return
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        self.lines.append(before + ("{" if isinstance(value, dict) else "["))
        for number, (step, item) in enumerate(items):
            key = f"{json.dumps(step)}: " if isinstance(value, dict) else ""
            self._write(item, (*path, step), "  " * (len(path) + 1) + key, "," if number + 1 < len(items) else "")
        self.lines.append("  " * len(path) + ("}" if isinstance(value, dict) else "]") + after)

    def find(self, dotted: str) -> tuple[tuple[str | int, ...], bool]:
        """The path that a finding means, and whether all of it is there. The descriptor's "desc" goes without saying."""
        value, path = self.document, tuple[str | int, ...]()
        for name in re.findall(r"[^.\[\]]+", dotted):
            if isinstance(value, dict) and name not in value and "desc" in value:
                value, path = value["desc"], (*path, "desc")
            step = int(name) if isinstance(value, list) else name
            there = step in value if isinstance(value, dict) else isinstance(value, list) and step < len(value)
            if not there:
                return path, False
            value, path = value[step], (*path, step)
        return path, True


def _judge(command: Command, folder: Path, document: Any, level: str, code: str) -> None:
    written = Written(document)
    file = folder / "model.json"
    file.write_text("\n".join(written.lines), encoding="utf-8")
    assert json.loads(file.read_text()) == document
    report = json.loads(command("check", "--no-config", "--level", level, "--output-format", "json", file).out)
    findings = report["files"][0]["findings"]
    own = [finding for finding in findings if finding["code"] == code]
    assert own
    for finding in findings:
        path, all_of_it = written.find(f"{finding['subject']}.{finding['path']}")
        if not finding["path"]:  # about the operator as such: its type, or its structure
            lines = {written.places[*path, key]: (*path, key) for key in ("type", "desc")}
            path = lines.get(finding["line"], path)
        assert finding["line"] == written.places[path], finding
        line = written.lines[finding["line"] - 1]
        begins = line[finding["column"] - 1 :]
        key = f"{json.dumps(path[-1])}: " if path and isinstance(path[-1], str) else ""
        value = line.split(key, 1)[1] if key else line.lstrip()
        assert begins in (value, key + value), finding  # of an unknown key, the key itself
        assert all_of_it or finding["code"] in ABSENT or "desc" in path, finding


@pytest.mark.parametrize("section", SECTIONS.values(), ids=lambda section: section.code)
def test_the_examples_of_every_code(section: Section, tmp_path: Path, command: Command) -> None:
    np.save(tmp_path / "values.npy", np.arange(4, dtype=np.int32))
    _judge(command, tmp_path, section.failing, section.level, section.code)


@pytest.mark.slow
@settings(max_examples=90, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=broken_descriptors())
def test_every_rule_broken_at_random(tmp_path: Path, command: Command, found: Broken) -> None:
    document = json.loads(json.dumps(found.desc.document()))
    _judge(command, tmp_path, document, str(found.level), found.code)


def test_every_code_is_broken() -> None:
    assert list(SECTIONS) == list(CODES)
    assert set(BREAKERS) <= set(CODES)
