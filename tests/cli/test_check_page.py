"""docs/check.md: its tables are what the code says, and its files are what it says they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dmlgather.report.configuration import Configuration, Ignore
from dmlgather.report.formats import FORMATS
from tests.cli.command import ROOT, Command

TEXT = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")


def _table(heading: str) -> list[tuple[str, ...]]:
    """The rows of the first table with this heading."""
    found = re.search(rf"^{re.escape(heading)}\n\|[- |]*\|\n((?:\|.*\|\n)+)", TEXT, re.MULTILINE)
    assert found
    return [tuple(cell.strip() for cell in row.strip("|").split(" | ")) for row in found[1].splitlines()]


def _fields(model: Any, prefix: str = "") -> list[tuple[str, str]]:
    properties = model.model_json_schema(by_alias=False)["properties"]
    return [(f"`{prefix}{name}`", " ".join(field["description"].split())) for name, field in properties.items()]


def test_every_key_of_the_configuration() -> None:
    assert _table("| key | means |") == [*_fields(Configuration), *_fields(Ignore, "ignore.")]


def test_every_format() -> None:
    assert [row[0] for row in _table("| format | is | chosen |")] == [f"`{name}`" for name in FORMATS]


def test_the_configuration_that_is_shown(folder: Path, command: Command) -> None:
    (shown,) = re.findall(r'```toml title="example/pyproject.toml"\n(.*?)```', TEXT, re.DOTALL)
    (folder / "pyproject.toml").write_text(shown)
    (folder / "a.json").write_text('{"type": "DML_OPERATOR_SLICE"}')
    assert "a.json" in command("check", "a.json").err
