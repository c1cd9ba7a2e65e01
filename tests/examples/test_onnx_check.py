"""docs/onnx-check.md contains the reports that the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from data import MAGIKA, SILERO, DataFile

from dmlgather.directml import FeatureLevel
from dmlgather.onnx_checking.check import check_model
from tests.cli.command import process

TEXT = (Path(__file__).parents[2] / "docs" / "onnx-check.md").read_text(encoding="utf-8")
REPORTS = {block.splitlines()[0]: block.splitlines()[1:] for block in re.findall(r"```text\n\$ (.*?)```", TEXT, re.DOTALL)}


def _unnumbered(lines: list[str]) -> list[str]:
    """Return the lines without the numbers in names from shape inference, which depend on ONNX's version."""
    return [re.sub(r"unk__\d+", "unk__", line) for line in lines]


def test_versions_of_directml_have_the_documented_levels() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| (1\.\d+\.\d+)(?: to (1\.\d+\.\d+))? \| (\d_\d)( or more)? \| ([^|]+) \|$", TEXT, re.MULTILINE
    )
    assert len(rows) >= 8
    for first, last, level, more, source in rows:
        for each in filter(None, (first, last)):
            if more:
                with pytest.raises(ValueError, match="unknown version of DirectML"):
                    FeatureLevel.parse(f"DirectML {each}")
                assert "no document has its level" in source
            else:
                assert str(FeatureLevel.parse(f"DirectML {each}")) == level


def test_the_levels_of_windows_are_those_of_the_page_of_levels() -> None:
    """Judge: docs/support.md. tests/directml/ compares its rows with Microsoft's table."""
    rows = re.findall(r"^\| (Windows [^|]+) \| (1\.\d+)\.\d+ \| (\d_\d) \| (?:table|release notes only) \|$", TEXT, re.MULTILINE)
    support = (Path(__file__).parents[2] / "docs" / "support.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (1\.\d+) \| (\d_\d) \| (Windows [^|(]+) \(", support, re.MULTILINE)
    assert {(version, level, windows) for windows, version, level in rows} == {*listed}


@pytest.mark.data
@pytest.mark.parametrize("data", [MAGIKA, SILERO], ids=["magika", "silero"])
def test_the_documented_reports_are_printed(data: DataFile) -> None:
    (command,) = (command for command in REPORTS if command.endswith(f" {data.path.name}"))
    ended = process(*command.split()[1:], cwd=data.path.parent)
    assert len(REPORTS[command]) >= 4
    assert _unnumbered(REPORTS[command]) == _unnumbered((ended.out + ended.err).splitlines())


NODES = {MAGIKA: {"Slice": 3}, SILERO: {"Gather": 20, "Slice": 60}}
"""The nodes in the models, according to ONNX's loader."""

REFUSED = {MAGIKA: {"1_0": 0, "2_1": 0, "3_0": 0, "6_4": 0}, SILERO: {"1_0": 12, "2_1": 12, "3_0": 12, "6_4": 0}}
"""Slices and gathers of INT64, which DirectML supports from 4_1 on."""


@pytest.mark.data
@pytest.mark.parametrize("level", ["1_0", "2_1", "3_0", "6_4"])
@pytest.mark.parametrize("data", [MAGIKA, SILERO], ids=["magika", "silero"])
def test_every_node_of_the_real_models_is_judged(data: DataFile, level: str) -> None:
    found = check_model(data.path, level, include_host=True)
    assert {name: sum(node.operator == name for node in found.nodes) for name in NODES[data]} == NODES[data]
    refused = [node for node in found.nodes if node.verdict == "refused"]
    assert len(refused) == REFUSED[data][level]
    assert {node.inputs[0].type for node in refused} <= {"int64"}
    assert not [node for node in found.nodes if node.verdict == "unknown"]
    taken = [node for node in found.nodes if node.verdict == "taken"]
    assert {node.inputs[0].type for node in taken if level != "6_4"} <= {"float", "int32"}
